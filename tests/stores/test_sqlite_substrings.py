"""Texts in SQLite: whether or not an index nominates the records, the answers are those of `Query.over`."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_texts import EVENTS, NASTY, NOON, agrees, ask, do, event, indexed, nominates, settled

from octavo import Add, Change, Cursor, Query, Remove, Scope, open_store
from octavo.kernel.text import fold
from octavo.stores.sql import substrings


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/a.db"


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    """Few records suffice for an index here."""
    monkeypatch.setattr(substrings, "_SMALL", 0)


async def test_nasty_texts(url, tmp_path):
    """Every piece of every nasty text finds what holds it, through the index, and nothing else does."""
    records = [event(n, text) for n, text in enumerate([*NASTY, *(f"filler {n}" for n in range(40))])]
    async with open_store(url) as store:
        await store.apply([Add(records)])
        await settled(store)
        places, sizes = (0, 1, 2, 5, 4998), (1, 2, 3, 4, 8, 6000)
        needles = {text[at : at + size] for text in NASTY for at in places for size in sizes}
        needles |= {
            "%", "_", "%%%", "50%", "_to", "''", '"""', "no\" 'y", "\0", "abc\0", "\0\0\0\0", "zzz", "x" * 9000, "🎊🎈 ", "AND",
        }  # fmt: skip
        used = 0
        for needle in sorted(needles):
            await agrees(store, records, text=needle)
            used += bool(needle) and "\0" not in needle and await nominates(store, text=needle)
        assert used > 100
        assert not await nominates(store, text="ab")  # no run of three characters
    found, expected = indexed(tmp_path / "a.db")
    assert found == expected


words = st.text(alphabet="ab%_\"'é\u0301人工智🎉🎊 \n", max_size=12)
lives = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(words, min_size=1, max_size=6)),
        st.tuples(st.just("change"), st.integers(0, 60), words),
        st.tuples(st.just("remove"), st.integers(0, 60), st.integers(1, 20)),
        st.tuples(st.just("settle")),
    ),
    max_size=12,
)
clauses = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.integers(0, 5),
        "offset": st.integers(0, 3),
        "newest_first": st.booleans(),
        "after": st.integers(0, 30).map(lambda n: event(n, "").cursor) | st.just(Cursor()),
        "scope": st.sampled_from([Scope(agent="a1"), Scope(session="s2"), Scope(user="nobody")]),
        "kinds": st.sampled_from([("k",), ("k", "t"), ()]),
        "since": st.integers(0, 20).map(lambda n: NOON + timedelta(seconds=n)),
        "until": st.integers(0, 20).map(lambda n: NOON + timedelta(seconds=n)),
        "where": st.just({"odd": True}),
    },
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives=lives, asked=st.lists(clauses, min_size=1, max_size=6), data=st.data())
async def test_any_life(tmp_path_factory, lives, asked, data):
    """Through adds, changes and removals, indexed or late, a find and a tally agree with `Query`."""
    folder = tmp_path_factory.mktemp("life")
    async with open_store(f"sqlite:///{folder}/a.db?durability=fast") as store:
        kept = [event(n, "ab人工 filler") for n in range(4)]
        await store.apply([Add(kept)])
        await settled(store)
        number = len(kept)
        for what, *more in lives:
            if what == "add":
                fresh = [event(number + n, t, metadata={"odd": n % 2 == 1}) for n, t in enumerate(more[0])]
                await store.apply([Add(fresh)])
                kept, number = kept + fresh, number + len(fresh)
            elif what == "change":
                at, text = more
                change = Change(query=Query(collection="events", ids=(f"e{at}",)), text=text)
                await store.apply([change])
                kept = [change.applied_to(r) if r.id == f"e{at}" else r for r in kept]
            elif what == "remove":  # often the last ones, whose numbers are given out again
                start, count = more
                gone = {r.id for r in (kept[-count:] if start % 2 else kept[start : start + count])}
                await store.apply([Remove(Query(collection="events", ids=tuple(gone)))])
                kept = [r for r in kept if r.id not in gone]
            else:
                await settled(store)
        for given in asked:
            text = fold(data.draw(st.sampled_from([r.text for r in kept] or [""])))
            start = data.draw(st.integers(0, max(0, len(text) - 1)))
            needle = text[start : start + data.draw(st.integers(1, 6))]
            await agrees(store, kept, text=needle, **given)
        await settled(store)
        assert (await store.verify("events")).missing == ()
    found, expected = indexed(folder / "a.db")
    assert found == expected


async def test_numbers_given_out_again(url, tmp_path):
    """What gets the number of a row that was removed before is found at once, by its text and by its terms."""
    kept = [event(n, "old word") for n in range(100)]
    async with open_store(url) as store:
        await store.apply([Add(kept)])
        await settled(store)
        assert len((await store.search(EVENTS, ["old"])).found) == 100
        await store.apply([Remove(Query(collection="events", ids=("e50",)))])
        await settled(store)
        while (await store.verify("events")).waiting:
            await asyncio.sleep(0.01)
        await store.apply([Remove(Query(collection="events", ids=tuple(f"e{n}" for n in range(51, 100))))])
        await store.apply([Add([event(200, "fresh word"), event(201, "fresh again")])])
        for _ in range(2):
            kept = [*kept[:50], event(200, "fresh word"), event(201, "fresh again")]
            assert await agrees(store, kept, text="resh") == [
                ("e200", kept[50].scope.key),
                ("e201", kept[51].scope.key),
            ]
            assert [m.id for m in (await store.search(EVENTS, ["fresh"])).found] == ["e200", "e201"]
            await settled(store)
            while (await store.verify("events")).waiting:
                await asyncio.sleep(0.01)
        assert (await store.verify("events")).missing == ()
    found, expected = indexed(tmp_path / "a.db")
    assert found == expected


