"""A server takes no more memory for many users than for few, beyond what its caches may take together."""

import asyncio
import functools
import gc
import itertools
from collections import deque

import msgspec
import pytest
from bench.heartbeat import asked, requests, settings_in

from octavo import cache
from octavo.config import Service
from octavo.config.settings import Cache
from octavo.server import create_app

USERS = 150
MOST_ADDED = 120  # more than anything holds for other reasons, such as what a driver keeps ready
TEXT = "I am a nurse, I live in Oslo and I like green tea in the morning."


@pytest.fixture
def no_caches():
    """Settings under which nothing is remembered for speed; other tests get the usual budget back."""
    yield {"cache": Cache(max_bytes=0), "service": Service(dedup_window=1)}
    cache.set_budget(cache.DEFAULT_BYTES)


def held() -> dict[int, object]:
    """Everything that holds many things; also what the collector does not look at, since it holds texts and numbers only."""
    gc.collect()
    for function in gc.get_objects():
        if isinstance(function, functools._lru_cache_wrapper):
            function.cache_clear()  # bounded by themselves
    objects = gc.get_objects()
    within = itertools.chain.from_iterable(map(gc.get_referents, objects))
    return {id(one): one for one in (*objects, *within) if isinstance(one, dict | list | set | deque)}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql", "redis"])
async def test_nothing_is_held_for_each_user(kind, tmp_path, store_url, no_caches):
    """Inserts, extraction, questions, events and listings of many users leave nothing behind that grows with them."""
    app = create_app(msgspec.structs.replace(settings_in(tmp_path, store_url(kind)), **no_caches))

    async def serve(user):
        for method, path, body in requests(TEXT, user).values():
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
        grown = [one for number, one in after.items() if len(one) - before.get(number, 0) > MOST_ADDED]
        assert [(type(one), str(one)[:200]) for one in grown] == []
