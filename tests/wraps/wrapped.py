"""The contract as wraps are held to it."""

from octavo.testing import StoreContract


class Wrapped(StoreContract):
    """What is behind a wrap keeps the contract by itself: a third of the programs, and a batch over every limit, show the wrap."""

    programs = 100
    largest_batch = 5_000
