"""The store is down: files are read and written all the same, and what was written arrives when it is back."""

import asyncio

import pytest
from faulty import Faulty, files, texts

from octavo import InvalidRecord, Query, StoreUnavailable, open_store
from octavo.service.vault import Vault
from octavo.wraps.journal import Journal


@pytest.fixture
async def faulty(store):
    return Faulty(store)


@pytest.fixture
async def vault(root, faulty):
    async with Vault(root, faulty) as opened:
        await opened.put("system", "before")
        yield opened


async def journalled(faulty, tmp_path):
    return Journal(faulty, tmp_path / "queue", timeout=1.0, backoff=(0.001, 0.01), owned=False)


async def test_reads_need_no_store(vault, faulty):
    faulty.down = True
    assert (await vault.get("system")).body == "before"
    (vault.root / "md" / "system.md").write_text("edited")
    assert (await vault.get("system")).body == "edited"
    (vault.root / "md" / "system.md").unlink()
    assert await vault.get("system") is None  # deleted: no store has to be asked
    for asking in (vault.get("world"), vault.versions("system"), vault.remove("world")):
        with pytest.raises(StoreUnavailable):  # down is never "nothing found"
            await asking


async def test_sync_says_that_the_store_is_down_and_goes_on_later(vault, faulty):
    await vault.put("world", "world")
    faulty.down = True
    (vault.root / "md" / "system.md").write_text("edited")
    (vault.root / "md" / "world.md").unlink()
    for _ in range(2):
        report = await vault.sync()
        assert (report.store_error, report.pending, report.changed) == (
            "the store is down",
            ["system", "world"],
            0,
        )
        assert not report.complete
    assert (await vault.status()).unsynced == ["system", "world"]
    faulty.down = False
    report = await vault.sync()
    assert (report.pushed, report.removed, report.complete) == (["system"], ["world"], True)


async def test_a_put_without_a_queue_is_in_the_file_and_sent_by_the_next_sync(vault, faulty):
    faulty.down = True
    document = await vault.put("system", "put")
    assert (document.status, document.body, document.version) == ("queued", "put", 2)
    assert (await vault.put("facts/new", "fact")).status == "queued"
    assert (await vault.get("system")).body == "put"
    with pytest.raises(StoreUnavailable):
        await vault.put("system", "again")  # the text before this one would be nowhere
    assert (await vault.get("system")).body == "put"
    faulty.down = False
    assert (await vault.sync()).pushed == ["facts/new", "system"]
    assert (await vault.get("system")).status == "stored"
    assert [v.body for v in await vault.versions("system")] == ["before"]


async def test_committed_and_then_failed(vault, faulty):
    faulty.after = True
    assert (await vault.put("system", "put")).status == "queued"
    faulty.after = False
    assert (await vault.sync()).complete
    assert (await vault.sync()).changed == 0
    assert [v.body for v in await vault.versions("system")] == ["before"]
    assert (await vault.get("system")).status == "stored"


async def test_a_removal_without_a_queue_changes_nothing(vault, faulty):
    faulty.down = True
    with pytest.raises(StoreUnavailable):
        await vault.remove("system")
    assert (await vault.get("system")).body == "before"


async def test_through_the_journal_everything_is_answered_and_arrives(root, faulty, store, tmp_path):
    """Put again and again, removed, put anew, while the store is down: it arrives in order, with no sync."""
    journal = await journalled(faulty, tmp_path)
    async with journal, Vault(root, journal) as vault:
        await vault.put("system", "one")
        await vault.put("users/a", "a")
        faulty.down = True
        for body in ("two", "three", "four"):
            assert (await vault.put("system", body)).status == "queued"
        assert (await vault.put("facts/new", "fact")).status == "queued"
        assert (await vault.put("facts/new", "better fact")).status == "queued"
        assert await vault.remove("users/a") is True
        assert await vault.get("users/a") is None
        with pytest.raises(InvalidRecord):
            await vault.put("system", "nul\0")
        assert sorted((await vault.status()).unsynced) == ["facts/new", "system", "users/a"]
        report = await vault.sync()
        assert report.store_error
        faulty.down = False
        async with asyncio.timeout(60):
            while journal.status().waiting:
                await journal.replay_now()
        current = {
            r.id: r.text
            for name in ("configs", "knowledge")
            for r in await store.find(Query(collection=name))
        }
        assert current == {"system": "four", "facts/new": "better fact"}
        versions = [(v.version, v.reason, v.body) for v in await vault.versions("system")]
        assert versions == [(1, "replaced", "one"), (2, "replaced", "two"), (3, "replaced", "three")]
        assert [v.reason for v in await vault.versions("users/a")] == ["deleted"]
        report = await vault.sync()
        assert (report.changed, report.conflicts, report.complete) == (0, [], True)
        assert (await vault.status()).unsynced == []
        assert (await vault.get("system")).version == 4