async def test_only_where_it_pays(url, monkeypatch):
    """Small collections and scopes, short texts, and stores that are never asked for a text have an empty index."""
    monkeypatch.setattr(substrings, "_SMALL", 20)
    async with open_store(url) as store:
        records = [event(n, f"text {n}") for n in range(40)]
        await store.apply([Add(records[:20])])
        await agrees(store, records[:20], text="text 1")
        await store.apply([Add(records[20:])])
        await store.find(EVENTS)
        await agrees(store, records, text="xt")
        await agrees(store, records, text="text 1", scope=Scope(session="s1"))
        await agrees(store, records, text="text 1", since=NOON + timedelta(seconds=15))
        await agrees(store, records, text="text 1", ids=("e1", "e2"))
        assert not (await ask(store, "SELECT * FROM agent_events_substrings_docsize"))
        await agrees(store, records, text="text 1", limit=2)
        await settled(store)
        assert await nominates(store, text="text 1", limit=2)
        assert not await nominates(store, text="text 1", scope=Scope(session="s1"))


async def test_common_texts_are_walked_to(url, monkeypatch):
    """A text that many records hold is looked for in order."""
    monkeypatch.setattr(substrings, "_FEW", 10)
    async with open_store(url) as store:
        records = [event(n, "common" + " rare" * (n % 50 == 0) + " some" * (n % 8 == 0)) for n in range(400)]
        await store.apply([Add(records)])
        await settled(store)
        for text, limit, through in (
            ("common", 10, False), ("common", None, False), ("rare", 10, True), ("rare", None, True), ("some", 1, False),
        ):  # fmt: skip
            assert await nominates(store, text=text, limit=limit, newest_first=True) == through
            await agrees(store, records, text=text, limit=limit, newest_first=True)


async def test_made_beside_the_readers(url):
    """The first text query is answered while the index is made, and so is every one until it is done; writers go on."""
    records = [event(n, f"number {n:05}") for n in range(3000)]
    async with open_store(url) as store:
        await store.apply([Add(records)])
        behind = 0
        for n in range(3000, 3060):
            fresh = event(n, f"number {n:05}")
            records.append(fresh)
            await store.apply([Add([fresh])])
            await agrees(store, records, text=f"{n:05}")
            behind += not await nominates(store, text=f"{n:05}")
        assert behind
        await settled(store)
        assert await nominates(store, text="03059")
        await agrees(store, records, text="03059")


async def test_many_late_records(url):
    """When much was written at once, it is all looked at until the background has indexed it."""
    async with open_store(url) as store:
        records = [event(n, f"number {n:05}") for n in range(1000)]
        await store.apply([Add(records[:100])])
        await settled(store)
        await store.apply([Add(records[100:])])
        assert not await nominates(store, text="00999")
        await agrees(store, records, text="00999")
        await settled(store)
        assert await nominates(store, text="00999")
        await agrees(store, records, text="00999")


async def test_long_texts_go_in_a_few_at_a_time(url, monkeypatch):
    """Long texts are indexed in smaller transactions, one by one if need be, and none is left out."""
    monkeypatch.setattr(substrings, "_MOST_CHARACTERS", 1000)
    async with open_store(url) as store:
        records = [event(n, f"{n:05} " * (1 if n % 7 else 400)) for n in range(60)]
        await store.apply([Add(records)])
        await settled(store)
        assert await nominates(store, text="00056 00056")
        assert len(await agrees(store, records, text="00056 00056")) == 1
        await store.apply([Remove(EVENTS)])
        await store.apply([Add(records[30:])])
        await store.reindex("events")
        assert len(await agrees(store, records[30:], text="00056 00056")) == 1


async def test_damage_is_named_and_mended(url):
    """A record that the index has lost is named by `verify` and brought back by `reindex`, with terms or without."""
    async with open_store(url) as store:
        records = [event(n, f"number {n:05}") for n in range(20)]
        await store.apply([Add(records)])
        await settled(store)
        assert (await store.verify("events")).missing == ()
        lose = "INSERT INTO agent_events_substrings (agent_events_substrings, rowid, search) SELECT 'delete', rowno, search FROM agent_events WHERE event_id = ?"
        await do(store, lose, ("e7",))
        assert await store.find(Query(collection="events", text="00007")) == []
        assert (await store.verify("events")).missing == ("e7",)
        assert await store.reindex("events") == 20
        await agrees(store, records, text="00007")
        assert (await store.verify("events")).missing == ()
        await do(store, lose, ("e8",))
        assert (await store.verify("events")).missing == ("e8",)


async def test_in_memory():
    """A database in memory has one connection for all; it is found in as well."""
    records = [event(n, f"number {n:05}") for n in range(300)]
    async with open_store("sqlite:///:memory:") as store:
        await store.apply([Add(records)])
        await settled(store)
        assert await nominates(store, text="00077")
        await agrees(store, records, text="00077")


async def test_data_is_searched_too(url):
    """A record without a text is found by the values of its data, as they were and as they are."""
    records = [event(n, "", data={"call": {"name": f"ＴＯＯＬ {n:03}"}}) for n in range(30)]
    async with open_store(url) as store:
        await store.apply([Add(records)])
        await settled(store)
        assert await nominates(store, text="tool 007")
        assert len(await agrees(store, records, text="tool 007")) == 1
        change = Change(query=Query(collection="events", ids=("e7",)), merge={"call": "other"})
        await store.apply([change])
        records[7] = change.applied_to(records[7])
        for _ in range(2):
            assert not await agrees(store, records, text="tool 007")
            assert len(await agrees(store, records, text="other")) == 1
            await settled(store)
