"""Other people's SQL memories, each run in an environment of its own and driven over a pipe."""
