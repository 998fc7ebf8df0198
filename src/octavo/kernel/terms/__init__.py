"""What text becomes so that it can be found: the same terms on every backend, made here and nowhere else.

Nothing is imported here: the patterns of `terms` and `dates` take time to build, and only a search needs them.
"""

#: Characters of a term; of a longer run of letters the first ones are kept, so that every engine takes it whole.
LONGEST_TERM = 64
#: What the term of a topic begins with; no word of a text does.
TOPIC_PREFIX = "0topic0"


def is_topic(term: str) -> bool:
    """Whether a term is a topic, and not a word of a text."""
    return term.startswith(TOPIC_PREFIX)
