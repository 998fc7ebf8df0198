"""What text becomes so that it can be found: the same terms on every backend, made here and nowhere else.

Nothing is imported here: the patterns of `terms` and `dates` take time to build, and only a search needs them.
"""
