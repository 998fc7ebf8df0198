"""An environment for each peer, made on demand, and the peer in it as a contestant."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.subject import Subject

ROOT = Path(__file__).parents[2]


class PeerFailed(Exception):  # noqa: N818 - names say what is wrong, as the package's own errors do
    """A peer could not be installed, started or asked."""


class Peer(NamedTuple):
    """A library to compare with: its environment, what is installed there and the script that drives it."""

    name: str
    folder: str
    script: str
    requirements: tuple[str, ...]
    does: str


PEERS = (
    Peer(
        "AgentScope 1.0.21",
        "agentscope",
        "bench.peers.agentscope_memory",
        # It asks for any mcp but breaks on 2.x, and imports tqdm without asking for it.
        (
            "agentscope==1.0.21",
            "sqlalchemy[asyncio]==2.1.8",
            "aiosqlite==0.22.1",
            "mcp==1.30.0",
            "tqdm==4.70.1",
        ),
        "`AsyncSQLAlchemyMemory` on `sqlite+aiosqlite`: `await memory.add(Msg)` on one memory object (its lock lets one writer in at "
        "a time); the last 50 are `(await memory.get_memory())[-50:]`, there is no narrower call.",
    ),
    Peer(
        "LangChain 0.4.2",
        "langchain",
        "bench.peers.langchain_history",
        ("langchain-community==0.4.2", "sqlalchemy[asyncio]==2.1.8", "aiosqlite==0.22.1"),
        "langchain-community's `SQLChatMessageHistory`: synchronous `add_message` for single appends, `aadd_message` on aiosqlite for 50 "
        "at once; the last 50 are `history.messages[-50:]`, there is no narrower call.",
    ),
)


def installed(peer: Peer) -> Path:
    """The peer's own Python, with the pinned packages in it; the first time takes a minute."""
    home = ROOT / ".venv-peers" / peer.folder
    python = home / "bin" / "python"
    stamp = home / ".ready"
    wanted = "\n".join(peer.requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {peer.name} into .venv-peers/{peer.folder} (once)", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(home)], peer)
    _run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements],
        peer,
    )
    stamp.write_text(wanted)
    return python


def _run(command: list[str], peer: Peer) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"peer {peer.name} could not be installed: {error}") from error
    if done.returncode:
        said = (
            [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            or done.stderr.splitlines()
            or ["?"]
        )
        raise PeerFailed(f"peer {peer.name} could not be installed: {said[-1]}")


class PeerSubject(Subject):
    """A peer at the other end of a pipe; it draws the same rows and times itself."""

    def __init__(self, total: int, peer: Peer, python: Path, path: Path, durability: str) -> None:
        super().__init__(total)
        self._total = total
        self._peer = peer
        self._python = python
        self._path = path
        self._durability = durability
        self._process: asyncio.subprocess.Process | None = None

    async def open(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            self._python,
            "-W",
            "ignore",
            "-m",
            self._peer.script,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        await self._ask("open", path=str(self._path), durability=self._durability, total=self._total)

    async def timed(self, job: str, count: int) -> float:
        return await self._ask(job, count=count)

    async def fill(self, count: int) -> None:
        """Fill its tables directly, since its own way would take longer than the benchmark."""
        await self._ask("fill", count=count, in_turn=self.in_turn)

    async def _ask(self, verb: str, **given: object) -> float:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": verb, **given}).encode() + b"\n")
            await process.stdin.drain()
        except ConnectionError:
            line = b""
        else:
            line = await process.stdout.readline()
        if not line:
            raise PeerFailed(
                f"peer {self._peer.name} ended with code {await process.wait()} when asked to {verb}"
            )
        said = json.loads(line)
        if "error" in said:
            raise PeerFailed(f"peer {self._peer.name} failed to {verb}: {said['error']}")
        return said["answer"]

    async def close(self) -> None:
        if self._process is None:
            return
        with suppress(PeerFailed):
            await self._ask("close")
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
