"""Many processes, many tasks and several event loops on one directory."""

import asyncio
import random
import signal

import pytest
from files import AT, EVENTS, child, event, ids
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.errors import StoreClosed, StoreUnavailable
from octavo.kernel.model import Add, Change, Query, Record, Remove, Scope
from octavo.stores.file import FileStore, log
from octavo.stores.file.store import delete_index
from octavo.stores.memory import MemoryStore
from octavo.util.disk import FileLock
from sampled import examples


class TestProcesses:
    async def test_eight_at_once(self, tmp_path, size):
        """Nothing is lost or doubled, ids claimed by all are given once, and every process sees the same."""
        code = """
async def main():
    async with FileStore(sys.argv[1], rotate_bytes=30000) as store:
        mine = 0
        for n in range(int(sys.argv[3])):
            scope = Scope(session=f"s{n % 3}")
            own = Record(collection="events", id=f"{sys.argv[2]}-{n}", scope=scope)
            shared = Record(collection="events", id=f"shared-{n}", scope=scope)
            mine += (await store.apply([Add([own]), Add([shared])]))[1]
            if n % 5 == 0:
                await store.apply([Change(query=Query(collection="events", ids=(own.id,)), kind="changed")])
        print(mine)
asyncio.run(main())"""
        count = size(40, 400)
        async with FileStore(tmp_path) as watcher:
            assert await ids(watcher) == []
            writers = [child(code, tmp_path, f"p{n}", count) for n in range(8)]
            claimed = 0
            for writer in writers:
                out, _ = await asyncio.to_thread(writer.communicate)
                assert writer.returncode == 0
                claimed += int(out)
            assert claimed == count
            expected = [f"shared-{n}" for n in range(count)] + [
                f"p{p}-{n}" for p in range(8) for n in range(count)
            ]
            assert sorted(await ids(watcher)) == sorted(expected)
            assert (await watcher.tally(EVENTS)).by_kind["changed"] == 8 * len(range(0, count, 5))
        async with FileStore(tmp_path) as store:
            assert sorted(await ids(store)) == sorted(expected)

    @pytest.mark.torture
    async def test_kill_9(self, tmp_path, size):
        """Killed at any moment, again and again: what was acknowledged is there once, a batch whole or not at all."""
        code = """
async def main():
    async with FileStore(sys.argv[1], rotate_bytes=5000) as store:
        async def one(worker):
            for n in range(100000):
                name = f"{sys.argv[2]}-{worker}-{n}"
                batch = [Record(collection="events", id=f"{name}-{i}", scope=Scope(session=f"s{i % 3}"), data={"x": "y" * 50 * i}) for i in range(n % 7 + 1)]
                await store.apply([Add(batch)])
                print("kept", name, len(batch), flush=True)
                if n % 4 == 3:
                    gone = tuple(r.id for r in batch)
                    print("removing", name, len(batch), flush=True)
                    await store.apply([Remove(Query(collection="events", ids=gone))])
                    print("removed", name, len(batch), flush=True)
        print("ready", flush=True)
        await asyncio.gather(*(one(worker) for worker in range(3)))
asyncio.run(main())"""
        dice = random.Random(7)
        last: dict[str, tuple[str, int]] = {}
        async with FileStore(tmp_path) as survivor:
            for turn in range(size(5, 50)):
                process = child(code, tmp_path, turn)
                said = [process.stdout.readline() for _ in range(dice.randrange(1, 120))]
                process.send_signal(signal.SIGKILL)
                rest, _ = process.communicate()
                complete = [line for line in [*said, *rest.splitlines(keepends=True)] if line.endswith("\n")]
                for words in (line.split() for line in complete if line.startswith(("kept", "remov"))):
                    last[words[1]] = (words[0], int(words[2]))
                await agrees(survivor, last)
                async with FileStore(tmp_path) as fresh:
                    await agrees(fresh, last)
                    # Whoever saw the directory all the time and who reads it now see the same.
                    assert await ids(survivor) == await ids(fresh)


async def agrees(store, last: dict[str, tuple[str, int]]) -> None:
    found = await ids(store)
    assert len(found) == len(set(found))
    batches: dict[str, int] = {}
    for name in found:
        batch = name.rpartition("-")[0]
        batches[batch] = batches.get(batch, 0) + 1
    for name, (state, length) in last.items():
        allowed = {"kept": [length], "removing": [0, length], "removed": [0]}[state]
        assert batches.get(name, 0) in allowed, (name, state)
    for name, count in batches.items():
        assert count == int(name.rpartition("-")[2]) % 7 + 1


