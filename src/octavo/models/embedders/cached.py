"""What was embedded is not embedded again, for as long as there is room to remember it."""

import hashlib
from collections.abc import Sequence

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Embedder, Vector
from octavo.models.embedders.answers import RefusedText, check_texts
from octavo.util.cache import Cache


class Cached:
    """An embedder that remembers the last `entries` vectors in memory, by a hash of space, asking and text."""

    def __init__(self, embedder: Embedder, entries: int = 10_000) -> None:
        if entries < 0:
            raise ConfigError(f"entries must be 0 or more; got {entries}")
        self._embedder = embedder
        self._entries = entries
        self._kept: Cache[bytes, Vector] = Cache(entries)

    @property
    def name(self) -> str:
        return self._embedder.name

    def __repr__(self) -> str:
        return f"Cached({self._embedder!r}, {self._entries})"

    def reads(self, text: str) -> bool:
        """What the embedder inside reads."""
        return self._embedder.reads(text)

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text, remembered or new."""
        given = check_texts(texts)
        keys = [self._key(text, asking=asking) for text in given]
        known = {key: vector for key in keys if (vector := self._kept.get(key)) is not None}
        new = {key: text for key, text in zip(keys, given, strict=True) if key not in known}
        if new:
            for key, vector in zip(new, await self._ask(new, keys, asking=asking), strict=True):
                known[key] = vector
                self._kept.put(key, vector, vector.itemsize * len(vector) + 100)
        return [known[key][:] for key in keys]  # copies: a caller may change what it got

    async def _ask(self, new: dict[bytes, str], keys: list[bytes], *, asking: bool) -> list[Vector]:
        try:
            vectors = await self._embedder.embed(list(new.values()), asking=asking)
        except RefusedText as refused:  # it knows the text's number among the new ones, not in the call
            if refused.number is None:
                raise
            number = keys.index(list(new)[refused.number - 1]) + 1
            raise RefusedText(number, refused.reason) from refused.__cause__
        if len(vectors) != len(new):
            raise ModelError(f"{self._embedder!r} answered {len(vectors)} vectors to {len(new)} texts")
        return vectors

    def _key(self, text: str, *, asking: bool) -> bytes:
        space = f"{len(self.name)}:{self.name}:{int(asking)}:"
        return hashlib.blake2b((space + text).encode(), digest_size=16).digest()

    async def close(self) -> None:
        """Forget everything and close the embedder inside."""
        self._kept.clear()
        await self._embedder.close()
