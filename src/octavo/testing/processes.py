"""Writers in processes of their own, on one store URL.

`crowd` lets some write at the same moment and returns what they report; `killed_after` kills one while it writes and
returns what had been acknowledged to it.
"""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from octavo.kernel.model import Add, Change, Query, Record, Scope
from octavo.kernel.ports import Store
from octavo.stores import open_store

BOARD = "board"
BATCH = 5
_LANES = 4


class Report(msgspec.Struct, frozen=True):
    """What one writer was told by its store."""

    added: int
    merged: int


def shared(number: int) -> str:
    """An id that every writer adds."""
    return f"shared-{number}"


def own(writer: str, number: int) -> str:
    """An id that only this writer adds."""
    return f"{writer}-{number}"


def _note(name: str, tenant: str) -> Record:
    return Record(
        collection="messages", id=name, scope=Scope(tenant=tenant, session="crowd"), text=f"note {name}"
    )


def _board(tenant: str) -> Query:
    return Query(collection="messages", ids=(BOARD,), scope=Scope(tenant=tenant))


async def write(store: Store, tenant: str, writer: str, writes: int) -> Report:
    """Add shared and own ids eight calls at a time; every tenth call also puts a key on the record all write to."""
    total = [0, 0]

    async def call(number: int) -> None:
        notes = [_note(shared(number), tenant), _note(own(writer, number), tenant), _note(BOARD, tenant)]
        ops: list[Add | Change] = [Add(notes)]
        if number % 10 == 0:
            ops.append(Change(query=_board(tenant), merge={own(writer, number): number}))
        added, *merged = await store.apply(ops)
        total[0] += added
        total[1] += sum(merged)

    for start in range(0, writes, 8):
        await asyncio.gather(*(call(number) for number in range(start, min(start + 8, writes))))
    return Report(added=total[0], merged=total[1])


async def stream(store: Store, tenant: str) -> None:
    """Write batches in several lanes for ever; print lane and number of each that was acknowledged."""

    async def lane(name: int) -> None:
        number = 0
        while True:
            number += 1
            notes = [_note(f"{name}-{number}-{one}", tenant) for one in range(BATCH)]
            merge = Change(query=_board(tenant), merge={str(name): number})
            await store.apply([Add([*notes, _note(BOARD, tenant)]), merge])
            print(name, number, flush=True)  # noqa: T201 - the line is the acknowledgement

    await asyncio.gather(*(lane(name) for name in range(_LANES)))


async def crowd(url: str, tenant: str, processes: int, writes: int) -> list[Report]:
    """Let so many processes make so many calls each, starting at the same moment; each must end without an error."""
    children = [await _child("write", url, tenant, f"w{number}", str(writes)) for number in range(processes)]
    try:
        for child in children:  # each has imported all it needs; the store is opened by all at once
            assert await _line(child) == "ready"
        return [
            msgspec.json.decode(answer, type=Report) for answer in await asyncio.gather(*map(_end, children))
        ]
    finally:
        await _stop(children)


async def killed_after(url: str, tenant: str, acknowledged: int, pause: float) -> list[tuple[int, int]]:
    """The (lane, number) of every batch acknowledged to a writer that was killed at some moment after so many."""
    child = await _child("stream", url, tenant)
    try:
        assert await _line(child) == "ready"
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        lines = [await _line(child) for _ in range(acknowledged)]
        await asyncio.sleep(pause)  # the moment is random; nothing waits for it
    finally:
        await _stop([child])
    assert child.stdout is not None
    lines += (await child.stdout.read()).decode().split("\n")[:-1]
    return [(int(lane), int(number)) for lane, number in (line.split() for line in lines)]


async def _child(*words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    # By path, since `-m` would import the package around it: a second of pytest and hypothesis for each writer.
    command = (sys.executable, "-P", __file__, *words)
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)


async def _line(child: asyncio.subprocess.Process) -> str:
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


async def _stop(children: Sequence[asyncio.subprocess.Process]) -> None:
    for child in children:
        if child.returncode is None:
            child.kill()
    for child in children:
        await child.wait()
        if child.stdin is not None:
            child.stdin.close()


async def _main(words: list[str]) -> None:
    what, url, tenant, *rest = words
    store = open_store(url)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    async with store:
        if what == "stream":
            await stream(store, tenant)
        else:
            report = await write(store, tenant, rest[0], int(rest[1]))
            print(msgspec.json.encode(report).decode())  # noqa: T201


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
