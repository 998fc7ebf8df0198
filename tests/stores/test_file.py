"""What is particular to files: names, lines people read, other people's files, rotation."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from files import AT, EVENTS, child, data_files, event, ids, lines_of

from octavo.errors import ConfigError, StoreError, StoreUnavailable
from octavo.kernel.model import Add, Change, Query, Record, Remove, Scope
from octavo.stores import open_store
from octavo.stores.file import FileStore
from octavo.stores.file.files import family_of
from octavo.stores.file.store import delete_index
from octavo.stores.sql.drivers import sqlite


class TestLayout:
    async def test_documented_files_and_keys(self, tmp_path):
        """An event is a line with the documented keys in the documented file, and nothing it does not need."""
        async with FileStore(tmp_path) as store:
            await store.apply(
                [Add([event(1, "abc123", created_at=AT, seq=7, metadata={"source": "web", "n": 1})])]
            )
        (line,) = (tmp_path / "session_abc123.jsonl").read_text().splitlines()
        assert json.loads(line) == {
            "event_id": "evt_1", "agent_name": "assistant", "session_id": "abc123", "event_type": "user_message",
            "timestamp": "2024-01-01T12:00:00Z", "data": {"n": 1}, "metadata": {"source": "web", "n": 1}, "seq": 7,
        }  # fmt: skip
        assert line.startswith('{"event_id":"evt_1","agent_name":"assistant",')

    async def test_everything_a_record_has_comes_back(self, tmp_path):
        full = Record(
            collection="messages", id="m", kind="user", scope=Scope(tenant="t", user="u", agent="a", session="s"),
            text="héllo 软件 \n\u2028 \x01", data={"a": [1, 2.5, None, True]}, metadata={"k": "\n", "l": {}},
            marks=("x", "y"), created_at=AT, updated_at=AT.replace(microsecond=5), expires_at=AT, seq=3,
        )  # fmt: skip
        async with FileStore(tmp_path) as store:
            await store.apply([Add([full])])
        async with FileStore(tmp_path) as store:
            assert await store.find(Query(collection="messages", scope=Scope(tenant="t"))) == [full]
        line = json.loads((tmp_path / "messages/session_s.jsonl").read_text())
        assert line["content"] == full.text
        assert line["role"] == "user"

    async def test_single_file_mode_and_other_collections(self, tmp_path):
        async with FileStore(tmp_path, per_session=False) as store:
            await store.apply(
                [
                    Add(
                        [
                            event(1),
                            event(2, None),
                            Record(collection="turns", id="t", scope=Scope(session="s")),
                        ]
                    )
                ]
            )
        assert data_files(tmp_path) == ["events.jsonl", "turns/turns.jsonl"]

    async def test_records_without_a_session_have_a_file(self, tmp_path):
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(1, None), Record(collection="configs", id="c")])])
        assert data_files(tmp_path) == ["configs/configs.jsonl", "events.jsonl"]

    async def test_lines_are_unescaped_and_greppable(self, tmp_path):
        async with FileStore(tmp_path) as store:
            await store.apply(
                [Add([event(1, data={"message": "软件 👋"}), event(2, data={"message": "a\nb"})])]
            )
            await store.apply([Change(query=Query(collection="events", ids=("evt_2",)), kind="custom")])
            found = subprocess.run(
                ["grep", "-c", "软件 👋", tmp_path / "session_s.jsonl"], capture_output=True, check=True
            )
            assert found.stdout == b"1\n"
            assert all(json.loads(line)["event_id"] for line in lines_of(tmp_path / "session_s.jsonl"))

    def test_hostile_sessions_are_harmless_and_apart(self):
        """No session reaches outside its folder, and no two share a file, even where case is ignored."""
        sessions = ["a", "A", "b~", "..", "../../etc/passwd", "a/b", "a.b", "con", "a.", "a ", "%2E", "~", "é", "e\u0301",
                    "x" * 255, "x" * 254 + "y", "X" * 255, "软" * 85, "a\n", "\\", "AUX.txt", "a:b", "", "ß", "ss", "İ", "i"]  # fmt: skip
        names = [family_of("messages", session, ".jsonl") for session in sessions]
        assert len({name.casefold() for name in names}) == len(sessions)
        for name in names:
            folder, _, file = name.partition("/")
            assert folder == "messages"
            assert file.startswith("session_")
            assert len(file) < 200
            assert set(file) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%~.")
            assert "." not in file.removesuffix(".jsonl")

    async def test_hostile_sessions_keep_their_records(self, tmp_path):
        sessions = [
            "a",
            "A",
            "..",
            "a/b",
            "x" * 255,
            "X" * 255,
            "软" * 85,
            "a.20240101T000000Z-0000000000000001",
        ]
        async with FileStore(tmp_path / "d") as store:
            await store.apply([Add([event(n, session) for n, session in enumerate(sessions)])])
        async with FileStore(tmp_path / "d") as store:
            for number, session in enumerate(sessions):
                assert await ids(store, scope=Scope(session=session)) == [f"evt_{number}"]
        assert [path.name for path in tmp_path.iterdir()] == ["d"]

    async def test_layouts_can_be_changed(self, tmp_path):
        """A directory is read whichever way it was written; what is changed or removed stays so in every layout."""
        layouts = [{}, {"per_session": False}, {"format": "json"}, {"format": "json", "per_session": False}]
        for turn in range(8):
            async with FileStore(tmp_path, **layouts[turn % 4]) as store:
                assert (await store.tally(EVENTS)).total == (3 * turn if turn else 0)
                await store.apply([Add([event(f"{turn}{n}", f"s{n}") for n in range(4)])])
                await store.apply([Change(query=EVENTS, merge={"turn": turn})])
                assert await store.apply([Remove(Query(collection="events", ids=(f"evt_{turn}0",)))]) == [1]
                assert await store.apply([Add([event(f"{turn}1", "s1")])]) == [0]
                assert {record.data["turn"] for record in await store.find(EVENTS)} == {turn}
        async with FileStore(tmp_path) as store:
            assert {record.data["turn"] for record in await store.find(EVENTS)} == {7}
            assert await store.apply([Remove(EVENTS)]) == [24]
        assert data_files(tmp_path) == []


class TestOptions:
    def test_urls(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert open_store("file:///a/b%20c").path == Path("/a/b c")
        assert open_store("file://./rel").path == tmp_path / "rel"
        assert (
            open_store("file://rel/x?format=json&per_session=false&rotate_bytes=5&sync=fsync").path
            == tmp_path / "rel/x"
        )

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (
                "layout=single",
                "unknown option layout in the file URL; known: format, per_session, rotate_bytes, sync",
            ),
            ("format=xml", "format must be one of jsonl, json; got 'xml'"),
            ("per_session=maybe", "per_session must be one of true, false; got 'maybe'"),
            ("rotate_bytes=1k", "rotate_bytes must be a number of bytes; got '1k'"),
            ("rotate_bytes=0", "rotate_bytes must be 1 or more; got 0"),
            ("sync=never", "sync must be one of flush, fsync; got 'never'"),
        ],
    )
    def test_bad_options_are_named(self, options, named):
        with pytest.raises(ConfigError) as refused:
            open_store(f"file:///tmp/x?{options}")
        assert named in str(refused.value)

    def test_no_directory(self):
        with pytest.raises(ConfigError):
            open_store("file://")

    async def test_a_directory_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        store = FileStore(tmp_path / "file/dir")
        with pytest.raises(StoreError) as refused:
            await store.find(EVENTS)
        assert str(tmp_path / "file") in str(refused.value)
        await store.close()

    async def test_describe(self, tmp_path):
        async with FileStore(tmp_path, sync="fsync") as store:
            await store.apply([Add([event(1), event(2, "t")])])
            found = {finding.name: finding.value for finding in await store.describe()}
            size = sum((tmp_path / name).stat().st_size for name in data_files(tmp_path))
            assert await store.size_bytes() == size
        assert found == {
            "store": "file", "path": str(tmp_path), "format": "jsonl", "files": "2", "records": "2", "bytes": str(size),
            "durability": "fsync: survives power loss", "damaged lines": "0",
            "access": "0700: this account",
        }  # fmt: skip


class TestOtherPeoplesFiles:
    async def test_documented_keys_are_enough(self, tmp_path):
        """A file somebody else wrote loads, in its order, and can be changed and cleared like any other."""
        same = {"agent_name": "a", "session_id": "ABC", "timestamp": "2024-01-01T12:00:00", "data": {}}
        written = [{"event_id": f"e{n}", "event_type": "custom", **same} for n in (3, 1, 2)]
        lines = [json.dumps(line, indent=None) for line in written]
        (tmp_path / "session_ABC.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
        async with FileStore(tmp_path) as store:
            assert await ids(store) == ["e3", "e1", "e2"]
            (first, *_) = await store.find(EVENTS)
            assert first.created_at == datetime(2024, 1, 1, 12).astimezone(UTC)
            await store.apply([Change(query=Query(collection="events", ids=("e1",)), kind="changed")])
            await store.apply([Add([event(9, "ABC")])])
        async with FileStore(tmp_path) as store:
            assert await ids(store, until=AT.replace(month=6)) == ["e3", "e1", "e2"]
            assert (await store.tally(EVENTS)).by_kind == {"custom": 2, "changed": 1, "user_message": 1}
            assert await store.apply([Remove(EVENTS)]) == [4]
        assert data_files(tmp_path) == []

    async def test_a_pretty_json_array_loads(self, tmp_path):
        line = {
            "event_id": "e",
            "agent_name": "a",
            "session_id": None,
            "event_type": "custom",
            "data": {"a": [1]},
        }
        (tmp_path / "events.json").write_text(
            json.dumps([{**line, "timestamp": "2024-01-01T12:00:00+02:00"}], indent=4)
        )
        async with FileStore(tmp_path, format="json", per_session=False) as store:
            assert await ids(store) == ["e"]
            await store.apply([Add([event(1, None)])])
            assert await ids(store) == ["e", "evt_1"]
        assert [line["event_id"] for line in json.loads((tmp_path / "events.json").read_text())] == [
            "e",
            "evt_1",
        ]

    async def test_unrelated_files_are_left_alone(self, tmp_path):
        for name in ("notes.json", "events-backup.jsonl", "README.md"):
            (tmp_path / name).write_text("not ours")
        async with FileStore(tmp_path) as store:
            assert await ids(store) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "README.md",
            "events-backup.jsonl",
            "notes.json",
        ]

    async def test_copies_of_one_record_are_one_record(self, tmp_path):
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(1)])])
        (tmp_path / "session_copy.jsonl").write_bytes((tmp_path / "session_s.jsonl").read_bytes())
        async with FileStore(tmp_path) as store:
            assert (await store.tally(EVENTS)).total == 1
            assert await store.apply([Change(query=EVENTS, kind="changed")]) == [1]
        async with FileStore(tmp_path) as store:
            assert (await store.tally(EVENTS)).by_kind == {"changed": 1}
            assert await store.apply([Remove(EVENTS)]) == [1]
        async with FileStore(tmp_path) as store:
            assert (await store.tally(EVENTS)).total == 0

    async def test_edits_are_noticed_before_the_file_is_written_to(self, tmp_path):
        """A line a person adds while the store is open is never glued to ours, and deleting the file is believed."""
        path = tmp_path / "session_s.jsonl"
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(1)])])
            with path.open("a") as file:
                file.write(path.read_text().strip().replace("evt_1", "evt_2"))
            await store.apply([Add([event(3)])])
            assert sorted(await ids(store)) == ["evt_1", "evt_2", "evt_3"]
            path.unlink()
            await store.apply([Add([event(4)])])
            assert await ids(store) == ["evt_4"]

    async def test_the_stores_own_folder_may_be_deleted(self, tmp_path):
        async with FileStore(tmp_path) as store, FileStore(tmp_path) as other:
            await store.apply([Add([event(1)])])
            subprocess.run(["rm", "-rf", tmp_path / ".octavo"], check=True)
            await other.apply([Add([event(2)])])
            await store.apply([Add([event(3)])])
            assert await ids(store) == await ids(other) == ["evt_1", "evt_2", "evt_3"]


class TestIndex:
    @pytest.mark.parametrize("garbage", [b"", b"not a database", b"SQLite format 3\0" + b"x" * 8000])
    async def test_one_that_is_damaged_is_made_anew(self, tmp_path, garbage):
        """What SQLite cannot open is replaced; the files have everything."""
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(n) for n in range(3)])])
        (tmp_path / ".octavo/index.db").write_bytes(garbage)
        async with FileStore(tmp_path) as store:
            assert await ids(store) == ["evt_0", "evt_1", "evt_2"]
            assert await store.apply([Add([event(2), event(3)])]) == [1]

    async def test_one_that_cannot_be_made_is_tried_again(self, tmp_path, monkeypatch):
        """A store whose index is gone and cannot be made anew says so, and goes on once it can be."""
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(1)])])
            delete_index(tmp_path)

            def refuse(*_):
                raise apsw.CantOpenError("no room")

            with monkeypatch.context() as patch:
                patch.setattr(sqlite, "connect", refuse)
                for call in (store.find(EVENTS), store.apply([Add([event(2)])])):
                    with pytest.raises(StoreUnavailable):
                        await call
            assert await store.apply([Add([event(3)])]) == [1]
            assert await ids(store) == ["evt_1", "evt_3"]

    async def test_an_edit_that_keeps_the_size_is_noticed_on_opening(self, tmp_path):
        path = tmp_path / "session_s.jsonl"
        async with FileStore(tmp_path) as store:
            await store.apply([Add([event(1)])])
        path.write_text(path.read_text().replace("user_message", "user_massage"))
        async with FileStore(tmp_path) as store:
            assert (await store.tally(EVENTS)).by_kind == {"user_massage": 1}

    async def test_the_folder_can_be_copied_with_an_index_that_is_behind(self, tmp_path):
        """A copy made while others write may have an older index than files: nothing of the files is cut back."""
        async with FileStore(tmp_path / "a") as store:
            await store.apply([Add([event(1)])])
            subprocess.run(["cp", "-r", tmp_path / "a", tmp_path / "b"], check=True)
            await store.apply([Add([event(2), event(3, "t")])])
        for name in ("session_s.jsonl", "session_t.jsonl", ".octavo/lock"):
            (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes())
        async with FileStore(tmp_path / "b") as store:
            assert await ids(store) == ["evt_1", "evt_2", "evt_3"]

    async def test_nothing_temporary_is_left(self, tmp_path):
        async with FileStore(tmp_path, format="json") as store:
            for n in range(3):
                await store.apply([Add([event(n)])])
        assert sorted(path.name for path in (tmp_path / ".octavo").iterdir()) == ["index.db", "lock"]


class TestJsonFormat:
    async def test_loads_whole_after_every_write(self, tmp_path):
        """At any moment every file is one JSON array; archives and what is buried in them do not come back."""
        options = {"format": "json", "rotate_bytes": 1500}
        kept = set()
        async with FileStore(tmp_path, **options) as store:
            for n in range(40):
                await store.apply([Add([event(n)])])
                kept.add(f"evt_{n}")
                if n % 3 == 0:
                    await store.apply(
                        [Change(query=Query(collection="events", ids=(f"evt_{n // 2}",)), merge={"x": n})]
                    )
                if n % 4 == 0:
                    await store.apply([Remove(Query(collection="events", ids=(f"evt_{n // 4}",)))])
                    kept.discard(f"evt_{n // 4}")
                for name in data_files(tmp_path):
                    text = (tmp_path / name).read_text()
                    assert len(json.loads(text)) == len(text.splitlines()) - 2
                assert set(await ids(store)) == kept
            assert len(data_files(tmp_path)) > 2
        async with FileStore(tmp_path, **options) as store:
            assert set(await ids(store)) == kept
            await store.apply([Remove(EVENTS)])
        assert data_files(tmp_path) == []

    async def test_a_damaged_array_keeps_its_good_lines(self, tmp_path):
        async with FileStore(tmp_path, format="json") as store:
            await store.apply([Add([event(n) for n in range(3)])])
        path = tmp_path / "session_s.json"
        path.write_bytes(path.read_bytes()[:-20])
        async with FileStore(tmp_path, format="json") as store:
            assert await ids(store) == ["evt_0", "evt_1"]
            assert [line["event_id"] for line in json.loads(path.read_text())] == ["evt_0", "evt_1"]


class TestRotation:
    async def test_nothing_is_lost(self, tmp_path):
        """Many rotations within a second: archives are still read, counted, searched, changed and cleared."""
        async with FileStore(tmp_path, rotate_bytes=2000) as store:
            for start in range(0, 3000, 10):
                await store.apply([Add([event(n) for n in range(start, start + 10)])])
            await store.apply([Change(query=Query(collection="events", ids=("evt_5",)), kind="changed")])
            await store.apply([Remove(Query(collection="events", ids=("evt_6",)))])
        archives = data_files(tmp_path)
        assert len(archives) > 250
        assert all(name.startswith("session_s.20") for name in archives[:-1])
        async with FileStore(tmp_path, rotate_bytes=2000) as store:
            assert await ids(store) == [f"evt_{n}" for n in range(3000) if n != 6]
            assert (await store.tally(EVENTS)).by_kind == {"user_message": 2998, "changed": 1}
            assert await ids(store, text="2999") == ["evt_2999"]
            assert await store.apply([Remove(Query(collection="events", until=AT))]) == [0]
            assert await store.apply([Remove(EVENTS)]) == [2999]
        assert data_files(tmp_path) == []

    async def test_two_processes(self, tmp_path):
        code = """
