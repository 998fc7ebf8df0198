"""Signals to processes that were started here, and to their children."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and those that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def told_to(number: int, processes: Iterable[int]) -> None:
    """Send all of them this signal; one that has just ended needs none."""
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)
