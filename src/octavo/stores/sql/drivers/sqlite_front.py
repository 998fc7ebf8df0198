"""Small work on a SQLite file, done at once, on the event loop's own thread.

Handing work to a thread and being woken again costs about 150 µs; a small transaction costs half of that. So what is
known to be small is done on the spot, as long as the disk is quick: whatever took longer than five milliseconds sends the
following work to the threads for a hundred times as long, so that the loop is held up for one percent of the time at most.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from octavo.codec import Kept
from octavo.errors import OctavoError, StoreUnavailable
from octavo.stores.sql.drivers.port import ApplyAll, Batch
from octavo.stores.sql.drivers.sqlite_thread import Call, Worker, commit, resolve, run, translated
from octavo.stores.sql.statements import Script, TooLong

T = TypeVar("T")
_SLOW_SECONDS = 0.005
_TURN_SECONDS = 0.002  # a task that never waits must let others go after so long
_REST = 100  # how many times as long as a slow one lasted the front rests
_MOST_WEIGHT = 200_000  # characters of all records together; a record weighs 1000 at least
_MOST_BYTES = 4_000_000  # of a row or a text that is read; what is longer is for a thread
PAGES = 10_000  # of the write-ahead log, 40 MiB, after which it is written back; hot pages then go to disk once for many writes


class _Pace:
    """Tells when the front has to rest: after work that was slow twice in a row. Once may be a cold cache."""

    __slots__ = ("_slow", "again_at")

    def __init__(self) -> None:
        self.again_at = 0.0
        self._slow = False

    def note(self, began_at: float) -> None:
        now = time.monotonic()
        slow = now - began_at > _SLOW_SECONDS
        if slow and self._slow:
            self.again_at = now + _REST * (now - began_at)
        self._slow = slow


class Front:
    """A connection of the event loop's own, with the worker behind it for all that is not small, or not quick."""

    def __init__(self, connection: apsw.Connection, worker: Worker) -> None:
        connection.set_busy_timeout(0)  # whoever has to wait for a lock waits in the worker
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        connection.set_wal_hook(self._grown)
        self._connection = connection
        self._worker = worker
        self._using = (
            threading.Lock()
        )  # loops of several threads may use one store, a connection takes one at a time
        self._waiting: list[Call] = []
        self._weight = 0
        self._crowd = False  # several tasks write at the same time: the last commit was for more than one
        self._writer: asyncio.Task[Any] | None = None  # who has written on the spot in this turn of the loop
        self._since = 0.0
        self._writes = _Pace()
        self._reads = _Pace()
        self._writing_back = False
        self._giving_way = False  # to the last part of that, while it lasts: writes queue up behind it

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        """Apply a batch: at once for a task that writes alone, else together with those of other tasks that are ready."""
        loop = asyncio.get_running_loop()
        weight = _weight(batch)
        able = weight <= _MOST_WEIGHT and self._able
        if able and not self._waiting and self._writes_alone(loop):
            counts = self._done([batch], apply_all)
            if counts is not None:
                return counts[0]
            able = False
        answer: asyncio.Future[list[int]] = loop.create_future()
        call = Call(batch, apply_all, loop, answer)
        if (
            not able
            or self._weight + weight > _MOST_WEIGHT
            or (self._waiting and self._waiting[0].loop is not loop)
        ):
            self._worker.take([call])
        else:
            self._waiting.append(call)
            self._weight += weight
            if len(self._waiting) == 1:
                loop.call_soon(self._flush)
        return await answer

    def read(self, script: Callable[[], Script[T]]) -> tuple[T] | None:
        """The answer, if it could be had at once."""
        began_at = time.monotonic()
        if began_at < self._reads.again_at or not self._using.acquire(blocking=False):
            return None
        try:
            with translated():
                return (run(self._connection, script()),)
        except (StoreUnavailable, TooLong):
            return None
        finally:
            self._using.release()
            self._reads.note(began_at)

    def close(self) -> None:
        """Let go of the connection; what still waits goes to the worker."""
        self._worker.take(self._waiting)
        self._waiting = []
        with self._using:
            self._connection.close()

    @property
    def _able(self) -> bool:
        gives_way = self._writing_back and self._giving_way
        return not gives_way and time.monotonic() >= self._writes.again_at

    def _writes_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the running task may write on the spot: in this turn of the loop no other one has, nor it for long."""
        task = asyncio.current_task(loop)
        if self._crowd or task is None:
            return False
        if self._writer is None:
            self._writer, self._since = task, time.monotonic()
            loop.call_soon(self._turned)
            return True
        self._crowd = task is not self._writer
        return not self._crowd and time.monotonic() - self._since < _TURN_SECONDS

    def _turned(self) -> None:
        self._writer = None

    def _flush(self) -> None:
        calls, self._waiting, self._weight = self._waiting, [], 0
        self._crowd, self._writer = len(calls) > 1, None
        if not calls:
            return
        assert calls[0].apply_all is not None  # noqa: S101
        counts = self._done([call.work for call in calls], calls[0].apply_all)
        if counts is None:
            self._worker.take(calls)
        else:
            resolve([(call, count, None) for call, count in zip(calls, counts, strict=True)])

    def _done(self, batches: list[Batch], apply_all: ApplyAll) -> list[list[int]] | None:
        """What came of it; None when it is for the worker: locked, full, or one of them is bad, and it finds out which."""
        if not self._using.acquire(blocking=False):
            return None
        began_at = time.monotonic()
        try:
            return commit(self._connection, batches, apply_all)
        except OctavoError:
            return None
        finally:
            self._using.release()
            self._writes.note(began_at)

    def _grown(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """Have the log written back by the worker."""
        del connection, name
        if pages >= PAGES and not self._writing_back:
            self._giving_way, self._writing_back = False, True
            self._worker.take([Call(self._write_back, None, None, None)])
        elif pages >= 2 * PAGES:  # that takes long, and the log must not outgrow it
            self._giving_way = True
        return apsw.SQLITE_OK

    def _write_back(self, connection: apsw.Connection) -> None:
        try:
            # While writes go on: first nearly all of it, and then what they added meanwhile, which is less and less.
            for _ in range(3):
                connection.wal_checkpoint()
            self._giving_way = True  # or it would hardly ever get hold of the lock
            with self._using:
                # And the rest while nobody writes: a log begins anew once all of it is written back.
                connection.wal_checkpoint()
        finally:
            self._writing_back = False


def _weight(batch: Batch) -> int:
    """How much there is to write; more than anything may weigh for what has to be searched for first."""
    weight = 0
    for op in batch:
        if not isinstance(op, Kept):
            return _MOST_WEIGHT + 1
        for sealed in op.records:
            weight += max(1000, len(sealed.data_json) + len(sealed.text))
    return weight
