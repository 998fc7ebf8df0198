"""A store with an index of vectors beside it: what a write leaves waiting, and the task that embeds it."""

from octavo.wraps.vectors.comparing import Differences
from octavo.wraps.vectors.indexed import COLLECTIONS, Indexed, Status, VectorState

__all__ = ["COLLECTIONS", "Differences", "Indexed", "Status", "VectorState"]
