"""The contract of a vector index as tests anybody can run: subclass VectorIndexContract, say how to open yours."""

from octavo.testing.vector_entries import Entries
from octavo.testing.vector_lives import Lives

__all__ = ["VectorIndexContract"]


class VectorIndexContract(Entries, Lives):
    """Every promise a vector index makes, as tests; see docs/vectors.md."""
