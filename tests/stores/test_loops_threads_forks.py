"""What a store promises to other event loops, threads and forked children: the same on every store."""

import asyncio
import gc
import itertools
import subprocess
import sys
import textwrap
import threading

import pytest

from octavo import Add, Change, Query, Record, Scope, StoreClosed, StoreError, open_store
from octavo.wraps import Deduped, Journal
from sampled import sampled

KINDS = ["memory", "file", "sqlite", "sqlite in memory", "postgres", "mysql", "redis"]
NOTES = Query(collection="messages")
OWN = {"memory": "memory://", "sqlite in memory": "sqlite:///:memory:"}


@pytest.fixture(params=KINDS)
def url(request, tmp_path, fresh_url):
    if request.param in OWN:
        return OWN[request.param]
    if request.param == "file":
        return f"file://{tmp_path}/notes"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/notes.db"
    return fresh_url(request.param)


def note(name, **more):
    return Record(collection="messages", id=name, scope=Scope(session="s"), text=f"the {name}", **more)


async def names(store):
    return sorted(record.id for record in await store.find(NOTES))


async def use(store, name):
    """Eight calls of each kind at once: more than one connection, and something left for idle time."""
    added = [store.apply([Add([note(f"{name}-{n}", marks=("m",))])]) for n in range(8)]
    assert await asyncio.gather(*added) == [[1]] * 8
    finds = await asyncio.gather(*(names(store) for _ in range(8)))
    await asyncio.gather(*(store.search(NOTES, ["the"]) for _ in range(4)))
    assert (await store.apply([Change(query=NOTES, kind=name)])) == [len(finds[0])]
    assert (await store.tally(NOTES)).by_kind == {name: len(finds[0])}
    assert all(found == finds[0] for found in finds)
    return finds[0]


def test_one_event_loop_after_another(url):
    """A store goes on in the next loop with all it has; connections end with the loop they were made on."""
    store = open_store(url)
    for number in range(3):
        assert len(asyncio.run(use(store, f"run{number}"))) == 8 * (number + 1)
    asyncio.run(store.close())
    gc.collect()  # whatever was left open would say so now
    with pytest.raises(StoreClosed):
        asyncio.run(names(store))


def test_it_can_be_closed_in_another_loop_than_it_was_used_in(url):
    """Also when it was only used, or only opened."""
    for _ in range(2):
        store = open_store(url)
        asyncio.run(names(store))
        asyncio.run(store.close())
    gc.collect()


def test_a_loop_that_ended_without_a_word(url):
    """One that was closed in the middle of things: the store begins anew in the next."""
    store = open_store(url)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(store.apply([Add([note("first")])]))
    loop.run_until_complete(store.search(NOTES, ["first"]))
    under_way = loop.create_task(store.apply([Add([note("second")])]))
    loop.run_until_complete(asyncio.sleep(0))
    under_way.cancel()
    loop.run_until_complete(asyncio.wait([under_way]))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()

    async def go_on():
        await store.apply([Add([note("third")])])
        found = await names(store)
        await store.search(NOTES, ["third"])
        await store.close()
        return set(found) - {"second"}

    assert asyncio.run(asyncio.wait_for(go_on(), 60)) == {"first", "third"}


async def test_a_second_loop_beside_the_first_is_told_so(url):
    """At once, in plain words and with the cure, whatever it asks for; the first goes on."""
    async with open_store(url) as store:
        await store.apply([Add([note("a")])])

        async def ask(call):
            with pytest.raises(
                StoreError, match=r"in use in another event loop.*open one store for each"
            ) as told:
                await asyncio.wait_for(call(), 20)
            assert type(told.value) is StoreError

        calls = [
            lambda: store.apply([Add([note("b")])]),
            lambda: store.find(NOTES),
            lambda: store.tally(NOTES),
            lambda: store.search(NOTES, ["a"]),
            store.close,
        ]
        for call in calls:
            await asyncio.to_thread(asyncio.run, ask(call))
        assert await names(store) == ["a"]


