"""One of several processes that change the same memory: waits for the word, and tells how many changes it made."""

import asyncio
import random
import sys

from octavo import Conflict, NotFound
from octavo.layers import LayeredMemory


async def main(url: str, memory_id: str, name: str, count: int) -> None:
    chance, made = random.Random(name), 0
    async with LayeredMemory(url) as memory:
        await memory.logs(limit=1)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for n in range(count):
            try:
                await change(memory, memory_id, f"{name} {n}", chance.random())
            except (Conflict, NotFound):
                continue
            made += 1
        print(made, flush=True)


async def change(memory: LayeredMemory, memory_id: str, content: str, chance: float) -> None:
    if chance < 0.5:
        await memory.revise(memory_id, content=content)
    elif chance < 0.6:
        await memory.forget(memory_id)
    else:
        [last] = await memory.logs(memory_id, limit=1)
        if last.version == 1:  # undone, the memory would be gone for good
            raise Conflict("nothing but the beginning")
        await memory.undo(last.id)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
