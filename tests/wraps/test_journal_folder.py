"""A queue that cannot be written to takes no healthy store down, and is not called a queue that takes writes."""

import asyncio
import logging
from pathlib import Path

import pytest
from outages import Unsteady, add, ids, those

from octavo import open_store
from octavo.errors import StoreUnavailable
from octavo.wraps import Journal
from octavo.wraps.journal import Spool

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
BACKOFF = (0.01, 0.05)


@pytest.fixture(params=["a file in the way", "a folder that cannot be made"])
def unusable(request, tmp_path):
    if request.param == "a folder that cannot be made":
        return Path("/proc/octavo")
    (tmp_path / "queue").write_text("")
    return tmp_path / "queue"


class FullDisk(Spool):
    """A queue on a disk that has no room while `full`."""

    full = False

    def _refuse(self):
        if self.full:
            raise StoreUnavailable(f"{self.directory}: no space left")

    def put(self, entries):
        self._refuse()
        super().put(entries)

    def check(self):
        self._refuse()
        super().check()


async def _until(state, journal):
    while journal.status().state != state:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_healthy_store_goes_on_without_a_queue(place, unusable, caplog, kind):
    """It is read and written to; one warning says that nothing can wait, and so does whoever describes the store."""
    store = Unsteady(open_store(place(kind)))
    async with Journal(store, unusable, backoff=BACKOFF) as journal:
        assert (await journal.write([add("a")])).status == "stored"
        assert (await journal.write([add("b")])).status == "stored"
        assert await ids(journal) == ["a", "b"]
        await journal.replay_now()
        assert (journal.status().state, journal.status().waiting) == ("up", 0)
        assert str(unusable) in journal.status().queue_error
        assert await journal.refusal(those()) is None
        warned = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert [str(unusable) in record.getMessage() for record in warned] == [True]
        if kind != "memory":
            queue = (await journal.describe())[-1]
            assert "cannot be written to" in queue.value
            assert str(unusable) in queue.warning
        store.turn("down")
        with pytest.raises(StoreUnavailable, match=r"neither stored.*nor queued"):
            await journal.write([add("lost")])
        assert "cannot use" in await journal.refusal(those())
        store.turn("up")
        await _until("up", journal)
        assert (await journal.write([add("c")])).status == "stored"
        assert await ids(journal) == ["a", "b", "c"]


async def test_a_folder_that_is_mended_is_used(tmp_path):
    """Without a restart, and what another process had left in it is brought to the store."""
    folder, away = tmp_path / "queue", tmp_path / "away"
    store = Unsteady(open_store("memory://"), "down")
    async with Journal(store, folder, backoff=(1e6, 1e6), owned=False) as journal:
        assert (await journal.write([add("left")])).status == "queued"
    store.turn("up")
    folder.rename(away)
    folder.write_text("")
    async with Journal(store, folder, backoff=BACKOFF) as journal:
        assert (await journal.write([add("a")])).status == "stored"
        assert journal.status().queue_error
        folder.unlink()
        away.rename(folder)
        await journal.replay_now()
        await _until("up", journal)
        assert journal.status().queue_error is None
        assert sorted(await ids(journal)) == ["a", "left"]


@pytest.mark.parametrize("kind", KINDS)
async def test_reads_go_on_after_a_write_was_refused(place, tmp_path, kind):
    """Neither disk has room: the write is refused, nothing is missing from the store, and so it is read."""
    store, spool = Unsteady(open_store(place(kind))), FullDisk(tmp_path / "queue")
    async with Journal(store, spool, backoff=BACKOFF) as journal:
        await journal.write([add("a")])
        store.turn("read-only")
        spool.full = True
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"the disk is full.*no space left"):
                await journal.write([add("lost")])
            assert await ids(journal) == ["a"]
            assert (await journal.tally(those())).total == 1
            await journal.replay_now()
        assert "no space left" in await journal.refusal(those())
        spool.full = False
        assert await journal.refusal(those()) is None
        assert (await journal.write([add("b")])).status == "queued"
        assert await ids(journal) == ["a", "b"]
        store.turn("up")
        await _until("up", journal)
        assert await ids(journal) == ["a", "b"]


async def test_a_store_that_cannot_be_read_is_not_waited_for(tmp_path):
    """While it is down and nothing waits, whoever reads is told at once, once the first has found out."""
    store = Unsteady(open_store("memory://"))
    async with Journal(store, tmp_path, backoff=(1e6, 1e6)) as journal:
        await journal.write([add("a")])
        store.turn("down")
        with pytest.raises(StoreUnavailable):
            await journal.find(those())
        await _until("down", journal)
        calls = store.calls
        for _ in range(5):
            with pytest.raises(StoreUnavailable, match="the store cannot be read"):
                await journal.find(those())
        assert store.calls == calls
