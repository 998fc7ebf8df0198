"""The peer's end of the pipe: one JSON command per line in, one JSON answer per line out. Standard library only."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any


async def answer(commands: dict[str, Callable[..., Awaitable[Any]]]) -> None:
    """Run commands until the pipe closes; a failure is an answer too."""
    loop = asyncio.get_running_loop()
    # Libraries print what they like: only answers may travel on the pipe.
    pipe, sys.stdout = sys.stdout, sys.stderr
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        try:
            said = {"answer": await commands[command.pop("do")](**command)}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        pipe.write(json.dumps(said) + "\n")
        pipe.flush()


def pragmas(durability: str) -> list[str]:
    """What puts a peer on the same terms as Octavo; nothing when it is to run as it comes."""
    if durability == "default":
        return []
    return ["PRAGMA journal_mode=WAL", f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}"]
