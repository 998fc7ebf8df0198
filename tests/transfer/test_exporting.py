"""Exporting: a file is whole or has no name, and equal stores give equal files."""

import gzip
import json
from datetime import timedelta
from pathlib import Path

import pytest
from moving import BORN, KINDS, Unreadable, Watched, contents, sample

from octavo import Add, ConfigError, Record, StoreUnavailable, open_store
from octavo.transfer import export, import_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
async def test_export_and_import_round_trip_byte_for_byte(make, full, tmp_path, kind, name):
    """What was exported, imported and exported again is the same file."""
    first, second = tmp_path / "first" / name, tmp_path / "second" / name
    first.parent.mkdir()
    second.parent.mkdir()
    store = await make(kind)
    assert (await export(full, first, batch=100)).read == 300
    moved = await import_(first, store, batch=33)
    assert (moved.read, moved.added, moved.bad) == (300, 300, 0)
    assert (await import_(first, store)).added == 0
    await export(store, second, batch=100)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in first.parent.iterdir()) == [name]


async def test_an_export_is_lines_anybody_can_read(make, tmp_path):
    store = await make("memory")
    await store.apply([Add([Record(collection="messages", id="a", text="hi", created_at=BORN, seq=1)])])
    path = tmp_path / "one.jsonl.gz"
    await export(store, path)
    head, line, end = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert json.loads(head) == {"octavo_export": 1}
    assert json.loads(line) == {
        "collection": "messages",
        "id": "a",
        "text": "hi",
        "created_at": "2026-03-01T12:00:00Z",
        "updated_at": "2026-03-01T12:00:00Z",
        "seq": 1,
    }
    assert json.loads(end) == {"octavo_export_end": 1}


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
async def test_export_interrupted_at_every_batch_is_taken_up(make, full, tmp_path, name):
    """The file has no name of its own until it is whole, and then it is what one run would have written."""
    whole, path, state = tmp_path / f"whole-{name}", tmp_path / name, tmp_path / "state"
    await export(full, whole, batch=5)
    for stop in range(0, 72, 9):
        with pytest.raises(StoreUnavailable):
            await export(Unreadable(full, finds=stop), path, batch=5, resume=state)
        assert not path.exists()
        moved = await export(full, path, batch=5, resume=state)
        assert moved.read + moved.resumed == 300
        assert path.read_bytes() == whole.read_bytes()
        path.unlink()
    assert not state.exists()


async def test_an_export_whose_part_is_gone_begins_again(make, full, tmp_path):
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await export(Unreadable(full, finds=9), path, batch=10, resume=state)
    (tmp_path / "all.jsonl.part").unlink()
    await export(full, path, batch=10, resume=state)
    assert path.read_bytes() == await contents(full)


async def test_a_resumed_export_holds_what_arrived_behind_its_cursor(make, full, tmp_path):
    path, state = tmp_path / "all.jsonl", tmp_path / "state"
    with pytest.raises(StoreUnavailable):
        await export(Unreadable(full, finds=9), path, batch=10, resume=state)
    await full.apply(
        [Add([Record(collection="events", id="late", created_at=BORN - timedelta(days=9), seq=1)])]
    )
    await export(full, path, batch=10, resume=state)
    assert path.read_bytes() == await contents(full)


async def test_two_exports_into_one_file_do_not_mix(make, full, tmp_path):
    path = tmp_path / "all.jsonl"

    class Rival(Watched):
        async def find(self, query):
            if not self.finds:
                with pytest.raises(ConfigError, match="another export is writing"):
                    await export(full, path)
            return await super().find(query)

    await export(Rival(full), path)
    assert path.read_bytes() == await contents(full)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        *[("sqlite:///own.db", f"own.db{end}") for end in ("", "-wal", "-shm")],
        ("sqlite:///own.db.part", "own.db"),
        ("sqlite:///own.db", "linked"),
        ("file://folder", "folder/export.jsonl"),
        ("file://folder", "folder/.octavo/export.jsonl"),
    ],
)
async def test_a_store_is_never_written_over_by_its_own_export(tmp_path, monkeypatch, url, name):
    monkeypatch.chdir(tmp_path)
    async with open_store(url) as store:
        await store.apply([Add(sample(20))])
        before = await contents(store)
        Path("linked").symlink_to("own.db")
        for file in (Path(name), str(tmp_path / name)):
            with pytest.raises(ConfigError, match="belongs to the store in"):
                await export(store, file)
        assert await contents(store) == before
