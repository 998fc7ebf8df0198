"""One of several processes that find the same new facts: waits for the word, and tells how many of them it added."""

import asyncio
import sys

from octavo.layers import LayeredMemory

FACTS = [
    f"I like {what}."
    for what in ["tea", "jazz", "chess", "opera", "cheese", "skiing", "sailing", "poetry", "hiking", "cats"]
]


async def main(url: str) -> None:
    added = 0
    async with LayeredMemory(url) as memory:
        await memory.logs(limit=1)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for text in FACTS:
            added += (await memory.extract(text, user_id="lin")).inserted
        print(added, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
