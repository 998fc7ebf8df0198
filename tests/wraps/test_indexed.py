"""Vectors beside a store: what is written is found by meaning soon after, on every store."""

import asyncio
import re
import subprocess
import sys
import textwrap
from datetime import timedelta

import pytest
from faults import HOME, SETTLED, FailingEmbedder, entries, key, left, near, said

from octavo import (
    Add,
    Change,
    ConfigError,
    InvalidQuery,
    InvalidRecord,
    Query,
    Remove,
    Scope,
    open_store,
    open_vectors,
)
from octavo.kernel.ids import now
from octavo.kernel.terms.matching import digest
from octavo.kernel.text import content
from octavo.testing.embedding import HashEmbedder
from octavo.wraps import Indexed, Wrap
from octavo.wraps.vectors import VectorState

STORES = ["memory", "sqlite", "file", "postgres", "mysql", "redis"]
INDEXES = ["exact", "sqlite-vec"]
SPACE = HashEmbedder().name


@pytest.fixture(params=INDEXES)
def index(request, place):
    return open_vectors("memory://" if request.param == "exact" else place("sqlite"))


@pytest.mark.parametrize("kind", STORES)
async def test_written_changed_removed_and_added_again(kind, index, place, wrap):
    """After settle the index says what the store says, at every turn of a record's life, and nothing waits."""
    store = open_store(place(kind))
    indexed = await wrap(store, index)
    other = Scope(tenant="acme", agent="bot")
    texts = {"a": "the cat sleeps", "b": "rain in spring", "c": "bread and butter"}
    notes = [said(id_, text) for id_, text in texts.items()]
    more = [said("a", "stars at night", other), said("k", "a plain fact", other, "knowledge")]
    assert await indexed.apply([Add(notes), Add(more)]) == [3, 2]
    await indexed.settle(SETTLED)
    assert await near(indexed, "spring rain") == ["b"]
    assert await near(indexed, "stars of the night", other) == ["a"]
    assert await near(indexed, "fact", other, collections=("messages", "knowledge")) == ["k"]
    assert await near(indexed, "stars at night", Scope(tenant="nobody")) == []

    of_a = Query(collection="messages", ids=("a",), scope=Scope(user="ann"))
    assert await indexed.apply([Change(query=of_a, text="mountains and lakes")]) == [1]
    await indexed.settle(SETTLED)
    assert await near(indexed, "lakes") == ["a"]
    assert await near(indexed, "night stars", other) == ["a"]
    assert await indexed.apply([Remove(of_a), Remove(Query(collection="messages", ids=("b",)))]) == [1, 1]
    await indexed.settle(SETTLED)
    assert await near(indexed, "lakes", limit=5) == ["c"]
    assert await indexed.apply([Add([said("a", "ships at sea")])]) == [1]
    await indexed.settle(SETTLED)
    assert await near(indexed, "sea ships") == ["a"]
    assert await near(indexed, "lakes", limit=5) != ["a"]

    assert await left(store, "", "acme") == 0
    assert not await indexed.verify_vectors()
    assert len(await entries(index, SPACE)) == 4
    [space] = await index.spaces()
    assert space.complete


@pytest.mark.parametrize("kind", STORES)
async def test_the_state_of_one_record(kind, index, place, wrap):
    """It waits until it has its vector, and again when it says something else; a model may not read it at all."""
    store = open_store(place(kind))
    model = FailingEmbedder()
    indexed = await wrap(store, index, model)
    one, other = said("a", "the cat sleeps"), said("a", "the cat sleeps", Scope(user="bo"))
    model.down = True
    await indexed.apply([Add([one, other])])
    assert (await indexed.vector_state(one)).state == "waiting"
    model.down = False
    await indexed.settle(SETTLED)
    assert await indexed.vector_state(one) == VectorState(model.name, "made")
    changed = said("a", "mountains and lakes")
    assert (await indexed.vector_state(changed)).state == "missing"
    await index.drop(SPACE, [key("a")])
    assert (await indexed.vector_state(one)).state == "missing"
    assert (await indexed.vector_state(other)).state == "made"
    assert (await indexed.vector_state(said("a", ""))).state == "unread"
    assert (await indexed.vector_state(said("a", "x", collection="log"))).state == "unread"


