"""An event loop whose time passes only when nobody has anything to do: hours take no time, and nothing depends on speed."""

import asyncio
import functools
import selectors
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer whenever it would sleep; while a thread works for it, it waits for the thread instead."""

    def __init__(self):
        self.seconds = 0.0
        self.threads = 0  # work that threads have not given back
        super().__init__(_Selector(self))
        self._clock_resolution = 1e-6

    def time(self):
        return self.seconds

    def now(self):
        """The same clock as a date."""
        return START + timedelta(seconds=self.seconds)

    def run_in_executor(self, executor, func, *args):
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._given_back)
        return future

    async def shutdown_default_executor(self, *args):
        self.threads += 1  # one that waits for the others
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self.threads -= 1

    def _given_back(self, _):
        self.threads -= 1


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._loop.threads:
            return super().select(60)  # woken by the thread; no time passes for it
        if ready := super().select(0):
            return ready
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever happen")
        self._loop.seconds += timeout
        return []


def clock():
    """The wall clock of the running loop."""
    return asyncio.get_running_loop().now()


def virtually(test):
    """Run an async test in virtual time."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
