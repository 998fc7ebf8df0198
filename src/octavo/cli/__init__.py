"""The command `octavo`. It needs the extra `cli`, which `server` brings too, and says so when that is missing."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130  # the status of a process that was interrupted


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process: 0 is well, 1 is failed, 2 is a mistake in what was asked, 130 is interrupted."""
    end_at_once()
    try:
        given = sys.argv[1:] if args is None else args
        _check_packages(given)
        from octavo.cli.commands import octavo

        octavo(args=args, prog_name="octavo")
    finally:
        hand_over()
    sys.exit(0)


def _check_packages(args: Sequence[str]) -> None:
    """Without the package that commands are made with, say what this one needs, and end."""
    from octavo.util.system import missing_packages, store_extra

    if missing_packages("cli"):
        extra = {"serve": "server", "mcp": "mcp"}.get("".join(args[:1]), "cli")
        urls = [each for word in args for each in store_extra(word.rpartition("=")[2])]
        needed = missing_packages(extra, *dict.fromkeys(urls))
        print(
            f"octavo: {'the command' if extra == 'cli' else f'octavo {args[0]}'} needs {needed}",
            file=sys.stderr,
        )
        sys.exit(2)


def end_at_once() -> None:
    """From now on Ctrl-C ends the process without a word: nothing was begun. Where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not in the main thread, where no Ctrl-C arrives
            signal.signal(signal.SIGINT, _end)


def hand_over() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again: it is for the command to end what it has begun."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
