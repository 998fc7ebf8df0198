"""Small work on a SQLite file, done at once, on the event loop's own thread.

Handing work to a thread and being woken again costs about 150 µs; a small transaction costs half of that. So what is
known to be small is done on the spot, as long as the disk is quick: whatever took longer than five milliseconds sends the
following work to the threads for a hundred times as long, so that the loop is held up for one percent of the time at most.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import apsw

from octavo.codec import Kept
from octavo.errors import OctavoError, StoreUnavailable
from octavo.stores.sql.drivers.port import ApplyAll, Batch
from octavo.stores.sql.drivers.sqlite_thread import Call, Worker, commit, resolve, run, translated
from octavo.stores.sql.statements import Script

T = TypeVar("T")
_SLOW_SECONDS = 0.005
_REST = 100  # how many times as long as a slow one lasted the front rests
_MOST_WEIGHT = 200_000  # characters of all records together; a record weighs 1000 at least
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
        connection.set_wal_hook(self._grown)
        self._connection = connection
        self._worker = worker
        self._using = (
            threading.Lock()
        )  # loops of several threads may use one store, a connection takes one at a time
        self._waiting: list[Call] = []
        self._weight = 0
        self._writes = _Pace()
        self._reads = _Pace()
        self._writing_back = False

    async def commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        """Apply a batch together with those of other tasks that are ready now."""
        loop = asyncio.get_running_loop()
        call = Call(batch, apply_all, loop, loop.create_future())
        weight = _weight(batch)
        if (
            not self._able
            or self._weight + weight > _MOST_WEIGHT
            or (self._waiting and self._waiting[0].loop is not loop)
        ):
            self._worker.take([call])
        else:
            self._waiting.append(call)
            self._weight += weight
            if len(self._waiting) == 1:
                loop.call_soon(self._flush)
        assert call.answer is not None  # noqa: S101
        counts: list[int] = await call.answer
        return counts

    def read(self, script: Callable[[], Script[T]]) -> tuple[T] | None:
        """The answer, if it could be had at once."""
        began_at = time.monotonic()
        if began_at < self._reads.again_at or not self._using.acquire(blocking=False):
            return None
        try:
            with translated():
                return (run(self._connection, script()),)
        except StoreUnavailable:
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
        return not self._writing_back and time.monotonic() >= self._writes.again_at

    def _flush(self) -> None:
        calls, self._waiting, self._weight = self._waiting, [], 0
        if not calls:
            return
        if not self._using.acquire(blocking=False):
            self._worker.take(calls)
            return
        began_at = time.monotonic()
        try:
            outcomes = commit(self._connection, calls)
        except OctavoError:  # locked, full, or one of them is bad: the worker waits, and finds out which
            self._worker.take(calls)
        else:
            resolve(outcomes)
        finally:
            self._using.release()
        self._writes.note(began_at)

    def _grown(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """Have the log written back by the worker; writes queue behind that, or the log would never be written back whole."""
        del connection, name
        if pages >= PAGES and not self._writing_back:
            self._writing_back = True
            self._worker.take([Call(self._write_back, None, None, None)])
        return apsw.SQLITE_OK

    def _write_back(self, connection: apsw.Connection) -> None:
        try:
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
