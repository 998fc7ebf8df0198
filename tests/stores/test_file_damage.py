"""Files that were torn, edited, cut short by a crash or refused by the disk: nothing acknowledged is lost, nothing is half kept."""

import contextlib
import errno
import json
import os
import resource

import pytest
from files import EVENTS, Kill, Killed, child, event, forget, ids, lines_of, opened, write

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.model import Add, Change, Query, Remove
from octavo.stores.file import FileStore, records
from octavo.stores.file.book import Layout


class TestDamage:
    async def test_cut_off_at_every_byte(self, tmp_path):
        """Wherever a file ends, all complete lines are kept and the next append is whole."""
        async with FileStore(tmp_path / "whole") as store:
            await store.apply([Add([event(n, data={"m": "软件"}) for n in range(3)])])
        whole = (tmp_path / "whole/session_s.jsonl").read_bytes()
        last = whole.rindex(b"\n", 0, -1)
        for end in range(last - 5, len(whole) + 1):
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

    @pytest.mark.parametrize("options", [{}, {"format": "json"}, {"sync": "fsync"}, {"rotate_bytes": 600}])
    def test_killed_at_every_step(self, tmp_path, monkeypatch, options):
        """Whichever call to the system is the last one, half done, a batch is kept whole or not at all."""
        layout = Layout(**options)
        first = [Add([event(n, f"s{n % 2}") for n in range(6)])]
        batch = [
            Add([event("new1", "s0"), event("new2", "s1"), event("new3", "s2")]),
            Change(query=Query(collection="events", ids=("evt_0",)), kind="changed"),
            Remove(Query(collection="events", ids=("evt_1", "evt_3", "evt_5", "evt_new2"))),
        ]
        before, after = (
            ["evt_0", "evt_1", "evt_2", "evt_3", "evt_4", "evt_5"],
            ["changed", "evt_2", "evt_4", "evt_new1", "evt_new3"],
        )
        seen = set()
        for step in range(1000):
            root = tmp_path / str(step)
            book = opened(root, layout)
            write(book, first)
            kill = Kill(step, monkeypatch)
            with kill, contextlib.suppress(Killed):
                write(book, batch)
            forget(book)
            book = opened(root, layout)
            state = sorted("changed" if r.kind == "changed" else r.id for r in book.records.find(EVENTS))
            assert state in (before, after), step
            seen.add(str(state))
            if not kill.done:
                assert state == after
                break
            write(book, [Add([event("last", "s0")])])
            forget(book)
            book = opened(root, layout)
            assert len(book.records.find(EVENTS)) == len(state) + 1
            assert book.facts()["damaged"] == 0
            book.close()
        assert len(seen) == 2
        assert step >= 8
        book.close()

    @pytest.mark.parametrize("options", [{}, {"format": "json"}, {"rotate_bytes": 400}])
    def test_killed_while_tidying(self, tmp_path, monkeypatch, options):
        """Rewriting a session and its archives without dead lines may stop anywhere: nothing is lost, nothing comes back."""
        monkeypatch.setattr(records, "_DEAD_LINES", 1)
        layout = Layout(**options)
        batch = [
            Change(query=EVENTS, kind="changed"),
            Remove(Query(collection="events", ids=("evt_0", "evt_2", "evt_4"))),
        ]
        for step in range(1000):
            root = tmp_path / str(step)
            book = opened(root, layout)
            for n in range(6):
                write(book, [Add([event(n)])])
            kill = Kill(step, monkeypatch)
            with kill, contextlib.suppress(Killed):
                write(book, batch)
            forget(book)
            for _ in range(2):
                book = opened(root, layout)
                state = [(record.id, record.kind) for record in book.records.find(EVENTS)]
                changed = [(f"evt_{n}", "changed") for n in (1, 3, 5)]
                assert state in (changed, [(f"evt_{n}", "user_message") for n in range(6)]), step
                book.close()
            if not kill.done:
                assert state == changed
                break
        assert step >= 4

    @pytest.mark.parametrize("options", [{}, {"format": "json"}, {"sync": "fsync"}, {"rotate_bytes": 600}])
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
    def test_an_error_at_every_step(self, tmp_path, monkeypatch, options, code):
        """Whichever call to the system fails, nothing of the batch is kept, the error is clean, and work goes on."""
        layout = Layout(**options)
        batch = [
            Add([event("new1", "s0"), event("new2", "s1")]),
            Remove(Query(collection="events", ids=("evt_1",))),
        ]
        for step in range(1000):
            root = tmp_path / str(step)
            book = opened(root, layout)
            write(book, [Add([event(n, f"s{n % 2}") for n in range(6)])])
            kill = Kill(step, monkeypatch, OSError(code, os.strerror(code)))
            with kill:
                (outcome,) = write(book, batch)
            failed = not isinstance(outcome, list)
            expected = ["evt_0", "evt_1", "evt_2", "evt_3", "evt_4", "evt_5"]
            if not failed:
                expected = ["evt_0", "evt_2", "evt_3", "evt_4", "evt_5", "evt_new1", "evt_new2"]
            else:
                assert isinstance(outcome, StoreUnavailable) == (code != errno.EACCES)
                assert isinstance(outcome, StoreError)
                assert str(root) in str(outcome)
                assert isinstance(outcome.__cause__, OSError)
            assert sorted(r.id for r in book.records.find(EVENTS)) == expected
            write(book, [Add([event("last", "s0")])])
            forget(book)
            book = opened(root, layout)
            assert sorted(r.id for r in book.records.find(EVENTS)) == sorted([*expected, "evt_last"])
            assert book.facts()["damaged"] == 0
            book.close()
            if not kill.done:
                assert not failed
                break
        assert step >= 4

    @pytest.mark.parametrize("options", [{}, {"format": "json"}, {"sync": "fsync"}, {"rotate_bytes": 600}])
    def test_a_disk_that_fails_from_some_step_on(self, tmp_path, monkeypatch, options):
        """When even taking back fails, the batch may turn out to be kept after all, but never half of it."""
        layout = Layout(**options)
        batch = [Add([event("new1", "s0"), event("new2", "s1")])]
        for step in range(1000):
            book = opened(tmp_path / str(step), layout)
            write(book, [Add([event(n, f"s{n % 2}") for n in range(4)])])
            kill = Kill(step, monkeypatch, OSError(errno.EIO, os.strerror(errno.EIO)), lasting=True)
            with kill:
                (outcome,) = write(book, batch)
            assert isinstance(outcome, StoreUnavailable if kill.done else list)
            assert len(book.records.find(EVENTS)) == (4 if kill.done else 6)
            write(book, [Add([event("last", "s0")])])
            count = len(book.records.find(EVENTS))
            assert count in (5, 7)
            forget(book)
            book = opened(tmp_path / str(step), layout)
            assert len(book.records.find(EVENTS)) == count
            assert write(book, batch) == [[7 - count]]
            assert book.facts()["damaged"] == 0
            book.close()
            if not kill.done:
                break
        assert step >= 4

    def test_a_power_cut(self, tmp_path):
        """With fsync, what the files lost is brought back from the ledger, in order, and nothing twice."""
        book = opened(tmp_path, Layout(sync="fsync"))
        write(book, [Add([event(n) for n in range(4)])])
        write(book, [Change(query=Query(collection="events", ids=("evt_1",)), kind="changed")])
        write(book, [Remove(Query(collection="events", ids=("evt_2",)))])
        forget(book)
        ledger, path = tmp_path / ".octavo/ledger", tmp_path / "session_s.jsonl"
        opening, rest = ledger.read_bytes().split(b"\n", 1)
        gone_down = json.dumps({**json.loads(opening), "boot": "another"}).encode() + b"\n" + rest
        whole = path.read_bytes()
        for size, zeros in ((0, 0), (10, 0), (len(whole) // 2, 50), (len(whole) - 3, 0), (len(whole), 0)):
            ledger.write_bytes(gone_down)
            path.write_bytes(whole[:size] + bytes(zeros))
            book = opened(tmp_path, Layout())
            found = {record.id: record.kind for record in book.records.find(EVENTS)}
            assert found == {"evt_0": "user_message", "evt_1": "changed", "evt_3": "user_message"}, size
            book.close()

    def test_fsync_is_called_before_the_acknowledgement(self, tmp_path, monkeypatch):
        synced = []
        real = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd)))
        for sync, least in (("fsync", 1), ("flush", 0)):
            book = opened(tmp_path / sync, Layout(sync=sync))
            synced.clear()
            write(book, [Add([event(1)])])
            assert len(synced) == least
            book.close()

    async def test_a_limit_on_file_size(self, tmp_path):
        """A real refusal by the system: a clean error, nothing half kept, and smaller writes go on."""
        code = """
import resource
from octavo.errors import StoreError
async def main():
    async with FileStore(sys.argv[1]) as store:
        await store.apply([Add([Record(collection="events", id="a")])])
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
        big = [Record(collection="events", id=f"b{n}", data={"x": "y" * 300}) for n in range(100)]
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
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20000
