"""The vectors of one scope as one matrix."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octavo.kernel.ports import EntryKey, Near, Vector
from octavo.vectors.base import best, cosine

_ROW_BYTES = 400  # what the names of one entry take, about


class Sheet:
    """Entries with their vectors side by side; a row is found by the name its vector is kept under."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._vectors: NDArray[np.float32] = np.empty((0, dimensions), np.float32)
        self._codes: NDArray[np.int16] = np.empty(0, np.int16)
        self._collections: dict[str, int] = {}  # name → code
        self._names: list[str] = []
        self._entries: list[tuple[EntryKey, str]] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    @property
    def size_bytes(self) -> int:
        return self._vectors.nbytes + _ROW_BYTES * len(self._names)

    def put(self, entries: Iterable[tuple[str, EntryKey, str, bytes]]) -> None:
        """Keep or replace rows: name, key, digest and the vector's bytes."""
        fitting = [entry for entry in entries if len(entry[3]) == 4 * self.dimensions]
        if not fitting:
            return
        self._make_room(len(self._names) + len(fitting))
        rows = [self._row(name, key, digest) for name, key, digest, _ in fitting]
        bodies = np.frombuffer(b"".join([body for *_, body in fitting]), "<f4")
        self._vectors[rows] = bodies.reshape(len(fitting), self.dimensions)

    def _row(self, name: str, key: EntryKey, digest: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self._names)
            self._names.append(name)
            self._entries.append((key, digest))
            self._codes[row] = self._collections.setdefault(key.collection, len(self._collections))
        else:
            self._entries[row] = (key, digest)
        return row

    def drop(self, names: Iterable[str]) -> None:
        """Remove rows; the last row moves into each gap."""
        for name in names:
            row = self._rows.pop(name, None)
            if row is None:
                continue
            last = len(self._names) - 1
            if row != last:
                self._vectors[row] = self._vectors[last]
                self._codes[row] = self._codes[last]
                self._names[row], self._entries[row] = self._names[last], self._entries[last]
                self._rows[self._names[row]] = row
            self._names.pop()
            self._entries.pop()

    def nearest(self, vector: Vector, collections: list[str], limit: int) -> list[Near]:
        """The rows with the highest cosines, equals ordered by key."""
        wanted = [code for name in collections if (code := self._collections.get(name)) is not None]
        count = len(self._names)
        if not wanted or not count:
            return []
        scores: Any = self._vectors[:count] @ np.frombuffer(vector, np.float32)
        rows: Any = None
        if len(wanted) < len(self._collections):
            rows = np.flatnonzero(np.isin(self._codes[:count], wanted))
            scores = scores[rows]
        if limit < len(scores):
            edge = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            # A little below the last one: rows whose scores are told alike must meet, whichever was computed higher.
            among = np.flatnonzero(scores >= edge - 2e-6)
            scores = scores[among]
            rows = among if rows is None else rows[among]
        numbers = range(count) if rows is None else rows.tolist()
        entries = self._entries
        found = [
            Near(entries[row][0], entries[row][1], cosine(score))
            for row, score in zip(numbers, scores.tolist(), strict=True)
        ]
        return best(found, limit)

    def _make_room(self, count: int) -> None:
        if count <= len(self._codes):
            return
        size = max(count, len(self._codes) * 3 // 2, 16)
        vectors = np.empty((size, self.dimensions), np.float32)
        codes = np.empty(size, np.int16)
        held = len(self._names)
        vectors[:held], codes[:held] = self._vectors[:held], self._codes[:held]
        self._vectors, self._codes = vectors, codes