async def test_an_edit_during_an_outage_with_a_queue(root, faulty, store, tmp_path):
    journal = await journalled(faulty, tmp_path)
    async with journal, Vault(root, journal) as vault:
        await vault.put("system", "one")
        faulty.down = True
        (root / "md" / "system.md").write_text("edited by a person")
        assert (await vault.put("system", "put over it")).status == "queued"
        faulty.down = False
        async with asyncio.timeout(60):
            while journal.status().waiting:
                await journal.replay_now()
        assert (await vault.sync()).complete
        assert await texts(store, "system") == {"one", "edited by a person", "put over it"}
        assert (await vault.get("system")).status == "stored"
        assert (await vault.sync()).changed == 0


async def test_a_queue_that_is_lost(root, faulty, store, tmp_path):
    """What was queued never arrives: the next sync sends it from the file, and takes the store's text for no conflict."""
    journal = await journalled(faulty, tmp_path)
    async with journal, Vault(root, journal) as vault:
        await vault.put("system", "one")
        faulty.down = True
        for body in ("two", "three"):
            assert (await vault.put("system", body)).status == "queued"
        await journal.close()
    faulty.down = False
    async with Vault(root, store) as vault:
        report = await vault.sync()
        assert (report.pushed, report.conflicts) == (["system"], [])
        assert [(v.version, v.reason, v.body) for v in await vault.versions("system")] == [
            (1, "replaced", "one")
        ]
        assert (await vault.get("system")).version == 3


async def test_while_the_store_is_down_somebody_else_writes(root, faulty, store, tmp_path):
    """A queued put never replaces a text it does not know: the other's is kept."""
    journal = await journalled(faulty, tmp_path)
    async with journal, Vault(root, journal) as vault, Vault(tmp_path / "other", store) as other:
        await vault.put("system", "one")
        await other.sync()
        faulty.down = True
        await vault.put("system", "mine")
        await other.put("system", "theirs")
        faulty.down = False
        async with asyncio.timeout(60):
            while journal.status().waiting:
                await journal.replay_now()
        assert [r.text for r in await store.find(Query(collection="configs"))] == ["theirs"]
        assert (await vault.sync()).conflicts == ["system"]
        assert (await other.sync()).pulled == ["system"]
        assert files(vault) == files(other) == {"md/system.md": "mine"}
        assert await texts(store, "system") == {"one", "mine", "theirs"}


async def test_the_watch_outlives_an_outage(root, faulty, store, caplog):
    caplog.set_level("INFO", "octavo.vault")
    faulty.down = True
    (root / "md").mkdir(parents=True)
    (root / "md" / "system.md").write_text("text")
    async with Vault(root, faulty, watch_seconds=0.01) as vault, asyncio.timeout(60):
        vault.start()
        while (await vault.status()).last_error is None:
            await asyncio.sleep(0)
        faulty.down = False
        while (await vault.status()).unsynced or (await vault.status()).last_error:
            await asyncio.sleep(0)
    told = [record.levelname for record in caplog.records]
    assert told == ["WARNING", "INFO"]
    assert [r.text for r in await store.find(Query(collection="configs"))] == ["text"]


async def test_first_use_while_the_store_is_down(root, tmp_path):
    """A store that cannot even be opened: the vault works, and an empty one is empty only when the store says so."""
    faulty = Faulty(open_store("memory://"))
    faulty.down = True
    async with Vault(root, faulty) as vault:
        assert (await vault.put("system", "text")).status == "queued"
        assert (await vault.get("system")).body == "text"
        with pytest.raises(StoreUnavailable):
            await vault.get("world")
    await faulty.close()
