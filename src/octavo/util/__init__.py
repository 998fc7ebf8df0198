"""Tools of any program, which know nothing of records: caches, event loops, file modes, other people's code."""
