"""Search never misses a substring, and by whole words reads few records."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octavo import AgentEvent, EventStore, Query, open_store
from octavo.events import to_event
from octavo.kernel.terms.matches import MOST
from octavo.kernel.text import fold
from sampled import examples

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
PIECES = [
    "calculator",
    "calculators",
    "reCalculate",
    "getUserName",
    "a.getCalcUlator",
    "e-mail",
    "it's",
    "don't",
    "C++",
    "50%",
    "150%",
    "a_b",
    "3.14",
    "1,000",
    "2024-05-07",
    "error",
    "ERROR",
    "Straße",
    "STRASSE",
    "ＡＢＣ",
    "abc",
    "ﬁne",
    "软件",
    "软件工程",
    "计算器",
    "计",
    "算",
    "器",
    "ソフト",
    "ｿﾌﾄ",
    "한국어",
    "ภาษา",
    "👍",
    ".",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "x",
    "bought",
]
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).flatmap(
    lambda pieces: st.sampled_from([" ".join(pieces), "".join(pieces), "\n".join(pieces), "  ".join(pieces)])
)


@st.composite
def worlds(draw):
    """Texts that events hold, and a needle that is mostly part of one of them."""
    held = draw(st.lists(texts, min_size=1, max_size=12))
    whole = fold(draw(st.sampled_from(held))) if draw(st.booleans()) else draw(st.sampled_from(held))
    start = draw(st.integers(0, len(whole) - 1))
    needle = whole[start : start + draw(st.integers(1, 20))]
    return held, draw(st.one_of(st.just(needle), texts))


async def _found(url, held, needle, limit):
    async with EventStore(open_store(url)) as store:
        said = [
            AgentEvent(event_id=f"e{n:02}", session_id=f"s{n % 2}", timestamp=NOON + timedelta(seconds=n // 2), data={"t": text, "n": n})
            for n, text in enumerate(held)
        ]  # fmt: skip
        await store.store_many(said)
        query = Query(collection="events", text=needle, newest_first=True)
        truth = [to_event(record) for record in await store.kernel.find(query)]
        found = await store.search(needle, limit=limit, everyone=True)
        await store.kernel.close()
        return found, truth


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:"])
@given(world=worlds(), limit=st.integers(1, 5))
@example(world=(["a.getCalcUlator", "calculator"], "calculator"), limit=3)
@example(world=(["一软件工程二", "软 件"], "软件"), limit=1)
@example(world=(["x reCalculate x", "say reCalculate x now"], "x recalculate x"), limit=3)
@settings(max_examples=examples(60, 150))
def test_the_newest_of_all_that_hold_it(url, world, limit):
    """Of all events that hold the needle, the newest, each once."""
    held, needle = world
    found, truth = asyncio.run(_found(url, held, needle, limit))
    assert found == truth[:limit]


class Counting:
    """A store that counts what is asked of the store inside by looking at records rather than in an index."""

    def __init__(self, store):
        self.inner = store
        self.scans: list[Query] = []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def find(self, query):
        if query.text and query.ids is None and query.since is None:
            self.scans.append(query)
        return await self.inner.find(query)

    async def search(self, query, terms):
        return await self.inner.search(query, terms)

    async def reindex(self, *args): ...

    async def verify(self, *args): ...


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres", "mysql", "redis"])
async def test_the_index_answers(kind, named):
    """Common words, Chinese and phrases, as whole words: none of them looks at every record."""
    async with named(kind) as store:
        await store.store_many([
            AgentEvent(
                event_id=f"e{n:04}", timestamp=NOON + timedelta(seconds=n),
                data={"m": f"{'error 错误' if n % 10 == 0 else 'fine'} number{n} {'计算器 calculator' if n < 12 else ''}"},
            )
            for n in range(1300)
        ])  # fmt: skip
        counting = Counting(store.kernel)
        watched = EventStore(counting)
        for needle, count in (
            ("error", 10),
            ("错误", 10),
            ("计算器", 10),
            ("calculator", 10),
            ("计算机", 0),
            ("is number7 for sure", 0),
            ("number7", 1),
        ):
            found = await watched.search(needle, whole_words=True, everyone=True)
            assert len(found) == count, needle
        assert counting.scans == []
        assert len(await watched.search("number7", limit=500, everyone=True)) == 111


async def test_more_candidates_than_the_index_gives(named):
    """Thousands hold each term of the needle and only the oldest holds the needle: it is found all the same."""
    async with named("memory") as store:
        await store.store(AgentEvent("oldest", timestamp=NOON, data={"m": "计算器"}))
        await store.store_many([
            AgentEvent(f"e{n}", timestamp=NOON + timedelta(seconds=n + 1), data={"m": "算器 计算"})
            for n in range(MOST + 1100)
        ])  # fmt: skip
        assert [event.event_id for event in await store.search("计算器", everyone=True)] == ["oldest"]
        assert [
            event.event_id for event in await store.search("计算器", whole_words=True, everyone=True)
        ] == ["oldest"]
