"""One of several processes that talk in one session and compress it: `compressing_child.py URL USER NUMBER COUNT`."""

import asyncio
import re
import sys

from octavo.chat import ChatMemory, Msg
from octavo.chat.compression import CompressionConfig, compress

NUMBER = re.compile(r"<[\d.]+>")
CONFIG = CompressionConfig(trigger=0, keep_recent=3)


def remembering(prompt: str) -> str:
    """A model that forgets nothing: its summary is every number it was shown."""
    return " ".join(sorted(set(NUMBER.findall(prompt))))


async def main(url: str, user: str, number: str, count: str) -> None:
    async with ChatMemory.open(url, user, "race") as memory:
        done = 0
        for turn in range(int(count)):
            await memory.add(Msg("lin", f"<{number}.{turn}>", "user"))
            done += bool(await compress(memory, remembering, CONFIG))
        print(done)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