async def test_the_counts_are_those_of_the_callers_ops(wrap):
    indexed = await wrap()
    note = said("a", "hello")
    assert await indexed.apply([Add([note]), Add([note]), Remove(Query(collection="messages"))]) == [1, 0, 1]
    assert await indexed.apply([]) == []
    assert await indexed.apply([Add([])]) == [0]


async def test_only_what_can_change_a_vector_leaves_a_marker(wrap):
    """Marks, kinds, metadata, other collections and empty records are written as if there were no index."""
    indexed = await wrap()
    store = indexed.inner
    everything = Query(collection="messages")
    await indexed.apply([Add([said("a", "hello"), said("e", "an event", collection="events")])])
    await indexed.settle(SETTLED)

    for op in (
        Add([said("f", "another event", collection="events"), said("g", "")]),
        Change(query=everything, mark=("seen",), kind="user", metadata={"x": 1}),
        Change(query=Query(collection="events"), text="changed"),
        Remove(Query(collection="events")),
    ):
        await indexed.apply([op])
        assert await left(store) == 0, op  # the store is in memory: the task had no chance to take one away
    for op in (
        Add([said("b", "hello")]),
        Change(query=everything, text="x"),
        Change(query=everything, data={"x": "y"}),
        Change(query=everything, merge={"x": "y"}),
        Change(query=everything, expires_at=None),
        Remove(everything),
    ):
        await indexed.apply([op])
        assert await left(store) == 1, op
        await indexed.settle(SETTLED)


FIRST = Query(collection="messages", limit=1)
SEEN = Query(collection="messages", marks=("seen",))
KIND = Query(collection="messages", kinds=("k",))


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([Remove(FIRST), Remove(FIRST)], {"a": "1", "b": "2"}),
        ([Remove(FIRST), Change(query=FIRST, text="x")], {"a": "1", "b": "2", "c": "x"}),
        ([Remove(FIRST), Remove(Query(collection="messages", offset=1, limit=2))], {"c": "3"}),
        ([Add([said("e", "5", created_at=now() + timedelta(days=1))]), Remove(Query(collection="messages", offset=3))], {"c": "3", "d": "4", "e": "5"}),
        ([Change(query=FIRST, kind="k"), Change(query=KIND, text="x")], {"a": "1", "b": "2", "c": "3", "d": "x"}),
        ([Change(query=FIRST, mark=("seen",)), Remove(SEEN)], {"a": "1", "b": "2", "c": "3"}),
        ([Change(query=FIRST, mark=("seen",)), Remove(Query(collection="messages", without=("seen",)))], {"d": "4"}),
        ([Remove(FIRST), Add([said("d", "again")])], {"a": "1", "b": "2", "c": "3", "d": "again"}),
    ],
)  # fmt: skip
async def test_ops_of_one_call_that_build_on_each_other(ops, expected, wrap):
    """What an op finds depends on those before it; each record touched in the end is brought up to date."""
    indexed = await wrap()
    await indexed.apply([Add([said(id_, str(n)) for n, id_ in enumerate("abcd", 1)])])
    await indexed.settle(SETTLED)
    await indexed.apply(ops)
    await indexed.settle(SETTLED)
    assert {record.id: record.text for record in await indexed.find(Query(collection="messages"))} == expected
    assert await entries(indexed._index, SPACE) == {key(id_): digest(text) for id_, text in expected.items()}


async def test_every_marker_has_an_id_of_its_own(wrap):
    """An id used before would not be added again, and what it names would be forgotten."""
    indexed = await wrap()
    for _ in range(3):
        await indexed.apply([Add([said("a", "hello")])])
    [*kept] = await indexed.inner.find(Query(collection="pending"))
    assert len({marker.id for marker in kept}) == 3
    assert {(marker.kind, marker.scope) for marker in kept} == {("vector", Scope())}


