"""Runs one server and ends it when its owner is gone, however the owner went.

A script of its own, started with `python -I -S`: it outlives a test run that is killed with SIGKILL.
It prints the server's process id, then takes one signal number on stdin and passes it on.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

PATIENCE_SECONDS = 30


def finish(server: subprocess.Popen[bytes], number: int) -> None:
    """End the server with this signal, or with SIGKILL when it does not listen."""
    server.send_signal(number)
    try:
        server.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def finish_others(order: dict[str, Any]) -> None:
    """End the processes that the server has left behind: each is named by a file, and works in the server's folder."""
    for path in order["pid_files"]:
        with contextlib.suppress(OSError, ValueError):
            with open(path) as file:  # noqa: PTH123
                pid = int(file.readline())
            for number in (signal.SIGCONT, signal.SIGQUIT, *[0] * 50, signal.SIGKILL):
                with open(f"/proc/{pid}/cmdline") as file:  # noqa: PTH123
                    if order["folder"] not in file.read():  # it is somebody else's by now
                        break
                os.kill(pid, number)
                time.sleep(0.1 if number in (0, signal.SIGQUIT) else 0)


def watch(server: subprocess.Popen[bytes], owner: int) -> int | None:
    """Wait for the server to end (0), the owner to ask for a signal (its number) or to disappear (None)."""
    while server.poll() is None:
        # The parent is checked as well as the pipe: a process forked by the owner keeps the pipe open after it.
        if os.getppid() != owner:
            return None
        if select.select([0], [], [], 0.2)[0]:
            return int(os.read(0, 16) or 0) or None
    return 0


def main() -> int:
    """Guard the server described by the JSON in the first argument."""
    order = json.loads(sys.argv[1])
    # A guard that is asked to end must take its server along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    who = {"user": order["user"], "group": order["group"], "extra_groups": []} if order["user"] else {}
    with open(order["log"], "ab") as log:  # noqa: PTH123 - pathlib would double the time this takes to start
        server = subprocess.Popen(
            order["command"],
            cwd=order["folder"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            **who,
        )
    asked = None
    try:
        print(server.pid, flush=True)
        asked = watch(server, order["owner"])
    finally:
        if server.poll() is None:
            finish(server, asked or order["kill_signal"])
        finish_others(order)
        if asked is None:
            shutil.rmtree(order["folder"], ignore_errors=True)
    return server.returncode


if __name__ == "__main__":
    sys.exit(main())
