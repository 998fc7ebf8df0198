"""Errors worth reading: which host, which path and why, what was wanted, and how many in good English."""

import os
import subprocess
from contextlib import suppress

import pytest

from octavo import (
    Add,
    ChatMemory,
    Conflict,
    EventStore,
    InvalidRecord,
    LayeredMemory,
    MemoryService,
    OctavoError,
    Query,
    Record,
    Remove,
    StoreError,
    StoreUnavailable,
    open_store,
    open_vectors,
)
from octavo.conversation import StoreChatMessageHistory
from octavo.kernel.text import pluralize
from octavo.service import MessagePayload, Observation, ObservationType
from octavo.stores.sql.drivers import sqlite
from octavo.util import disk as disk_files
from servers.verdict import NOT_TESTED

pytestmark = pytest.mark.every_store

NOWHERE = "no-such-host.invalid"  # by RFC 6761 nobody ever has it
SAID = Observation(ObservationType.MESSAGE, MessagePayload("hello"))


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "redis"])
async def test_a_host_that_cannot_be_found_is_named(scheme):
    with pytest.raises(OctavoError) as refused:
        await write(f"{scheme}://lin:sesame@{NOWHERE}/{0 if scheme == 'redis' else 'x'}")
    assert NOWHERE in str(refused.value)
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    "url", [f"qdrant+https://{NOWHERE}:6333?api_key=sesame", f"postgresql://lin:sesame@{NOWHERE}/x"]
)
async def test_a_host_of_vectors_is_named(url):
    with pytest.raises(OctavoError) as refused:
        async with open_vectors(url) as vectors:
            await vectors.spaces()
    assert NOWHERE in str(refused.value)
    assert "sesame" not in str(refused.value)


