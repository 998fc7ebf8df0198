"""An embedder for tests of plumbing."""

import hashlib
import re
from array import array
from collections.abc import Sequence

from octavo.errors import ConfigError
from octavo.kernel.ports import Vector
from octavo.kernel.text import fold


class HashEmbedder:
    """Deterministic vectors from hashed words, for tests of plumbing only: it finds nothing by meaning.

    The same text has the same vector in every process, and texts that share words are nearer than those that do not.
    """

    def __init__(self, dimensions: int = 64) -> None:
        if dimensions < 1:
            raise ConfigError(f"dimensions must be 1 or more; got {dimensions}")
        self._dimensions = dimensions

    @property
    def name(self) -> str:
        return f"hash-for-tests:{self._dimensions}"

    def __repr__(self) -> str:
        return f"HashEmbedder({self._dimensions})"

    def reads(self, text: str) -> bool:  # noqa: ARG002 - the port's
        """Everything, and understands none of it."""
        return True

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:  # noqa: ARG002
        """One vector of unit length for each text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        values = [0.0] * self._dimensions
        for word in re.findall(r"\w+", fold(text)):
            self._count(word, values)
        if not any(values):  # no words, or words that cancel out
            values = [0.0] * self._dimensions
            self._count(f"the text {text!r}", values)
        length = sum(value * value for value in values) ** 0.5
        return array("f", [value / length for value in values])

    def _count(self, word: str, values: list[float]) -> None:
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest)
        values[number // 2 % self._dimensions] += 1.0 if number % 2 else -1.0

    async def close(self) -> None:
        """Nothing to do."""
