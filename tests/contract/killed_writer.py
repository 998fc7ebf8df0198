"""A writer that goes on until it is killed: it prints lane and number of each batch that was acknowledged to it."""

import asyncio
import sys

from octavo import Add, Change, Query, Record, Scope, open_store

BOARD = "board"
BATCH = 5
_LANES = 4


async def stream(store, tenant):
    """Write batches in several lanes for ever; each call also puts its number on the record all write to."""
    scope = Scope(tenant=tenant, session="crowd")
    board = Query(collection="messages", ids=(BOARD,), scope=scope)

    async def lane(name):
        number = 0
        while True:
            number += 1
            names = [BOARD, *(f"{name}-{number}-{one}" for one in range(BATCH))]
            notes = [
                Record(collection="messages", id=each, scope=scope, text=f"note {each}") for each in names
            ]
            await store.apply([Add(notes), Change(query=board, merge={str(name): number})])
            print(name, number, flush=True)  # the line is the acknowledgement

    await asyncio.gather(*(lane(name) for name in range(_LANES)))


async def main(url, tenant):
    store = open_store(url)
    print("ready", flush=True)
    sys.stdin.readline()
    async with store:
        await stream(store, tenant)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
