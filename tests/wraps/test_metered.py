"""Metered: every verb of every store is counted and timed, whatever becomes of it, and nobody is named."""

import asyncio
import inspect

import pytest
from faults import said

from octavo import Add, Change, Query, Remove, Scope, StoreUnavailable, open_store
from octavo.errors import StoreError
from octavo.kernel.ports import Queues, Searches
from octavo.kernel.shapes import SHAPES
from octavo.search.recall import Recall
from octavo.util.metrics import prometheus_page
from octavo.wraps import Journal, Metered, Wrap
from octavo.wraps.metered import FACES, STORE_FAMILIES, error_class

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
LIN = Scope(user="lin", session="s1")


def counted(metered, name="octavo_store_seconds"):
    """How often each sample was observed, or what it counts."""
    rows = metered.meter.snapshot().get(name, {})
    return {labels: sum(numbers[1:]) if len(numbers) > 1 else numbers[0] for labels, numbers in rows.items()}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_verbs_are_counted_on_every_store(place, kind):
    query = Query(collection="messages", scope=LIN)
    async with Metered(open_store(place(kind))) as store:
        await store.apply([Add([said("a", "the red house", LIN), said("b", "the blue house", LIN)])])
        assert len(await store.find(query)) == 2
        assert (await store.tally(query)).total == 2
        assert len(await store.heads(Query(collection="messages", newest_first=True, limit=5))) == 2
        assert [one.name for one in await store.names("messages", "user")] == ["lin"]
        assert len((await store.search(query, ["red"])).found) == 1
        await store.apply([Change(query=query, mark=("seen",)), Remove(query)])
        seen = counted(store)
        assert seen == {
            ("apply", "chat"): 2,
            **{(verb, "chat"): 1 for verb in ("find", "tally", "heads", "names", "search")},
        }
        assert counted(store, "octavo_store_records_total") == {
            ("apply", "chat"): 2 + 2 + 2,
            ("find", "chat"): 2,
            ("heads", "chat"): 2,
            ("names", "chat"): 1,
            ("search", "chat"): 1,
        }
        assert "lin" not in prometheus_page(STORE_FAMILIES, store.meter.snapshot())


class Failing(Wrap):
    """Raises what it is told to."""

    error: BaseException = StoreUnavailable("away")

    async def find(self, query):
        raise self.error


class RefusedError(StoreError):
    """An error of a driver's own kind."""


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (StoreUnavailable("away"), "StoreUnavailable"),
        (RefusedError("no"), "StoreError"),
        (ZeroDivisionError(), "other"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_failures_are_counted_by_their_class(error, label):
    """And reach the caller as they are; a failed verb took its time as well."""
    failing = Failing(open_store("memory://"))
    failing.error = error
    store = Metered(failing)
    with pytest.raises(type(error)):
        await store.find(Query(collection="events"))
    assert counted(store, "octavo_store_errors_total") == {("find", label): 1}
    assert counted(store) == {("find", "events"): 1}
    assert error_class(error) == label


NONSENSE = [
    ("apply", lambda: "nonsense"),
    ("apply", lambda: [7]),
    ("apply", lambda: [Add([])]),
    ("apply", lambda: [Add(records=[7])]),
    ("apply", lambda: [Remove(Query(collection="x"))]),
    ("apply", lambda: iter([Add([said("a", "x")])])),
    ("find", lambda: "nonsense"),
    ("find", lambda: Query(collection="x")),
]


@pytest.mark.parametrize(("verb", "given"), NONSENSE)
async def test_the_store_judges_what_it_is_given(verb, given):
    """Counting looks at it without touching it, and finds no new label in it."""

    async def outcome(store):
        try:
            return await getattr(store, verb)(given())
        except Exception as error:
            return type(error)

    store = Metered(open_store("memory://"))
    assert await outcome(store) == await outcome(open_store("memory://"))
    assert [*counted(store)] == [(verb, "other")]


async def test_a_queue_behind_it_is_still_one(tmp_path):
    """A write says stored or queued, and is counted under its own name."""
    async with Metered(Journal(open_store("memory://"), tmp_path)) as store:
        assert isinstance(store, Queues)
        done = await store.write([Add([said("a", "x")])], later=[])
        assert (done.status, done.counts) == ("stored", [1])
        assert counted(store) == {("write", "chat"): 1}
        assert (await store.replay_now()) == 0  # whatever else it can do
    assert not isinstance(Metered(open_store("memory://")), Queues)


def test_it_can_do_what_its_store_can():
    class Bare(Wrap):
        search = None

    assert isinstance(Metered(open_store("memory://")), Searches)
    assert inspect.getattr_static(Metered(open_store("memory://")), "search") is not None
    assert not callable(getattr(Metered(Bare(open_store("memory://"))), "search", None))


async def test_a_recall_tells_how_long_its_stages_took():
    async with Metered(open_store("memory://")) as store:
        await store.apply([Add([said("a", "the red house", LIN)])])
        assert len(await Recall(store).recall("red house", LIN)) == 1
        stages = {stage for (stage,) in counted(store, "octavo_recall_seconds")}
        assert {"terms", "rank", "load", "gather", "total"} <= stages


def test_every_collection_is_somebodys():
    """A new one is given its face here."""
    assert set(FACES) == set(SHAPES)
