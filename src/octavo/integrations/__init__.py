"""Octavo inside other people's frameworks. Each module needs its framework, and is imported only by those who have it."""
