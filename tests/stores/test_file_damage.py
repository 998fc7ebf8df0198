"""Files that were torn, edited, cut short by a crash or refused by the disk: nothing acknowledged is lost, nothing is half kept."""

import asyncio
import contextlib
import errno
import json
import os
import resource

import pytest
from files import EVENTS, Kill, child, data_files, event, ids, lines_of

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.model import Add, Change, Query, Remove
from octavo.stores.file import FileStore, log
from sampled import FULL, sampled

OPTIONS = [{}, {"format": "json"}, {"sync": "fsync"}, {"rotate_bytes": 600}]


async def damaged(store) -> str:
    (found,) = [finding.value for finding in await store.describe() if finding.name == "damaged lines"]
    return found


class TestDamage:
    async def test_cut_off_at_every_byte(self, tmp_path):
        """Wherever a file ends, all complete lines are kept and the next append is whole."""
        async with FileStore(tmp_path / "whole") as store:
            await store.apply([Add([event(n, data={"m": "软件"}) for n in range(3)])])
        whole = (tmp_path / "whole/session_s.jsonl").read_bytes()
        last = whole.rindex(b"\n", 0, -1)
        for end in range(last - 5, len(whole) + 1, 1 if FULL else 2):
            root = tmp_path / str(end)
            root.mkdir()
            (root / "session_s.jsonl").write_bytes(whole[:end])
            complete = (
                whole[: end + 1].count(b"\n") if whole[end : end + 1] == b"\n" else whole[:end].count(b"\n")
            )
            async with FileStore(root) as store:
                assert await ids(store) == [f"evt_{n}" for n in range(complete)], end
                await store.apply([Add([event(9)])])
            lines = [json.loads(line)["event_id"] for line in lines_of(root / "session_s.jsonl")]
            assert lines == [*(f"evt_{n}" for n in range(complete)), "evt_9"]

    async def test_bad_lines_are_set_aside_and_counted(self, tmp_path):
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(n) for n in range(3)])])
        path = tmp_path / "session_s.jsonl"
        good = path.read_bytes().splitlines()
        bad = [b"\0\0\0", b"<<<<<<< HEAD", b'{"event_id":"x"}', b"[1]", b'{"event_id":"y\xff","timestamp":"2024-01-01T12:00:00Z"}',
               b'{"event_id":"","timestamp":"2024-01-01T12:00:00Z"}', b'{"event_id":"z","timestamp":"now"}',
               b'{"event_id":"d","timestamp":"2024-01-01T12:00:00Z","data":' + b'{"a":' * 5000 + b"1" + b"}" * 5001]  # fmt: skip
        path.write_bytes(b"\n".join([bad[0], good[0], *bad[1:4], good[1], *bad[4:], good[2], b""]))
        async with FileStore(tmp_path) as store:
            assert await ids(store) == ["evt_0", "evt_1", "evt_2"]
            findings = {finding.name: finding for finding in await store.describe()}
            assert findings["damaged lines"].value == str(len(bad))
            assert "damaged" in findings["damaged lines"].warning
        assert path.read_bytes().splitlines() == good
        (aside,) = (tmp_path / ".octavo/damaged").iterdir()
        assert aside.read_bytes().splitlines() == bad

    @pytest.mark.parametrize("options", OPTIONS)
    async def test_killed_at_every_step(self, tmp_path, monkeypatch, options):
        """Whichever call to the system is the last one, half done, a batch is kept whole or not at all."""
        first = [Add([event(n, f"s{n % 2}") for n in range(6)])]
        batch = [
            Add([event("new1", "s0"), event("new2", "s1"), event("new3", "s2")]),
            Change(query=Query(collection="events", ids=("evt_0",)), kind="changed"),
            Remove(Query(collection="events", ids=("evt_1", "evt_3", "evt_5", "evt_new2"))),
        ]
        before = ["evt_0", "evt_1", "evt_2", "evt_3", "evt_4", "evt_5"]
        after = ["changed", "evt_2", "evt_4", "evt_new1", "evt_new3"]
        seen = set()
        for step in range(1000):
            root = tmp_path / str(step)
            async with FileStore(root, **options) as store:
                await store.apply(first)
                kill = Kill(step, monkeypatch)
                with kill, contextlib.suppress(StoreError):
                    await store.apply(batch)
            async with FileStore(root, **options) as store:
                state = sorted("changed" if r.kind == "changed" else r.id for r in await store.find(EVENTS))
                assert state in (before, after), step
                seen.add(str(state))
                if not kill.done:
                    assert state == after
                    break
                await store.apply([Add([event("last", "s0")])])
            async with FileStore(root, **options) as store:
                assert len(await store.find(EVENTS)) == len(state) + 1
                assert await damaged(store) == "0"
        assert len(seen) == 2
        assert step >= 4

    @pytest.mark.parametrize("options", [{}, {"format": "json"}, {"rotate_bytes": 400}])
    async def test_killed_while_tidying(self, tmp_path, monkeypatch, options):
        """Rewriting a session and its archives without dead lines may stop anywhere: nothing is lost, nothing comes back."""
        monkeypatch.setattr(log, "_DEAD_LINES", 1)
        batch = [
            Change(query=EVENTS, kind="changed"),
            Remove(Query(collection="events", ids=("evt_0", "evt_2", "evt_4"))),
        ]
        changed = [(f"evt_{n}", "changed") for n in (1, 3, 5)]
        for step in range(1000):
            root = tmp_path / str(step)
            async with FileStore(root, **options) as store:
                for n in range(6):
                    await store.apply([Add([event(n)])])
                kill = Kill(step, monkeypatch)
                with kill, contextlib.suppress(StoreError):
                    await store.apply(batch)
            for _ in range(2):
                async with FileStore(root, **options) as store:
                    state = [(record.id, record.kind) for record in await store.find(EVENTS)]
                    assert state in (changed, [(f"evt_{n}", "user_message") for n in range(6)]), step
            if not kill.done:
                assert state == changed
                break
        assert step >= 4

    @pytest.mark.parametrize("options", OPTIONS)
    @sampled("code", [errno.ENOSPC, errno.EACCES, errno.EIO], share=2)
    async def test_an_error_at_every_step(self, tmp_path, monkeypatch, options, code):
        """Whichever call to the system fails, nothing of the batch is kept, the error is clean, and work goes on."""
        batch = [
            Add([event("new1", "s0"), event("new2", "s1")]),
            Remove(Query(collection="events", ids=("evt_1",))),
        ]
        for step in range(1000):
            root = tmp_path / str(step)
            async with FileStore(root, **options) as store:
                await store.apply([Add([event(n, f"s{n % 2}") for n in range(6)])])
                with Kill(step, monkeypatch, OSError(code, os.strerror(code))) as kill:
                    [outcome] = await asyncio.gather(store.apply(batch), return_exceptions=True)
                expected = ["evt_0", "evt_1", "evt_2", "evt_3", "evt_4", "evt_5"]
                if isinstance(outcome, list):
                    expected = ["evt_0", "evt_2", "evt_3", "evt_4", "evt_5", "evt_new1", "evt_new2"]
                else:
                    assert isinstance(outcome, StoreUnavailable) == (code != errno.EACCES)
                    assert isinstance(outcome, StoreError)
                    assert str(root) in str(outcome)
                    assert isinstance(outcome.__cause__, OSError)
                assert sorted(await ids(store)) == expected
                await store.apply([Add([event("last", "s0")])])
            async with FileStore(root, **options) as store:
                assert sorted(await ids(store)) == sorted([*expected, "evt_last"])
                assert await damaged(store) == "0"
            if not kill.done:
                assert isinstance(outcome, list)
                break
        assert step >= 4

    @pytest.mark.parametrize("options", OPTIONS)
    async def test_a_disk_that_fails_from_some_step_on(self, tmp_path, monkeypatch, options):
        """When even taking back fails, the batch may turn out to be kept after all, but never half of it."""
        batch = [Add([event("new1", "s0"), event("new2", "s1")])]
        for step in range(1000):
            async with FileStore(tmp_path / str(step), **options) as store:
                await store.apply([Add([event(n, f"s{n % 2}") for n in range(4)])])
                failing = OSError(errno.EIO, os.strerror(errno.EIO))
                with Kill(step, monkeypatch, failing, lasting=True) as kill:
                    [outcome] = await asyncio.gather(store.apply(batch), return_exceptions=True)
                kept = isinstance(outcome, list)  # also when what failed came after the commit
                assert kept or isinstance(outcome, StoreUnavailable)
                assert kept or kill.done
                assert len(await ids(store)) == (6 if kept else 4)
                await store.apply([Add([event("last", "s0")])])
                count = len(await ids(store))
                assert count in (5, 7)
            async with FileStore(tmp_path / str(step), **options) as store:
                assert len(await ids(store)) == count
                assert await store.apply(batch) == [7 - count]
                assert await damaged(store) == "0"
            if not kill.done:
                break
        assert step >= 4

    async def test_a_power_cut(self, tmp_path):
        """With fsync the index may forget its last commits: what was acknowledged is in the files, and a batch of which a
        part is lost was not."""
        root, path = tmp_path / "store", tmp_path / "store/session_s.jsonl"
        async with FileStore(root, sync="fsync") as store:
            await store.apply([Add([event(n) for n in range(4)])])
        old = (root / ".octavo/index.db").read_bytes()
        async with FileStore(root, sync="fsync") as store:
            await store.apply([Change(query=Query(collection="events", ids=("evt_1",)), kind="changed")])
            size = path.stat().st_size
            await store.apply(
                [Add([event(4), event(5, "t")]), Remove(Query(collection="events", ids=("evt_2",)))]
            )
        whole, intent = path.read_bytes(), (root / ".octavo/lock").read_bytes()
        for end in (len(whole), len(whole) - 3, size + 1, size):
            path.write_bytes(whole[:end])
            (root / ".octavo/lock").write_bytes(intent)
            (root / ".octavo/index.db").write_bytes(old)
            async with FileStore(root) as store:
                found = {record.id: record.kind for record in await store.find(EVENTS)}
            expected = ["evt_0", "evt_1", "evt_2", "evt_3"]
            if end == len(whole):
                expected = ["evt_0", "evt_1", "evt_3", "evt_4", "evt_5"]
            assert sorted(found) == expected, end
            assert found["evt_1"] == "changed"

    async def test_fsync_is_called_before_the_acknowledgement(self, tmp_path, monkeypatch):
        """Of what is about to be done, and of the file."""
        synced = []
        real = os.fsync
        for sync, least in (("fsync", 2), ("flush", 0)):
            async with FileStore(tmp_path / sync, sync=sync) as store:
                await store.apply([Add([event(1)])])
                with monkeypatch.context() as patch:
                    patch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd)))
                    await store.apply([Add([event(2)])])
            assert len(synced) == least
            synced.clear()

    @pytest.mark.parametrize("count", [2, 20])
    async def test_every_file_of_a_batch_is_synced(self, tmp_path, monkeypatch, count):
        """Together with their names; when one of many cannot be, nothing of the batch is kept."""
        synced = set()
        real = os.fsync
        batch = [Add([event(n, f"s{n}") for n in range(count)])]

        def fails(fd):
            if os.fstat(fd).st_ino == last.stat().st_ino:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        async with FileStore(tmp_path, sync="fsync") as store:
            await store.apply([Add([event("first", f"s{count - 1}")])])
            [last] = tmp_path.glob("*.jsonl")
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", fails)
                with pytest.raises(StoreUnavailable):
                    await store.apply(batch)
            assert await ids(store) == ["evt_first"]
            assert data_files(tmp_path) == [last.name]
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", lambda fd: (synced.add(os.fstat(fd).st_ino), real(fd)))
                await store.apply(batch)
            assert {path.stat().st_ino for path in (tmp_path, *tmp_path.glob("*.jsonl"))} <= synced
            assert len(data_files(tmp_path)) == count

    async def test_a_limit_on_file_size(self, tmp_path):
        """A real refusal by the system: a clean error, nothing half kept, and smaller writes go on."""
        code = """
import resource
from octavo.errors import StoreError
async def main():
    async with FileStore(sys.argv[1]) as store:
        await store.apply([Add([Record(collection="events", id="a")])])
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
        big = [Record(collection="events", id=f"b{n}", data={"x": "y" * 3000}) for n in range(1000)]
        try:
            await store.apply([Add(big)])
        except StoreError as error:
            print(type(error).__name__, error)
        print([r.id for r in await store.find(Query(collection="events"))])
        await store.apply([Add([Record(collection="events", id="c")])])
asyncio.run(main())"""
        process = child(code, tmp_path)
        out, _ = process.communicate()
        assert process.returncode == 0
        assert out.splitlines()[0].startswith("StoreError File too large: ")
        assert out.splitlines()[1] == "['a']"
        async with FileStore(tmp_path) as store:
            assert await ids(store) == ["a", "c"]
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 3_000_000