async def test_a_refused_write_leaves_nothing(wrap):
    """Neither a record, nor a marker, nor a tenant that cannot be."""
    indexed = await wrap()
    for bad in (
        said("", "no id"),
        said("a", "x", Scope(tenant="t" * 70)),
        said("a", "x", Scope(tenant=None)),
    ):
        with pytest.raises(InvalidRecord):
            await indexed.apply([Add([said("fine", "hello"), bad])])
    with pytest.raises(InvalidQuery):
        await indexed.apply([Remove(Query(collection="messages", limit=-1))])
    assert await left(indexed.inner) == 0
    await indexed.apply([Add([said("fine", "hello")]), Remove(Query(collection="messages", ids=("a", "\0")))])
    await indexed.settle(SETTLED)
    assert (await indexed.status()).failures == 0
    assert await near(indexed, "hello") == ["fine"]


class Watched(Wrap):
    """Remembers how many records each answer had."""

    def __init__(self, store):
        super().__init__(store)
        self.answers = []

    async def find(self, query):
        found = await self.inner.find(query)
        self.answers.append(len(found))
        return found


async def test_a_large_removal_is_read_in_pages(wrap, size):
    """However many go, no more than a page of them is ever held; each is named in one of several markers."""
    count = size(5_000, 100_000)
    store = Watched(open_store("memory://"))
    indexed = await wrap(store, embedder=HashEmbedder(4))
    for start in range(0, count, 5000):
        await indexed.apply([Add([said(f"m{n}", f"text {n}") for n in range(start, start + 5000)])])
    await indexed.settle(SETTLED * 5)
    store.answers.clear()
    assert await indexed.apply([Remove(Query(collection="messages"))]) == [count]
    assert max(store.answers) <= 1000
    assert await left(store) == count / 500
    await indexed.settle(SETTLED * 5)
    assert max(store.answers) <= 1000
    assert await entries(indexed._index, SPACE) == {}


async def test_ids_in_use_in_every_session(wrap):
    """A record is told from those of the same id elsewhere, and those are not read in its stead."""
    store = Watched(open_store("memory://"))
    indexed = await wrap(store)
    scopes = [Scope(session=f"s{n}") for n in range(300)]
    await indexed.apply([Add([said("1", f"word{n} here", scope) for n, scope in enumerate(scopes)])])
    await indexed.settle(SETTLED)
    for n in (0, 150, 299):
        assert await indexed.resembling(f"word{n} here", scopes[n], ["messages"], 5)
        [best] = await indexed.resembling(f"word{n} here", scopes[n], ["messages"], 1)
        assert (best.key, best.digest) == (key("1", scopes[n]), digest(f"word{n} here"))
    assert max(store.answers) <= 300
    assert not await indexed.verify_vectors()


async def test_what_is_embedded(wrap):
    """The record's text, or the values of its data; at most 8,000 characters of it, under the digest of it all."""
    embedder = FailingEmbedder()
    indexed = await wrap(embedder=embedder)
    long = said("long", "很长的话。" * 10_000)
    facts = said("facts", "", data={"likes": ["tea", {"and": "cake"}], "n": 7})
    await indexed.apply([Add([long, facts])])
    await indexed.settle(SETTLED)
    assert sorted(map(len, embedder.read)) == [len("tea\ncake\n7"), 8000]
    kept = await entries(indexed._index, SPACE)
    assert kept == {
        key("long"): digest(long.text),
        key("facts"): digest(content(facts.text, facts.data)),
    }
    assert await near(indexed, "tea cake 7") == ["facts"]
    await near(indexed, "x" * 20_000)
    assert [len(text) for text in embedder.asked] == [10, 8000]


async def test_what_is_not_embedded(wrap):
    """Nothing is kept of a record that is expired, blank, or in a language the model does not read."""
    indexed = await wrap(embedder=FailingEmbedder(foreign="ß"))
    past, future = now() - timedelta(hours=1), now() + timedelta(hours=1)
    names = ("expired", "blank", "foreign", "fine")
    await indexed.apply([Add([said(name, f"plain {name}", expires_at=future) for name in names])])
    await indexed.settle(SETTLED)
    assert len(await entries(indexed._index, SPACE)) == 4

    def of(name):
        return Query(collection="messages", ids=(name,))

    changes = [
        Change(query=of("expired"), expires_at=past),
        Change(query=of("blank"), text=" \n"),
        Change(query=of("foreign"), text="süß"),
    ]
    await indexed.apply(changes)
    await indexed.settle(SETTLED)
    assert list(await entries(indexed._index, SPACE)) == [key("fine")]
    assert not await indexed.verify_vectors()
    await indexed.apply([Change(query=of("expired"), expires_at=None)])
    await indexed.settle(SETTLED)
    assert await near(indexed, "plain expired") == ["expired"]