async def main():
    async with FileStore(sys.argv[1], rotate_bytes=1000) as store:
        for n in range(400):
            await store.apply([Add([Record(collection="events", id=f"{sys.argv[2]}-{n}", scope=Scope(session="s"))])])
asyncio.run(main())"""
        writers = [child(code, tmp_path, name) for name in "ab"]
        for writer in writers:
            writer.communicate()
            assert writer.returncode == 0
        async with FileStore(tmp_path) as store:
            assert sorted(await ids(store)) == sorted(f"{name}-{n}" for name in "ab" for n in range(400))
        assert len(data_files(tmp_path)) > 40

    async def test_lines_that_are_gone_are_cleared_away(self, tmp_path):
        """Changes append, so that each costs the same; what they leave behind does not grow without end."""
        async with FileStore(tmp_path, rotate_bytes=20_000) as store, FileStore(tmp_path) as other:
            await store.apply([Add([event(n) for n in range(50)])])
            for turn in range(60):
                writer = (store, other)[turn % 2]
                assert await writer.apply([Change(query=EVENTS, merge={"turn": turn})]) == [50]
                assert {record.data["turn"] for record in await (other, store)[turn % 2].find(EVENTS)} == {
                    turn
                }
            lines = [line for name in data_files(tmp_path) for line in lines_of(tmp_path / name)]
            assert len(lines) < 50 + 256 + 2 * 50
        async with FileStore(tmp_path) as store:
            assert [record.data for record in await store.find(EVENTS)] == [
                {"n": n, "turn": 59} for n in range(50)
            ]

    async def test_a_file_without_records_is_deleted(self, tmp_path):
        async with FileStore(tmp_path) as store, FileStore(tmp_path) as other:
            await store.apply([Add([event(1), event(2, "t")])])
            assert await other.apply([Remove(Query(collection="events", scope=Scope(session="s")))]) == [1]
            assert data_files(tmp_path) == ["session_t.jsonl"]
            assert await store.apply([Add([event(1)])]) == [1]
            assert await ids(other) == ["evt_2", "evt_1"]
