"""Memory that people bring along: one reader for each format, and one writer for all of them."""
