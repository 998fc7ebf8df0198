"""What was embedded is not embedded again, and what is asked for at the same time is asked of the model together."""

import asyncio
import copy
import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from octavo.errors import ConfigError, ModelError, OctavoError
from octavo.kernel.ports import Embedder, Vector
from octavo.models.embedders.answers import RefusedText, asked
from octavo.util.cache import Cache

_MOST = 1024  # texts in one call of the model, which divides them as it likes


_REFUSALS = 16  # refused texts looked for in one call; with more, it is not the texts that are wrong


class _Wanted(msgspec.Struct):
    """A text that somebody waits for."""

    text: str
    answer: "asyncio.Future[Vector]"


class Cached:
    """An embedder that remembers the last `entries` vectors in memory, by a hash of space, asking and text.

    Cancelling a caller stops nobody else's answer. A text the model refuses fails only those who asked for it.
    """

    def __init__(self, embedder: Embedder, entries: int = 10_000) -> None:
        if entries < 0:
            raise ConfigError(f"entries must be 0 or more; got {entries}")
        self._embedder = embedder
        self._entries = entries
        self._kept: Cache[bytes, Vector] = Cache(entries)
        self._coming: dict[bytes, asyncio.Future[Vector]] = {}
        # Questions have a lane of their own: somebody waits for them, while records may come in thousands.
        self._lanes = {asking: _Lane(embedder, asking=asking) for asking in (True, False)}

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
        given = asked(texts)
        keys = [self._key(text, asking=asking) for text in given]
        known: dict[bytes, Vector] = {}
        awaited: dict[bytes, asyncio.Future[Vector]] = {}
        lane = self._lanes[asking]
        for key, text in zip(keys, given, strict=True):
            if (vector := self._kept.get(key)) is not None:
                known[key] = vector
            elif key not in awaited:
                if _gone(self._coming.get(key)):
                    lane.take(_Wanted(text, self._expected(key)))
                awaited[key] = self._coming[key]
        if awaited:
            await asyncio.wait(awaited.values())  # unlike gather, it cancels nobody's answer with this caller
            known.update({key: _result(answer, keys, key) for key, answer in awaited.items()})
        return [known[key][:] for key in keys]  # copies: a caller may change what it got

    def _key(self, text: str, *, asking: bool) -> bytes:
        space = f"{len(self.name)}:{self.name}:{int(asking)}:"
        return hashlib.blake2b((space + text).encode(), digest_size=16).digest()

    def _expected(self, key: bytes) -> "asyncio.Future[Vector]":
        answer: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
        self._coming[key] = answer
        answer.add_done_callback(lambda done: self._arrived(key, done))
        return answer

    def _arrived(self, key: bytes, answer: "asyncio.Future[Vector]") -> None:
        if self._coming.get(key) is answer:
            del self._coming[key]
        if answer.cancelled() or answer.exception() is not None:
            return
        vector = answer.result()
        self._kept.put(key, vector, vector.itemsize * len(vector) + 100)

    async def close(self) -> None:
        """Close the embedder inside; who still waits gets a ModelError."""
        for lane in self._lanes.values():
            await lane.close()
        self._kept.clear()
        await self._embedder.close()


class _Lane:
    """Texts on their way to the model: while it works on one call, those for the next one gather."""

    def __init__(self, embedder: Embedder, *, asking: bool) -> None:
        self._embedder = embedder
        self._asking = asking
        self._waiting: deque[_Wanted] = deque()
        self._group: list[_Wanted] = []
        self._task: asyncio.Task[None] | None = None

    def take(self, wanted: _Wanted) -> None:
        if self._task is None or _gone(self._task):  # with the loop, all who waited in it have gone too
            self._group, self._waiting = [], deque()
            self._start()
        elif self._task.done():
            self._abandon()
            self._start()
        self._waiting.append(wanted)

    def _start(self) -> None:
        self._task = asyncio.create_task(self._work())
        # Not `finally` in the task: one that is cancelled before its first step runs no line of it.
        self._task.add_done_callback(lambda done: self._abandon() if self._task is done else None)

    async def close(self) -> None:
        if self._task is not None and not _gone(self._task):
            self._task.cancel()
            await asyncio.wait([self._task])

    def _abandon(self) -> None:
        """Nobody may wait for ever: whoever is left when the work has ended is told so."""
        error = ModelError("the embedder was closed before the text was embedded")
        _fail([*self._group, *self._waiting], error)
        self._group, self._waiting = [], deque()

    async def _work(self) -> None:
        while self._waiting:
            self._group = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
            await self._answer(self._group)
            self._group = []

    async def _answer(self, group: list[_Wanted]) -> None:
        """Answer all, calling again without those the model refuses."""
        refusals = 0
        parts = [group[:]]
        while parts:
            part = parts.pop()
            vectors, error = await self._call([wanted.text for wanted in part])
            if error is None:
                for wanted, vector in zip(part, vectors, strict=True):
                    wanted.answer.set_result(vector)
                continue
            refusals += isinstance(error, RefusedText)
            if not isinstance(error, RefusedText) or len(part) == 1 or refusals > _REFUSALS:
                _fail(part, error)
            elif error.number is not None:
                _fail([part.pop(error.number - 1)], error)
                parts.append(part)
            else:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]

    async def _call(self, texts: list[str]) -> tuple[list[Vector], BaseException | None]:
        call = asyncio.create_task(self._embedder.embed(texts, asking=self._asking))
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.wait([call])
            raise
        if (error := call.exception()) is not None:
            return [], error
        if len(vectors := call.result()) != len(texts):
            return [], ModelError(f"{self._embedder!r} answered {len(vectors)} vectors to {len(texts)} texts")
        return vectors, None


def _gone(awaited: "asyncio.Future[Any] | None") -> bool:
    """Whether nothing is awaited, or it belongs to an event loop that has ended and will never come."""
    return awaited is None or awaited.get_loop() is not asyncio.get_running_loop()


def _fail(group: list[_Wanted], error: BaseException) -> None:
    for wanted in group:
        if not wanted.answer.done():
            wanted.answer.set_exception(error)


def _result(answer: "asyncio.Future[Vector]", keys: list[bytes], key: bytes) -> Vector:
    error = answer.exception()
    if error is None:
        return answer.result()
    if not isinstance(error, OctavoError):
        raise error
    # One object raised in several tasks would mix up their tracebacks, and each caller counts its own texts.
    own: OctavoError = copy.copy(error)
    if isinstance(error, RefusedText):
        own = RefusedText(keys.index(key) + 1, error.reason)
    raise own from error.__cause__
