"""Prints what a server holds more of after many users than after one: `python growing.py STORE_URL FOLDER`.

A process of its own, since everything that a process holds is looked through.
"""

import asyncio
import functools
import gc
import itertools
import sys
from collections import deque
from pathlib import Path

import msgspec
from bench.heartbeat import asked, requests, settings_in

from octavo.config import Service
from octavo.config.settings import Cache
from octavo.server import create_app

USERS = 150
MOST_ADDED = 120  # more than anything holds for other reasons, such as what a driver keeps ready
TEXT = "I am a nurse, I live in Oslo and I like green tea in the morning."


def held() -> dict[int, object]:
    """Everything that holds many things; also what the collector does not look at, since it holds texts and numbers only."""
    gc.collect()
    for function in gc.get_objects():
        if isinstance(function, functools._lru_cache_wrapper):
            function.cache_clear()  # bounded by themselves
    objects = gc.get_objects()
    within = itertools.chain.from_iterable(map(gc.get_referents, objects))
    return {id(one): one for one in (*objects, *within) if isinstance(one, dict | list | set | deque)}


async def main(url: str, folder: str) -> None:
    """Serve one user, then many, and print what grew."""
    no_caches = {"cache": Cache(max_bytes=0), "service": Service(dedup_window=1)}
    app = create_app(msgspec.structs.replace(settings_in(Path(folder), url), **no_caches))

    async def serve(user: str) -> None:
        asking = requests(TEXT, user)
        del asking["extract beside it"], asking["query for it"]  # the same routes once more
        for method, path, body in asking.values():
            status, said = await asked(app, method, path, body)
            assert status == 200, (path, said)

    async with app.router.lifespan_context(app):
        await serve("first")  # modules and patterns that the first request loads
        before = {number: len(one) for number, one in held().items()}
        for number in range(USERS):
            await serve(f"user{number}")
        after = held()
        for own in (before, asyncio.get_running_loop()._scheduled):  # timers that were called off go later
            after.pop(id(own), None)
        for number, one in after.items():
            # A driver that connects once more may ask for its own version: Python then lists the packages anew.
            if len(one) - before.get(number, 0) > MOST_ADDED and not type(one).__module__.startswith(
                "importlib"
            ):
                print(type(one), len(one), before.get(number), str(one)[:200])


asyncio.run(main(*sys.argv[1:]))
