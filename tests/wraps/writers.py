"""Writers in processes of their own, on one store and one index; run as a program by the tests."""

import asyncio
import sys

from octavo import Add, Change, Indexed, Query, Record, Scope, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder

SCOPE = Scope(session="crowd")


class Never(HashEmbedder):
    """Takes for ever."""

    async def embed(self, texts, *, asking=False):
        await asyncio.Event().wait()


def note(id_, text):
    return Record(collection="messages", id=id_, scope=SCOPE, text=text)


async def write(indexed, writer, count):
    """Add records of its own and change shared ones, eight calls at a time; end when nothing waits."""

    async def call(number):
        shared = f"shared-{number % 5}"
        texts = Change(
            query=Query(collection="messages", ids=(shared,)), text=f"{shared} by {writer} {number}"
        )
        await indexed.apply(
            [Add([note(f"{writer}-{number}", f"{writer} {number}"), note(shared, "x")]), texts]
        )

    for start in range(0, count, 8):
        await asyncio.gather(*(call(number) for number in range(start, min(start + 8, count))))
    await indexed.settle(120)
    print("settled", flush=True)


async def stream(indexed):
    """Add and change for ever; print the number of each call that was acknowledged."""
    number = 0
    while True:
        number += 1
        change = Change(query=Query(collection="messages", ids=("board",)), text=f"call {number}")
        await indexed.apply([Add([note(f"n{number}", f"note {number}"), note("board", "x")]), change])
        print(number, flush=True)


async def main(what, url, vectors, *rest):
    embedder = Never() if what == "never" else HashEmbedder()
    async with Indexed(open_store(url), open_vectors(vectors), embedder) as indexed:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        if what == "write":
            await write(indexed, rest[0], int(rest[1]))
        else:
            await stream(indexed)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
