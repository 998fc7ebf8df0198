"""What is held in memory only to be quicker: all caches of a process share one budget of bytes."""

import itertools
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DEFAULT_BYTES = 64 * 2**20
_ENTRY_BYTES = 300  # what an entry takes beside its key and value: its slots in two dicts, about


class _Budget:
    """The entries of all caches, the one not used for longest first, and the bytes that they take together."""

    def __init__(self) -> None:
        self.most_bytes = DEFAULT_BYTES
        self.used_bytes = 0
        self.cleared = 0  # how often all was let go of
        self.hits = self.misses = 0
        self.sizes: OrderedDict[tuple[int, Any], int] = OrderedDict()
        self.caches: weakref.WeakValueDictionary[int, Cache[Any, Any]] = weakref.WeakValueDictionary()
        self.numbers = itertools.count()
        # Entered again by the thread that has it: a cache may be collected as rubbish at any moment, and then leaves.
        self.lock = threading.RLock()

    def shrink(self) -> None:
        while self.used_bytes > self.most_bytes and self.sizes:
            (number, key), size = self.sizes.popitem(last=False)
            self.used_bytes -= size
            if (cache := self.caches.get(number)) is not None:
                cache._drop(key)  # noqa: SLF001 - its own

    def leave(self, number: int) -> None:
        with self.lock:
            for entry in [entry for entry in self.sizes if entry[0] == number]:
                self.used_bytes -= self.sizes.pop(entry)


_budget = _Budget()


class Cache(Generic[K, V]):
    """Some of the values that were put in: those used last, of all caches of this process, as far as the budget goes.

    It holds at most `most` of them, if that is given, and calls `dropped` with what it let go of by itself.
    """

    def __init__(self, most: int | None = None, dropped: "Callable[[K, V], None] | None" = None) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()
        self._most = most
        self._dropped = dropped
        self._number = next(_budget.numbers)
        _budget.caches[self._number] = self
        weakref.finalize(self, _budget.leave, self._number)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, if it is still held; it then is the one used last."""
        with _budget.lock:
            value = self._values.get(key)
            if value is None:
                _budget.misses += 1
            else:
                _budget.hits += 1
                self._values.move_to_end(key)
                _budget.sizes.move_to_end((self._number, key))
            return value

    def put(self, key: K, value: V, size_bytes: int) -> None:
        """Hold a value of that size, unless it is larger than an eighth of the budget: it would push out all others."""
        size = size_bytes + _ENTRY_BYTES
        with _budget.lock:
            self.pop(key)
            if size > _budget.most_bytes // 8:
                if self._dropped is not None:
                    self._dropped(key, value)
                return
            self._values[key] = value
            _budget.sizes[self._number, key] = size
            _budget.used_bytes += size
            while self._most is not None and len(self._values) > self._most:
                oldest = next(iter(self._values))
                _budget.used_bytes -= _budget.sizes.pop((self._number, oldest))
                self._drop(oldest)
            _budget.shrink()

    def pop(self, key: K) -> V | None:
        """Let go of a value."""
        with _budget.lock:
            _budget.used_bytes -= _budget.sizes.pop((self._number, key), 0)
            return self._values.pop(key, None)

    def clear(self) -> None:
        """Let go of all, and say so."""
        with _budget.lock:
            for key in list(self._values):
                _budget.used_bytes -= _budget.sizes.pop((self._number, key), 0)
                self._drop(key)

    def _drop(self, key: K) -> None:
        value = self._values.pop(key, None)
        if value is not None and self._dropped is not None:
            self._dropped(key, value)


def set_budget(most_bytes: int) -> None:
    """How many bytes all caches of this process may take together."""
    with _budget.lock:
        _budget.most_bytes = most_bytes
        _budget.shrink()


def clear_caches() -> None:
    """Let go of all that this process holds only to be quicker: somebody's data was erased, here or elsewhere."""
    with _budget.lock:
        _budget.cleared += 1
        for cache in list(_budget.caches.values()):
            cache.clear()


def times_cleared() -> int:
    """How often that was done; who holds something outside of a Cache lets go of it when this changes."""
    return _budget.cleared


def hits_and_misses() -> tuple[int, int]:
    """How often a value that was asked for was held, and how often not."""
    return _budget.hits, _budget.misses


def used_bytes() -> int:
    """How many bytes the caches take now, about."""
    return _budget.used_bytes


def size_of(*texts: str) -> int:
    """The bytes that texts take in memory: of Chinese, twice as many as there are characters; of emoji, four times."""
    return sum(map(sys.getsizeof, texts))