@pytest.fixture
def disk(tmp_path):
    """A disk of its own; called, it is read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"{NOT_TESTED}a tmpfs cannot be mounted here: {made.stderr.strip()}")
    yield folder, lambda: subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    subprocess.run(["umount", "--lazy", folder], check=True)


async def write(url):
    async with open_store(url) as store:
        await store.apply([Add([Record(collection="messages", text="x")])])


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
@pytest.mark.parametrize("store", ["sqlite:///{}/a/octavo.db", "file://{}/a/files"])
async def test_a_read_only_disk_is_said_to_be_one(disk, store, there):
    folder, make_read_only = disk
    url = store.format(folder)
    if there:
        await write(url)
    make_read_only()
    with pytest.raises(StoreError) as refused:
        await write(url)
    assert str(folder / "a") in str(refused.value)
    assert "read-only" in str(refused.value).lower()


@pytest.mark.parametrize("url", ["sqlite:///{}/octavo.db", "file://{}/files"])
async def test_what_is_on_a_read_only_disk_can_be_read(disk, url):
    folder, make_read_only = disk
    url = url.format(folder)
    many = [Record(collection="messages", text=f"tulip {number}") for number in range(400)]
    async with open_store(url) as store:
        await store.apply([Add(many)])
    make_read_only()
    async with open_store(url) as store:  # a search of so many would index them first, were they not
        assert len((await store.search(Query(collection="messages"), ["tulip"])).found) == 400
        assert (await store.tally(Query(collection="messages"))).total == 400
        told = [each.warning for each in await store.describe() if each.warning and each.name != "access"]
        assert told == ["the file system is read-only; mount it for writing"] * url.startswith("sqlite")


@pytest.mark.parametrize("store", ["sqlite:///{}/octavo.db", "file://{}"])
async def test_what_may_only_be_read_is_written_to_again_once_it_may(store, tmp_path, monkeypatch):
    """Root may write to any file, so that the system is not asked here."""
    url = store.format(tmp_path)
    await write(url)
    there = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        for module in (sqlite, disk_files):
            patch.setattr(module, "write_obstacle", lambda _: "this account may not write there")
        reader = open_store(url)
        assert len(await reader.find(Query(collection="messages"))) == 1
        with pytest.raises(StoreUnavailable, match="this account may not write there"):
            await reader.apply([Add([Record(collection="messages", text="y")])])
        assert sorted(tmp_path.rglob("*")) == there
    async with reader, open_store(url) as writer:
        await writer.apply([Add([Record(collection="messages", text="y")])])
        assert len(await reader.find(Query(collection="messages"))) == 2
        await reader.apply([Add([Record(collection="messages", text="z")])])
        assert len(await reader.find(Query(collection="messages"))) == 3


async def test_a_file_that_may_not_be_read_is_said_to_be_one(tmp_path, monkeypatch):
    """Root may read any file, so that the system is not asked here."""
    path = tmp_path / "octavo.db"
    await write(f"sqlite:///{path}")
    monkeypatch.setattr(disk_files.os, "access", lambda _, mode: mode != os.R_OK)
    assert disk_files.write_obstacle(str(path)) == "this account may not read it"
    assert disk_files.write_obstacle(str(tmp_path / "new.db")) == ""


@pytest.mark.parametrize("there", [False, True], ids=["deleted", "replaced"])
async def test_a_file_that_is_another_one_now_takes_no_writes(tmp_path, there):
    """What is written to a file that was deleted is gone when it is closed."""
    path, other = tmp_path / "octavo.db", tmp_path / "backup.db"
    await write(f"sqlite:///{other}")
    async with open_store(f"sqlite:///{path}") as store:
        await store.apply([Add([Record(collection="messages", text="x")])])
        other.rename(path) if there else path.unlink()
        with pytest.raises(StoreUnavailable, match="was deleted, moved or replaced while it was open"):
            await store.apply([Add([Record(collection="messages", text="y")])])


@pytest.mark.parametrize("store", ["sqlite:///{}/octavo.db", "file://{}/files"])
async def test_a_full_disk_is_said_to_be_one(disk, store):
    """SQLite itself calls it an I/O error where there is no room for its shared memory."""
    folder, _ = disk
    url = store.format(folder)
    await write(url)
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(1024))
    with pytest.raises(StoreError, match="the disk is full; make room on it"):
        await write(url)


async def test_a_queue_and_a_vault_on_one_say_so_too(disk, tmp_path):
    folder, make_read_only = disk
    make_read_only()
    store = f"sqlite:///{folder}/octavo.db"
    service = MemoryService(store, vault_path=None, queue_path=folder / "queue")
    with service, pytest.raises(StoreError) as refused:
        service.append_event(SAID, "monday")
    for path in ("queue", "octavo.db"):
        assert f"{folder / path}" in str(refused.value)
    assert str(refused.value).count("Read-only file system") == 2
    service = MemoryService("memory://", vault_path=folder / "vault", queue_path=tmp_path / "queue")
    told = rf"{folder}/vault: Read-only file system; mount it for writing"
    with service, pytest.raises(StoreError, match=told):
        service.upsert_system_prompt("be kind")


@pytest.mark.parametrize(
    "make", [open_store, open_vectors, EventStore, ChatMemory, LayeredMemory, ChatMemory.open]
)
@pytest.mark.parametrize("given", [None, 5])
def test_no_store_is_refused_at_once(make, given):
    with pytest.raises(TypeError, match=rf"such as sqlite:///octavo\.db.*; got {given}"):
        make(given)


def test_a_history_without_a_store_is_refused_too():
    with pytest.raises(TypeError, match=r"such as sqlite:///octavo\.db.*; got None"):
        StoreChatMessageHistory(None, session_id="monday")


@pytest.mark.parametrize("given", ["hello", None, {"text": "hello"}])
def test_an_event_says_what_it_is_made_of(given, tmp_path):
    service = MemoryService("memory://", vault_path=None, queue_path=tmp_path)
    wanted = r"such as Observation\(ObservationType.MESSAGE"
    with service, pytest.raises(InvalidRecord, match=wanted) as refused:
        service.append_event(given, "monday")
    assert str(refused.value).endswith(f"got {given!r}")


async def test_one_record_is_not_several():
    assert (pluralize(0, "record"), pluralize(1, "record"), pluralize(2000, "record")) == (
        "0 records",
        "1 record",
        "2,000 records",
    )
    async with open_store("memory://") as store:
        with pytest.raises(Conflict, match="expected 1 record and met 0"):
            await store.apply([Remove(Query(collection="messages"), expect=1)])
