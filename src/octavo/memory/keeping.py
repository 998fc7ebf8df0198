"""Memory beside somebody's calls: read before each within a stated time, written after it in the background.

Nothing here raises into the caller, whatever becomes of the memory; trouble is logged once, until it is over.
"""

import asyncio
import atexit
import hashlib
import itertools
import logging
import os
import weakref
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import msgspec

from octavo.chat.messages import MESSAGES, Msg, to_message
from octavo.errors import InvalidQuery, InvalidRecord, OctavoError
from octavo.kernel.model import Query, check_count
from octavo.kernel.pages import read_page
from octavo.memory.memory import AsyncMemory, Memory
from octavo.memory.messages import Message, messages_to_keep
from octavo.memory.searching import Whose
from octavo.util.user_code import catch_error, describe_error

_WINDOW, _WINDOW_BYTES = 100, 2**20  # of a session, what is compared with the messages of a call
_SURE = 20  # messages in a row that are the same by no accident
_MOST_WAITING = 1000  # calls whose messages wait to be kept
_AT_ONCE = 8  # sessions that are written to
_KEEP_SECONDS, _FLUSH_SECONDS = 60.0, 10.0
_log = logging.getLogger("octavo.memory")

#: What a message says, to be compared: who said it, and the words and tool calls.
Key: TypeAlias = tuple[str, bytes]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Whose memory it is, and how much of it a call may take, and how long."""

    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    max_tokens: int = 800
    timeout_seconds: float = 2.0

    def __post_init__(self) -> None:
        Whose(**self.owner)
        check_count(self.max_tokens, "max_tokens must be a number, 0 or more")
        if not isinstance(self.timeout_seconds, int | float) or not 0 < self.timeout_seconds <= 3600:
            raise InvalidQuery(
                f"timeout_seconds must be more than 0, and 3600 at most; got {self.timeout_seconds!r}"
            )

    @property
    def owner(self) -> dict[str, Any]:
        return {"user_id": self.user_id, "agent_id": self.agent_id, "session_id": self.session_id}

    @property
    def session(self) -> str:
        """What the messages of this owner and session are known by."""
        return msgspec.json.encode(list(self.owner.values())).decode()


class Keeper:
    """Reads and writes a memory on the event loop that it lives on: its own thread's, or of an `AsyncMemory` the caller's."""

    def __init__(self, memory: Memory | AsyncMemory) -> None:
        self.memory = memory
        self._portal = memory.portal if isinstance(memory, Memory) else None
        self._behind = memory.behind if isinstance(memory, Memory) else memory
        self._loop: asyncio.AbstractEventLoop | None = None  # of an AsyncMemory
        self._left: deque[tuple[list[Message], list[Message], Options]] = deque()
        self._waiting: set[futures.Future[None]] = set()
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._process = os.getpid()
        self._writing = asyncio.Semaphore(_AT_ONCE)
        self._troubled: set[str] = set()
        _keepers.add(self)

    # --- before a call

    def context(self, question: str, shown: Sequence[str], options: Options) -> str:
        """What is remembered, or nothing if that cannot be said in time."""
        self._keep_left()
        try:
            reading = self._start(self._read(question, shown, options))
            try:
                text: str = reading.result(options.timeout_seconds)
            finally:
                reading.cancel()
        except Exception as error:  # noqa: BLE001 - the call matters more than the memory
            return self._answer_without(error, options)
        self._troubled.discard("reading")
        return text

    async def acontext(self, question: str, shown: Sequence[str], options: Options) -> str:
        """The same, awaited."""
        self._keep_left()
        try:
            reading = asyncio.wrap_future(self._start(self._read(question, shown, options)))
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may ask
            try:
                # Not `wait_for`, which waits without end for work that will not be cancelled.
                done, _ = await asyncio.wait([reading], timeout=options.timeout_seconds)
                if not done:
                    raise TimeoutError
                text: str = reading.result()
            finally:
                reading.cancel()
        except Exception as error:  # noqa: BLE001 - the call matters more than the memory
            return self._answer_without(error, options)
        self._troubled.discard("reading")
        return text

    async def _read(self, question: str, shown: Sequence[str], options: Options) -> str:
        # A message by itself says nothing of what went before it: that may still be on its way into the memory.
        before = self._turns.get(options.session) if len(shown) == 1 else None
        if before is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(options.timeout_seconds / 2), before:
                    pass
        block = await self._behind.context(
            question, max_tokens=options.max_tokens, shown=shown, **options.owner
        )
        return block.text

    def _answer_without(self, error: Exception, options: Options) -> str:
        self._complain("reading", f"a call is made without memory: {_reason(error, options.timeout_seconds)}")
        return ""

    # --- after it

    def keep(
        self, talk: list[Message], answer: list[Message], options: Options, *, later: bool = False
    ) -> None:
        """Keep, beside everything else, what is new of a talk, and the answer to it; or `later`, before whatever comes next."""
        self._left.append((talk, answer, options))
        if not later:
            self._keep_left()

    def _keep_left(self) -> None:
        if self._process != os.getpid():  # what waited when the process was forked is its parent's to keep
            self._waiting, self._process = set(), os.getpid()
        while self._left:
            try:
                work = self._left.popleft()
            except IndexError:  # another thread was quicker
                return
            if len(self._waiting) >= _MOST_WAITING:
                self._complain("waiting", f"{_MOST_WAITING} calls wait: what is said now is not kept")
                continue
            try:
                keeping = self._start(self._keep(*work))
            except Exception as error:  # noqa: BLE001 - the call matters more than the memory
                self._complain("keeping", f"what was said is not kept: {describe_error(error)}")
            else:
                self._waiting.add(keeping)
                keeping.add_done_callback(self._waiting.discard)

    async def _keep(self, talk: list[Message], answer: list[Message], options: Options) -> None:
        # In the order of the calls: a lock is handed on in the order in which it was asked for.
        turn = self._turns.setdefault(options.session, asyncio.Lock())
        try:
            async with turn, self._writing, asyncio.timeout(_KEEP_SECONDS):
                kept = await self._read_kept(options)
                told = messages_to_keep(talk)
                keys = [key_of(message) for message in told]
                old = count_answered(keys) if kept is None else count_kept(keys, kept)
                new = [*told[old:], *messages_to_keep(answer)]
                if new:
                    await self._add(new, options)
            self._troubled -= {"keeping", "waiting"}
        except Exception as error:  # noqa: BLE001 - nobody waits for this but the log
            self._complain("keeping", f"what was said is not kept: {_reason(error, _KEEP_SECONDS)}")

    async def _read_kept(self, options: Options) -> list[Key] | None:
        """The last messages of the session, or nothing when they cannot be read: the store may be down, and still queue."""
        scope = Whose(self._behind.layers.tenant, **options.owner).talk
        query = Query(collection=MESSAGES, scope=scope, newest_first=True, limit=_WINDOW)
        try:
            async with asyncio.timeout(options.timeout_seconds):
                found, _ = await read_page(self._behind.store, query, _WINDOW_BYTES)
        except (OctavoError, TimeoutError):
            return None
        return [key_of(to_message(record)) for record in reversed(found)]

    async def _add(self, messages: list[Msg], options: Options) -> None:
        try:
            await self._behind.add(messages, **options.owner)
        except InvalidRecord:
            if len(messages) == 1:
                raise
            for message in messages:  # one that cannot be kept must not take the others with it
                try:
                    await self._behind.add(message, **options.owner)
                except InvalidRecord as error:
                    _log.warning("a message of %s is not kept: %s", message.role, error)

    # --- at the end

    def flush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until what was said is kept; whether it is."""
        self._keep_left()
        return not futures.wait(tuple(self._waiting), seconds).not_done

    async def aflush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """The same, awaited."""
        self._keep_left()
        waiting = [asyncio.wrap_future(each) for each in tuple(self._waiting)]
        return not waiting or not (await asyncio.wait(waiting, timeout=seconds))[1]

    def close(self) -> None:
        """Close the memory that was opened for this."""
        with self.log_errors("the memory was not closed as it should be"):
            self.memory.close()

    def _start(self, work: Coroutine[Any, Any, Any]) -> "futures.Future[Any]":
        if self._portal is not None:
            return self._portal.begin(work)
        with suppress(RuntimeError):  # no loop is running here: the one it was last used on is meant
            self._loop = asyncio.get_running_loop()
        if self._loop is None or not self._loop.is_running():
            work.close()  # or Python warns that it was never awaited
            raise RuntimeError("there is no running event loop")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @contextmanager
    def log_errors(self, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is told to the log, not to the caller."""
        with catch_error() as outcome:
            yield
        if outcome.error is not None:
            self._complain(what, f"{what}: {describe_error(outcome.error)}")

    def _complain(self, what: str, told: str) -> None:
        _log.log(logging.DEBUG if what in self._troubled else logging.WARNING, told)
        self._troubled.add(what)


def _reason(error: Exception, seconds: float) -> str:
    late = isinstance(error, TimeoutError)
    return f"it took longer than {seconds:g} seconds" if late else describe_error(error)


_keepers: "weakref.WeakSet[Keeper]" = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    for keeper in tuple(_keepers):
        if isinstance(keeper.memory, Memory) and not keeper.flush():
            _log.warning(
                "the program ends, and what was said last may not be kept: it took longer than %g seconds",
                _FLUSH_SECONDS,
            )


# --- what is new


def key_of(message: Msg) -> Key:
    """What a message says, however it is spaced."""
    words = " ".join((message.get_text_content() or "").split())
    blocks = message.content if isinstance(message.content, list) else []
    others = [block for block in blocks if block["type"] != "text"]
    told = msgspec.json.encode([words, others], order="deterministic")
    return message.role, hashlib.blake2b(told, digest_size=16).digest()


def count_answered(said: Sequence[Key]) -> int:
    """How many messages of a list there are up to the last answer in it."""
    return max((at + 1 for at, (role, _) in enumerate(said) if role == "assistant"), default=0)


def count_kept(said: Sequence[Key], kept: Sequence[Key]) -> int:
    """How many messages at the beginning of a list are kept already.

    An agent sends the whole talk again with each call, or the last part of it, or a summary and the last part. So runs of the
    list are looked for in what is kept: the first messages of the list, the last ones that are kept, or any long run. Answers
    may have been edited before they were sent back: up to the last one, an answer is taken for the one in its place.
    A message by itself is new, unless it is the last one that is kept, and was not answered.
    """
    if len(said) == 1:
        return int(list(said) == list(kept[-1:]))
    answered, best = count_answered(said), 0
    for at, start in itertools.product(range(len(said)), range(len(kept))):
        inside = at > 0 and start > 0 and said[at - 1] == kept[start - 1]  # of a run that was looked at
        if inside or said[at] != kept[start]:
            continue
        reach, there = at, start
        while reach < len(said) and there < len(kept):
            edited = reach < answered and said[reach][0] == kept[there][0] == "assistant"
            if said[reach] != kept[there] and not edited:
                break
            reach, there = reach + 1, there + 1
        if at == 0 or (reach - at > 1 and there == len(kept)):
            best = max(best, reach)
        elif reach - at >= _SURE:
            best = max(best, min(reach, answered))
    return best
