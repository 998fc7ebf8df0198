"""One of several processes on one session: waits for the word, adds, and tells the order it sees."""

import asyncio
import json
import sys

from octavo.chat import ChatMemory, Msg


async def main(url: str, user: str, name: str, count: int) -> None:
    async with ChatMemory.open(url, user_id=user, session_id="s") as memory:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for start in range(0, count, 5):
            await asyncio.gather(
                *(memory.add(_message(f"{name}-{n}"), marks=name) for n in range(start, start + 5))
            )
            await memory.add(_message(f"shared-{start}"))  # all processes add it, and one is kept
            await memory.update_messages_mark("seen", None, [f"{name}-{start}"])
        print(json.dumps([message.id for message in await memory.get_memory()]), flush=True)


def _message(name: str) -> Msg:
    message = Msg("child", name, "user")
    message.id = name
    return message


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
