"""One thread between the event loops and the book: reads as they come, waiting writes together in one commit."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import msgspec

from octavo.errors import StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.codec import Prepared
from octavo.stores.file.book import Book

T = TypeVar("T")

_LOCK_SECONDS = 30.0  # a process that holds the lock longer is stuck
_GROUP = 512  # more writers than this wait for the next commit, so that none waits for all


class _Job(msgspec.Struct):
    """Something to be done for a caller, who waits on a future of its own loop."""

    work: Any  # a function for reads, a batch for writes
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Desk:
    """Takes work from any event loop and does it in one thread, which exists only while there is work."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="octavo-file")
        self._mutex = threading.Lock()
        self._news = threading.Event()
        self._reads: list[_Job] = []
        self._writes: list[_Job] = []
        self._busy = False
        self._closed = False
        self._refused_at: float | None = None  # since when the lock has been somebody else's
        self._pause = 0.0

    async def open(self) -> None:
        """Read the directory, or raise saying why that is not possible."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    async def ask(self, work: Callable[[], T]) -> T:
        """Call a function that reads the book, once everything acknowledged so far is in it."""
        return cast("T", await self._submitted(work, self._reads))

    async def write(self, ops: list[Prepared]) -> list[int]:
        """Apply a batch and answer once it is kept."""
        return cast("list[int]", await self._submitted(ops, self._writes))

    async def close(self) -> None:
        """Finish what was begun, then let go of the book."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        # The thread takes its work in order, so this comes after all that was asked for.
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _submitted(self, work: Any, queue: list[_Job]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future(), loop)
        with self._mutex:
            if self._closed:
                raise StoreClosed("this file store was closed; open another with open_store(url)")
            queue.append(job)
            if not self._busy:
                self._busy = True
                self._thread.submit(self._work)
        self._news.set()
        return job.future

    # --- in the thread

    def _open(self) -> None:
        until = time.monotonic() + _LOCK_SECONDS
        try:
            if self._book.look():
                return
            while not self._book.enter():
                if time.monotonic() > until:
                    raise self._locked()
                time.sleep(0.005)
            try:
                self._book.open()
            finally:
                self._book.leave()
        except OSError as error:
            raise self._book.failure(error) from error

    def _close(self) -> None:
        try:
            self._book.close()
        except OSError as error:
            raise self._book.failure(error) from error

    def _work(self) -> None:
        """Work until nothing is left to do; what waits to be indexed is done while nobody asks for anything."""
        more = True
        while True:
            with self._mutex:
                if not self._reads and not self._writes and (self._closed or not more):
                    self._busy = False
                    return
                self._news.clear()
                # Both lists are emptied in place: callers append to the same ones.
                reads, self._reads[:] = self._reads[:], []
                writes, self._writes[:] = self._writes[:_GROUP], self._writes[_GROUP:]
            try:
                if reads or writes:
                    more = True
                    reads, writes = self._round(reads, writes)
                else:
                    more = self._book.records.use_idle_time()
            except OSError as error:
                _deliver([(job, None, self._book.failure(error)) for job in (*reads, *writes)])
                continue
            except BaseException as error:
                # Nobody may wait for ever for an answer that this thread can no longer give.
                with self._mutex:
                    rest = [*reads, *writes, *self._reads, *self._writes]
                    self._reads[:], self._writes[:], self._busy = [], [], False
                _deliver([(job, None, error) for job in rest])
                raise
            if reads or writes:
                with self._mutex:
                    self._reads[:0], self._writes[:0] = reads, writes
                self._news.wait(self._pause)

    def _round(self, reads: list[_Job], writes: list[_Job]) -> tuple[list[_Job], list[_Job]]:
        """Do what can be done now, and answer what has to wait for the lock."""
        if reads and self._book.follow():
            _deliver([_answered(job, self._book) for job in reads])
            reads = []
        if not reads and not writes:
            return [], []
        if not self._book.enter():
            return self._refused(reads, writes)
        self._refused_at = None
        try:
            self._book.catch_up()
            answers = [_answered(job, self._book) for job in reads]
            outcomes = self._book.write([job.work for job in writes]) if writes else []
        finally:
            self._book.leave()
        for job, outcome in zip(writes, outcomes, strict=True):
            answers.append((job, outcome, None) if isinstance(outcome, list) else (job, None, outcome))
        _deliver(answers)
        return [], []

    def _refused(self, reads: list[_Job], writes: list[_Job]) -> tuple[list[_Job], list[_Job]]:
        now = time.monotonic()
        if self._refused_at is None:
            self._refused_at, self._pause = now, 0.0002
        elif now - self._refused_at > _LOCK_SECONDS:
            self._refused_at = None
            _deliver([(job, None, self._locked()) for job in (*reads, *writes)])
            return [], []
        self._pause = min(self._pause * 1.5, 0.005)
        return reads, writes

    def _locked(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"another process has held the lock of this directory for {_LOCK_SECONDS:.0f} seconds"
        )


def _answered(job: _Job, book: Book) -> tuple[_Job, Any, BaseException | None]:
    try:
        return job, job.work(), None
    except OSError as error:
        return job, None, book.failure(error)
    except (StoreError, ValueError) as error:
        return job, None, error


def _deliver(answers: list[tuple[_Job, Any, BaseException | None]]) -> None:
    """Hand the answers to those who wait, with one call into each loop."""
    loops: dict[int, list[tuple[_Job, Any, BaseException | None]]] = {}
    for answer in answers:
        loops.setdefault(id(answer[0].loop), []).append(answer)
    for group in loops.values():
        try:
            group[0][0].loop.call_soon_threadsafe(_settle, group)
        except RuntimeError:  # the loop has ended, and nobody is left to tell
            continue


def _settle(answers: list[tuple[_Job, Any, BaseException | None]]) -> None:
    for job, value, error in answers:
        if job.future.done():  # its waiter was cancelled; the work is done all the same
            continue
        if error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)
