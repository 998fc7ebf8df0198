"""Thousands of random operations while the store fails and callers give up: replaying the log gives exactly the tables."""

import asyncio
import random
from collections import Counter

import pytest
from layers_kit import Clock, Scripted, agree, fact

from octavo import Conflict, NotFound, StoreUnavailable, open_store
from octavo.layers import LayeredMemory
from octavo.wraps import Wrap
from serving import KINDS, url_of

OWNERS = tuple({of: f"lin{n}"} for of in ("user_id", "agent_id") for n in range(20))
CATEGORIES = {"profile": ["value", "career"], "event": ["meeting", "action"]}
AT_ONCE = 40


class Unreliable(Wrap):
    """A store that now and then fails before a write, after it, or in a read."""

    def __init__(self, store, chance):
        super().__init__(store)
        self.chance = chance
        self.failed = Counter()

    def _perhaps(self, when, probability):
        if self.chance.random() < probability:
            self.failed[when] += 1
            raise StoreUnavailable(f"the connection was lost {when}")

    async def apply(self, ops):
        self._perhaps("before the commit", 0.04)
        counts = await self.inner.apply(ops)
        self._perhaps("after the commit", 0.04)
        return counts

    async def find(self, query):
        self._perhaps("in a read", 0.01)
        return await self.inner.find(query)


class Life:
    """Random operations on few memories, through two layered memories that know nothing of each other."""

    def __init__(self, store, chance):
        self.chance = chance
        self.clock = Clock()
        self.done = Counter()
        extractor = Scripted({"x": self.decisions})
        self.memories = [
            LayeredMemory(store, tenant="t", clock=self.clock, extractor=extractor) for _ in range(2)
        ]
        self.ids = []
        self.count = 0

    def decisions(self, known):
        targets = self.chance.sample(known, min(len(known), 2))
        self.count += 1
        content = f"fact {self.count}"
        return [
            fact(content),
            *(
                fact(f"{content} of {one.id}", "update", one.layer, one.category, target=one.id)
                for one in targets
            ),
        ]

    async def run(self, count):
        """So many operations, some at a time; a few are given up by their callers."""
        for _ in range(0, count, AT_ONCE):
            calls = [asyncio.create_task(self.call()) for _ in range(AT_ONCE)]
            if self.chance.random() < 0.5:
                for _ in range(self.chance.randrange(12)):
                    await asyncio.sleep(0)
                self.done["given up"] += self.chance.choice(calls).cancel()
            for answer in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(answer, BaseException) and not isinstance(answer, asyncio.CancelledError):
                    raise answer
            self.clock.go(seconds=self.chance.randrange(20))
            del self.ids[:-40]

    async def call(self):
        what = self.chance.choices(
            ["remember", "revise", "forget", "undo", "extract", "sweep"], [6, 10, 2, 5, 1, 1]
        )[0]
        try:
            await getattr(self, what)(self.chance.choice(self.memories))
        except (NotFound, Conflict, StoreUnavailable) as error:
            self.done[type(error).__name__] += 1
        else:
            self.done[what] += 1

    async def remember(self, memory):
        layer = self.chance.choice([*CATEGORIES])
        self.count += 1
        made = await memory.remember(
            f"m{self.count}",
            **self.chance.choice(OWNERS),
            layer=layer,
            category=self.chance.choice(CATEGORIES[layer]),
            ttl_seconds=self.chance.choice([None, 30, 300]),
            metadata={"n": self.chance.choice([1, True, None, [1.0]])},
        )
        self.ids.append(made.id)

    async def revise(self, memory):
        self.count += 1
        change = self.chance.choice(
            [
                {"content": f"r{self.count}"},
                {"content": "the same"},
                {"metadata": {"n": self.chance.choice([1, True])}},
                {"is_permanent": True},
                {"expiry_date": None},
            ]
        )
        await memory.revise(self.some(), **change)

    async def forget(self, memory):
        await memory.forget(self.some())

    async def undo(self, memory):
        rows = await memory.logs(self.some(), limit=1)
        if rows:
            await memory.undo(rows[0].id)

    async def extract(self, memory):
        made = await memory.extract("x", **self.chance.choice(OWNERS))
        self.ids += [one.id for one in made.memories]

    async def sweep(self, memory):
        await memory.sweep()

    def some(self):
        return self.chance.choice(self.ids) if self.ids else "none"


async def tortured(url, seed, count):
    chance = random.Random(seed)
    store = Unreliable(open_store(url), chance)
    life = Life(store, chance)
    await life.run(count)
    if url != "memory://":  # writes whose callers gave up may be under way until it is closed
        await store.close()
        store = open_store(url)
    async with store:
        if isinstance(store, Unreliable):
            store = store.inner
        kept = await agree(store, "t")
        actions = Counter(entry.action for entry in await LayeredMemory(store, tenant="t").logs(limit=None))
    assert {*actions} == {"insert", "update", "ignore", "delete", "expire"}
    assert kept
    assert {"given up", "remember", "revise", "forget", "undo", "extract", "sweep", "StoreUnavailable"} <= {
        *life.done
    }
    return actions


@pytest.mark.parametrize("kind", KINDS)
async def test_the_log_is_the_table(kind, tmp_path, fresh_url, size):
    """Thousands of operations with faults on SQLite, and hundreds on every other store; ten thousand on each at full length."""
    if kind == "sqlite":
        actions = await tortured(f"sqlite:///{tmp_path}/a.db?durability=fast", 2, size(2_000, 10_000))
        assert actions["update"] > size(200, 1_000)
    else:
        await tortured(url_of(kind, tmp_path, fresh_url), 1, size(600, 10_000))
