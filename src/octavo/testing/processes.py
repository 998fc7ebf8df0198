"""Writers in processes of their own, on one store URL: `run_crowd` lets some write at the same moment, and returns what they report."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from octavo.kernel.model import Add, Change, Query, Record, Scope
from octavo.kernel.ports import Store
from octavo.stores import open_store

BOARD = "board"


class WriterReport(msgspec.Struct, frozen=True):
    """What one writer was told by its store."""

    added: int
    merged: int


def shared_id(number: int) -> str:
    """An id that every writer adds."""
    return f"shared-{number}"


def own_id(writer: str, number: int) -> str:
    """An id that only this writer adds."""
    return f"{writer}-{number}"


async def write(store: Store, tenant: str, writer: str, writes: int) -> WriterReport:
    """Add shared and own ids eight calls at a time; every tenth call also puts a key on the record all write to."""
    added = merged = 0
    scope = Scope(tenant=tenant, session="crowd")
    board = Query(collection="messages", ids=(BOARD,), scope=scope)

    async def call(number: int) -> None:
        nonlocal added, merged
        names = (shared_id(number), own_id(writer, number), BOARD)
        notes = [Record(collection="messages", id=name, scope=scope, text=f"note {name}") for name in names]
        ops: list[Add | Change] = [Add(notes)]
        if number % 10 == 0:
            ops.append(Change(query=board, merge={own_id(writer, number): number}))
        new, *changed = await store.apply(ops)
        added += new
        merged += sum(changed)

    for start in range(0, writes, 8):
        await asyncio.gather(*(call(number) for number in range(start, min(start + 8, writes))))
    return WriterReport(added=added, merged=merged)


async def run_crowd(url: str, tenant: str, processes: int, writes: int) -> list[WriterReport]:
    """Let so many processes make so many calls each, starting at the same moment; each must end without an error."""
    children = [
        await start_child(__file__, url, tenant, f"w{number}", str(writes)) for number in range(processes)
    ]
    try:
        for child in children:  # each has imported all it needs; the store is opened by all at once
            assert await next_line(child) == "ready"
        return [
            msgspec.json.decode(answer, type=WriterReport)
            for answer in await asyncio.gather(*map(_end, children))
        ]
    finally:
        await stop_children(children)


async def start_child(program: str | Path, *words: str) -> asyncio.subprocess.Process:
    """A program in a process of its own; it is run by its path, since `-m` would import the package around it."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-P", program, *words)
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)


async def next_line(child: asyncio.subprocess.Process) -> str:
    """The next line it prints; an AssertionError with its own error if it has ended."""
    assert child.stdout is not None
    assert child.stderr is not None
    line = (await child.stdout.readline()).decode()
    if not line.endswith("\n"):
        raise AssertionError(f"a writer ended early: {(await child.stderr.read()).decode()}")
    return line.strip()


async def _end(child: asyncio.subprocess.Process) -> bytes:
    said, failed = await child.communicate(b"go\n")
    if child.returncode != 0:
        raise AssertionError(f"a writer failed: {failed.decode()}")
    return said


async def stop_children(children: Sequence[asyncio.subprocess.Process]) -> None:
    """Kill those that have not ended."""
    for child in children:
        if child.returncode is None:
            child.kill()
    for child in children:
        await child.wait()
        if child.stdin is not None:
            child.stdin.close()


async def _main(url: str, tenant: str, writer: str, writes: str) -> None:
    store = open_store(url)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    async with store:
        report = await write(store, tenant, writer, int(writes))
    print(msgspec.json.encode(report).decode())  # noqa: T201


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