class TestConcurrency:
    async def test_a_bad_write_fails_alone(self, tmp_path):
        """Writers that share one trip to the disk share nothing else."""
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event("big", data={"x": "y" * 9_000_000})])])
            grow = Change(query=EVENTS, merge={"z": "y" * 9_000_000})
            writes = [store.apply([Add([event(n)])]) for n in range(20)]
            writes.insert(10, store.apply([grow]))
            results = await asyncio.gather(*writes, return_exceptions=True)
            assert isinstance(results.pop(10), ValueError)
            assert results == [[1]] * 20

    async def test_a_cancelled_writer_takes_nobody_along(self, tmp_path):
        async with FileStore(tmp_path) as store:
            await store.find(EVENTS)
            writers = [asyncio.create_task(store.apply([Add([event(n)])])) for n in range(50)]
            await asyncio.sleep(0)
            for writer in writers[::2]:
                writer.cancel()
            results = await asyncio.gather(*writers, return_exceptions=True)
            assert results[1::2] == [[1]] * 25
            assert await store.apply([Add([event(n) for n in range(50)])])
            assert (await store.tally(EVENTS)).total == 50

    async def test_a_cancelled_opening(self, tmp_path):
        store = FileStore(tmp_path)
        opening = asyncio.create_task(store.find(EVENTS))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert await store.apply([Add([event(1)])]) == [1]
        await store.close()

    def test_one_store_in_several_loops(self, tmp_path):
        store = FileStore(tmp_path)
        for n in range(3):
            assert asyncio.run(store.apply([Add([event(n)])])) == [1]
        assert len(asyncio.run(store.find(EVENTS))) == 3
        asyncio.run(store.close())

    async def test_close_finishes_what_was_begun(self, tmp_path):
        store = FileStore(tmp_path)
        await store.find(EVENTS)
        writers = [asyncio.create_task(store.apply([Add([event(n)])])) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await store.close()
        assert await asyncio.gather(*writers) == [[1]] * 20
        with pytest.raises(StoreClosed):
            await store.find(EVENTS)
        async with FileStore(tmp_path) as again:
            assert (await again.tally(EVENTS)).total == 20

    async def test_a_lock_that_is_never_let_go(self, tmp_path, monkeypatch):
        """A stuck process makes writing unavailable, not reading."""
        monkeypatch.setattr(log, "LOCK_SECONDS", 0.1)
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(1)])])
            stuck = FileLock(tmp_path / ".octavo/lock")
            assert stuck.take()
            waiting = asyncio.create_task(store.apply([Add([event(2)])]))
            assert await ids(store) == ["evt_1"]
            with pytest.raises(StoreUnavailable):
                await waiting
            async with FileStore(tmp_path) as other:
                assert await ids(other) == ["evt_1"]
            stuck.close()
            assert await store.apply([Add([event(3)])]) == [1]

    async def test_another_store_sees_what_was_acknowledged(self, tmp_path):
        async with FileStore(tmp_path) as store, FileStore(tmp_path) as other:
            for n in range(4):
                await store.apply([Add([event(n)])])
                assert await ids(other) == [f"evt_{i}" for i in range(n + 1)]
                assert await other.apply([Add([event(n)])]) == [0]


SESSIONS = st.sampled_from([None, "a", "B"])
NAMES = st.sampled_from(["1", "2", "3"])
SCOPES = st.builds(Scope, session=SESSIONS, user=st.sampled_from([None, "u"]))
RECORDS = st.builds(
    Record, collection=st.sampled_from(["events", "messages"]), id=NAMES, scope=SCOPES, kind=st.sampled_from(["x", "y"]),
    marks=st.sampled_from([(), ("m",)]), created_at=st.sampled_from([AT, AT.replace(hour=13)]),
)  # fmt: skip
QUERIES = st.builds(
    Query, collection=st.sampled_from(["events", "messages"]), ids=st.none() | st.tuples(NAMES), scope=SCOPES,
    limit=st.sampled_from([None, 1]),
)  # fmt: skip
OPS = st.one_of(
    st.builds(Add, st.lists(RECORDS, max_size=4)),
    st.builds(
        Change,
        query=QUERIES,
        kind=st.sampled_from(["x", "z"]),
        merge=st.just({"k": 1}),
        updated_at=st.just(AT),
    ),
    st.builds(Remove, QUERIES),
)
LAYOUTS = st.fixed_dictionaries({
    "format": st.sampled_from(["jsonl", "json"]), "per_session": st.booleans(),
    "rotate_bytes": st.sampled_from([300, 1500, 10**7]),
})  # fmt: skip


class TestAgreement:
    @settings(max_examples=examples(25, 60))
    @given(
        program=st.lists(
            st.tuples(LAYOUTS, st.lists(st.lists(OPS, max_size=3), max_size=6), st.booleans()),
            min_size=1,
            max_size=4,
        )
    )
    def test_whoever_wrote_it_and_however(self, program, tmp_path_factory):
        """Stores with different layouts take turns on one directory, whose index is deleted now and then; all answer as
        memory does."""
        root = tmp_path_factory.mktemp("agreement")

        async def run():
            right = MemoryStore()

            async def agrees(store):
                for query in (EVENTS, Query(collection="messages")):
                    assert await store.find(query) == await right.find(query)

            async with FileStore(root) as watcher:
                for layout, batches, deleted in program:
                    async with FileStore(root, **layout) as store:
                        for ops in batches:
                            assert await store.apply(ops) == await right.apply(ops)
                            await agrees(watcher)
                    if deleted:
                        delete_index(root)
                        await agrees(watcher)
                async with FileStore(root) as fresh:
                    await agrees(fresh)

        asyncio.run(run())
