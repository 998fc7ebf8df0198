"""What every server has in common: a folder, a port, and a guarded process."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from servers.accounts import own_folder, unprivileged
from servers.errors import Unavailable

GUARD = Path(__file__).with_name("guard.py")


class Server(ABC):
    """A server in a folder of its own, on a loopback port that it keeps over restarts."""

    kind: ClassVar[str]
    account_name: ClassVar[str]
    stop_signal: ClassVar[int] = signal.SIGTERM
    kill_signal: ClassVar[int] = signal.SIGKILL
    start_seconds: ClassVar[float] = 60
    pid_files: ClassVar[
        tuple[str, ...]
    ] = ()  # in its folder, of processes that do not end with the one we start

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.find_programs()
        self.port = free_port()
        self.account = unprivileged(self.account_name)
        self.folder = own_folder(self.kind, self.account, durable=durable)
        self.pid = 0
        self._guard: subprocess.Popen[str] | None = None
        self._prepared = False

    @property
    @abstractmethod
    def url(self) -> str:
        """Where a client finds this server."""

    @abstractmethod
    def find_programs(self) -> None:
        """Look up the server's programs, or raise Unavailable."""

    @abstractmethod
    def prepare(self) -> None:
        """Fill the empty folder with what the server needs before its first start."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""

    @staticmethod
    @abstractmethod
    def ping(url: str) -> None:
        """Return if the server at this address answers a client, raise if not."""

    @staticmethod
    @abstractmethod
    def fresh(url: str) -> AbstractContextManager[str]:
        """The address of an empty database on the server at this address, dropped afterwards."""

    @property
    def running(self) -> bool:
        """Whether the server's process is alive."""
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        """Start the server and return once it answers."""
        if self.running:
            return
        if not self._prepared:
            self.prepare()
            self._prepared = True
        self._guard = self._start_guard()
        deadline = time.monotonic() + self.start_seconds
        while True:
            try:
                self.ping(self.url)
            except ImportError as error:
                self.kill()
                raise Unavailable(f"{self.kind} runs, but its driver does not: {error}") from error
            except Exception as error:
                problem = str(error) or repr(error)
            else:
                problem = ""
            # Asked after the ping: what answered may be a stranger that took the port from a server that ended.
            if not self.running:
                raise Unavailable(f"{self.kind} ended while starting: {self._log_tail()}")
            if not problem:
                return
            if time.monotonic() > deadline:
                self.kill()
                raise Unavailable(
                    f"{self.kind} did not answer in {self.start_seconds:g} s: {problem}; {self._log_tail()}"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """Shut down as an administrator would: clients are cut off, data is kept."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Go down as in a crash; without `durable` the last second of MySQL and all of Redis is lost."""
        self._end(self.kill_signal)

    def restart(self) -> None:
        """Stop and start again, on the same port with the same data."""
        self.stop()
        self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have the server, with the processes it has started, stand still: it takes connections and says nothing."""
        # The one that starts others comes first going in and last going out.
        processes = [self.pid]
        os.kill(self.pid, signal.SIGSTOP)
        try:
            for one in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                os.kill(int(one), signal.SIGSTOP)
                processes.append(int(one))
            yield
        finally:
            for one in reversed(processes):
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_program(self, *command: str | Path) -> str:
        """What one of the server's tools, run as its account, has said; raises Unavailable with that if it failed."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            user=self.account.user,
            group=self.account.group,
            extra_groups=None if self.account.user is None else [],
        )
        if done.returncode != 0:
            raise Unavailable(f"{Path(command[0]).name} failed: {done.stdout.strip()[-600:]}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        # The caller's temporary folder may be closed to the account, and its locale unknown to the server.
        return {**os.environ, "TMPDIR": str(self.folder), "LC_ALL": "C"}

    def _start_guard(self) -> subprocess.Popen[str]:
        order = {
            "command": self.command(),
            "folder": str(self.folder),
            "log": str(self.folder / "log"),
            "user": self.account.user,
            "group": self.account.group,
            "kill_signal": int(self.kill_signal),
            "pid_files": [str(self.folder / name) for name in self.pid_files],
            "owner": os.getpid(),
        }
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment(),
            # Ctrl-C reaches the whole terminal session: the guard must outlive it to clean up.
            start_new_session=True,
        )
        with guard.stdout:  # type: ignore[union-attr]
            self.pid = int(guard.stdout.readline() or 0)  # type: ignore[union-attr]
        return guard

    def _end(self, number: int) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        try:
            guard.communicate(str(int(number)))
        except BaseException:
            # Interrupted: without its owner's pipe the guard ends the server by itself.
            guard.terminate()
            guard.wait()
            raise

    def _log_tail(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace").strip()[-1000:] if log.exists() else "it left no log"


def free_port() -> int:
    """A loopback port nobody listens on, outside the range that outgoing connections borrow from.

    Inside it, any client's connection could sit on the port while the server restarts.
    """
    # Not the global generator: property tests seed that one, and two workers would draw the same port.
    source = random.SystemRandom()
    while True:
        port = source.randrange(15_000, 32_000)
        with socket.socket() as probe:
            # As servers do: a port that only remembers closed connections counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
