"""Ctrl-C. Until a command begins it ends the process at once; then it is for the command to end what it has begun."""

import contextlib
import os
import signal
from types import FrameType

STATUS = 130  # of a process that was interrupted


def end_at_once() -> None:
    """From now on Ctrl-C ends the process without a word: nothing was begun. Where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not in the main thread, where no Ctrl-C arrives
            signal.signal(signal.SIGINT, _end)


def hand_over() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(STATUS)