async def test_many_threads_at_first_use(url):
    """One of them has the store, and all others are told; nobody hangs, and nothing raw comes out."""
    store = open_store(url)
    ready, done, outcomes = threading.Barrier(4), threading.Barrier(4), []

    async def one(number):
        try:
            outcomes.append(await store.apply([Add([note(str(number))])]))
        except StoreError as error:
            outcomes.append(type(error))
        await asyncio.to_thread(
            done.wait, 60
        )  # until all have asked, the loop that has the store must not end

    def run(number):
        ready.wait(60)
        asyncio.run(one(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(outcomes, key=str) == [StoreError] * 3 + [[1]]
    assert len(await names(store)) == 1
    await store.close()


FORK = """
    import asyncio, gc, os, sys, time
    from octavo import Add, Query, Record, Scope, StoreClosed, open_store
    from octavo.wraps import Deduped, Journal

    url, ending, wrapped = sys.argv[1:4]
    NOTES = Query(collection="messages")

    def note(name):
        return Record(collection="messages", id=name, scope=Scope(session="s"), text=f"the {name}")

    async def names(store):
        return sorted(record.id for record in await store.find(NOTES))

    async def in_child(store):
        for call in (lambda: store.apply([Add([note("child")])]), lambda: store.find(NOTES), lambda: store.tally(NOTES),
                     lambda: store.search(NOTES, ["the"])):
            try:
                await asyncio.wait_for(call(), 20)
            except StoreClosed as error:
                assert "forked" in str(error) and "open" in str(error), error
            else:
                raise AssertionError("the child could use its parent's store")
        if ending != "dropped":
            await asyncio.wait_for(store.close(), 20)
            await asyncio.wait_for(store.close(), 20)
        if url.partition(":")[0] != "memory" and ":memory:" not in url:
            async with open_store(url) as own:
                await own.apply([Add([note("own")])])

    def child(stores):
        asyncio.run(in_child(stores[0]))
        if ending == "dropped":
            stores.clear()
            gc.collect()
        if ending == "exit":
            sys.exit(0)
        os._exit(0)

    def fork(stores):
        pid = os.fork()
        if not pid:
            try:
                child(stores)
            except Exception:
                import traceback
                traceback.print_exc()
                os._exit(1)
        until = time.monotonic() + 60
        while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
            assert time.monotonic() < until, "the child hangs"
            time.sleep(0.02)
        assert ended[1] == 0, ended

    async def before(stores):
        await stores[0].apply([Add([note("before")])])
        await stores[0].search(NOTES, ["the"])
        if ending != "exit":  # a child that leaves the loop it was forked in would run the rest of its parent's
            fork(stores)

    async def after(stores):
        store = stores[0]
        await asyncio.gather(*(store.apply([Add([note(f"after{n}")])]) for n in range(4)))
        found = await names(store)
        await store.close()
        assert set(found) - {"own"} == {"before", "after0", "after1", "after2", "after3"}, found
        print("done")

    store = open_store(url)
    if wrapped:
        store = Journal(Deduped(store), wrapped)
    stores = [store]
    del store
    loop = asyncio.new_event_loop()
    loop.run_until_complete(before(stores))
    if ending == "exit":
        fork(stores)
    loop.run_until_complete(asyncio.wait_for(after(stores), 60))
    loop.close()
"""


def run_forked(*args):
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(FORK), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@sampled(
    ("url", "ending"), itertools.product(KINDS, ("closed", "dropped", "exit")), share=2, indirect=["url"]
)
def test_a_forked_child_is_told(url, ending):
    """At once, by an error that names the cure; it writes nothing through its parent, who goes on, whatever the child does."""
    done = run_forked(url, ending, "")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


def test_a_forked_child_of_a_journal(url, tmp_path):
    """A wrap says the same as the store inside, and lets go of it as quietly."""
    done = run_forked(url, "closed", str(tmp_path / "queue"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


def test_a_store_that_was_not_used_before_the_fork(url):
    """Whoever uses it first has it: making one opens nothing."""
    program = """
        import asyncio, os, sys
        from octavo import Query, open_store
        store = open_store(sys.argv[1])
        pid = os.fork()
        async def use():
            async with store:
                return await store.find(Query(collection="messages"))
        assert asyncio.run(use()) == []
        if not pid:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), url],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_wraps_follow(url, tmp_path):
    """Deduped goes on in the next loop as its store does; a Journal says at once that it belongs to one."""
    store = Deduped(open_store(url))
    for number in range(2):
        assert len(asyncio.run(use(store, f"run{number}"))) == 8 * (number + 1)
    asyncio.run(store.close())
    journal = Journal(open_store(url), tmp_path / "queue")
    asyncio.run(journal.apply([Add([note("a")])]))
    with pytest.raises(StoreError, match="belongs to another event loop"):
        asyncio.run(journal.find(NOTES))
    asyncio.run(asyncio.wait_for(journal.close(), 20))