async def test_a_question_the_model_does_not_read(wrap):
    """No model is asked, nor for a blank one; a negative limit has no meaning."""
    embedder = FailingEmbedder(foreign="ß")
    indexed = await wrap(embedder=embedder)
    await indexed.apply([Add([said("a", "sweet")])])
    await indexed.settle(SETTLED)
    for text in ("süß", "", "  "):
        assert await near(indexed, text) == []
    assert await near(indexed, "sweet", limit=0) == []
    assert embedder.asked == []
    assert await near(indexed, "sweet") == ["a"]
    with pytest.raises(InvalidQuery):
        await near(indexed, "sweet", limit=-1)


def test_collections_that_have_no_vectors():
    from octavo import Indexed

    for name, words in (("letters", "unknown collection 'letters'"), ("pending", "derived")):
        with pytest.raises(ConfigError, match=words):
            Indexed(open_store("memory://"), open_vectors("memory://"), HashEmbedder(), collections=[name])


async def test_other_collections(wrap):
    indexed = await wrap(collections=["events"])
    await indexed.apply([Add([said("a", "hello"), said("e", "hello", collection="events")])])
    await indexed.settle(SETTLED)
    assert await near(indexed, "hello", HOME, 5, ("messages", "events")) == ["e"]


async def test_status(wrap):
    embedder = FailingEmbedder()
    indexed = await wrap(embedder=embedder)
    await indexed.settle(SETTLED)
    embedder.down = True
    await indexed.apply([Add([said("a", "hello")])])
    await indexed.apply([Add([said("b", "hello")])])
    status = await indexed.status()
    assert (status.waiting, status.serving, status.building) == (2, SPACE, None)
    embedder.down = False
    await indexed.settle(SETTLED)
    status = await indexed.status()
    assert (status.waiting, status.embedded, status.dropped, status.progress) == (0, 2, 0, None)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("vectors", INDEXES)
def test_one_event_loop_after_another(kind, vectors, place):
    """Store, index and the task between them go on in the next loop."""
    index = open_vectors("memory://" if vectors == "exact" else place("sqlite"))
    indexed = Indexed(open_store(place(kind)), index, HashEmbedder())

    async def use(number):
        await indexed.apply([Add([said(f"{number}-{n}", f"number {number} of {n}") for n in range(3)])])
        await indexed.settle(SETTLED)
        return len(await near(indexed, "number", limit=50))

    assert [asyncio.run(use(number)) for number in range(3)] == [3, 6, 9]
    asyncio.run(indexed.close())


def test_a_forked_child_is_told(tmp_path):
    """The task is the parent's: the child does not wait for it, and the parent goes on."""
    program = f"""
        import asyncio, os
        from octavo import Add, Query, Record, Scope, StoreClosed, open_store, open_vectors
        from octavo.testing.embedding import HashEmbedder
        from octavo.wraps import Indexed

        def note(name):
            return Record(collection="messages", id=name, scope=Scope(user="u"), text=f"the {{name}}")

        async def child():
            try:
                await indexed.apply([Add([note("child")])])
            except StoreClosed as error:
                print(error, flush=True)
            await indexed.close()

        async def main():
            await indexed.apply([Add([note("before")])])
            await indexed.settle(60)
            pid = os.fork()
            if not pid:
                asyncio.run(asyncio.wait_for(child(), 20))
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            await indexed.apply([Add([note("after")])])
            await indexed.settle(60)
            print(len(await indexed.resembling("the", Scope(user="u"), ["messages"], 9)))
            await indexed.close()

        store = open_store("sqlite:///{tmp_path}/a.db")
        indexed = Indexed(store, open_vectors("sqlite:///{tmp_path}/v.db"), HashEmbedder())
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r".* forked.*open_store\(url\)\n2\n", done.stdout), done.stdout
