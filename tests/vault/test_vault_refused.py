"""A document is written in both places, or the answer says what became of it: an error means that nothing changed."""

import asyncio
import errno
import os

import pytest
from faulty import files, texts

from octavo import StoreError, StoreUnavailable, open_store
from octavo.config import Database, FailureQueue, Service, Settings
from octavo.config import Vault as VaultSettings
from octavo.service import MemoryService
from octavo.service.vault import Vault
from octavo.wraps import Wrap
from serving import KINDS, url_of


class Refusing(Wrap):
    """A store that refuses what it is given ("refuses"), is away ("down") or does not answer ("hangs")."""

    mode = "up"

    async def apply(self, ops):
        if self.mode == "refuses":
            raise StoreError("the table is somebody else's")
        if self.mode == "down":
            raise StoreUnavailable("nobody there")
        if self.mode == "hangs":
            await asyncio.Event().wait()
        return await super().apply(ops)


@pytest.fixture(params=KINDS)
async def refusing(request, tmp_path):
    url = url_of(request.param, tmp_path, request.getfixturevalue("fresh_url"))
    async with open_store(url) as store:
        yield Refusing(store)


@pytest.fixture
async def vault(root, refusing):
    async with Vault(root, refusing) as opened:
        yield opened


def everything(root):
    """Every file below the folder, with its bytes and the time of its last change."""
    return {
        path.relative_to(root): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("key", ["system", "users/lin", "facts/sky"])
async def test_a_text_that_the_store_refuses_changes_no_file(vault, refusing, key):
    """Neither that of a document that is there, nor does a new one appear; no trace is left of the attempt."""
    await vault.put(key, "before")
    kept = everything(vault.root)
    refusing.mode = "refuses"
    for name in (key, f"{key}2"):
        with pytest.raises(StoreError, match="somebody else's"):
            await vault.put(name, "after")
    assert everything(vault.root) == kept
    assert (await vault.get(key)).body == "before"
    refusing.mode = "up"
    assert (await vault.sync()).changed == 0
    assert await texts(refusing, key) == {"before"}


@pytest.mark.parametrize("mode", ["down", "hangs"])
async def test_a_text_that_the_store_cannot_take_now_is_queued(vault, refusing, mode):
    """It is in the file, the answer says `queued`, and the next sync sends it."""
    await vault.put("system", "before")
    refusing.mode = mode
    async with Vault(vault.root, refusing, patience_seconds=1.0) as impatient:
        async with asyncio.timeout(60):
            assert (await impatient.put("system", "after")).status == "queued"
    assert files(vault)["md/system.md"] == "after"
    refusing.mode = "up"
    assert (await vault.sync()).pushed == ["system"]
    assert await texts(refusing, "system") == {"before", "after"}


async def test_a_text_that_the_disk_refuses_is_not_in_the_store(vault, refusing, monkeypatch):
    """A full disk is found out before the store is asked."""
    await vault.put("system", "before")
    kept = everything(vault.root)

    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="make room"):
            await vault.put("system", "after")
    assert everything(vault.root) == kept
    assert await texts(refusing, "system") == {"before"}


async def test_a_metadata_file_that_cannot_be_written(vault, refusing, monkeypatch, caplog):
    """The document is in both places all the same, and the answer says so; the next sync finds them alike."""
    await vault.put("system", "before")

    def full(self, entries):
        raise StoreError("the vault cannot write metadata.json")

    with monkeypatch.context() as patched:
        patched.setattr("octavo.service.vault.folder.Ledger.save", full)
        assert (await vault.put("system", "after")).status == "stored"
    assert "cannot write metadata.json" in caplog.text
    assert files(vault)["md/system.md"] == "after"
    assert (await vault.sync()).changed == 0
    assert await texts(refusing, "system") == {"before", "after"}


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("call", ["upsert_system_prompt", "upsert_user_profile", "upsert_config"])
def test_a_prompt_that_is_refused_is_not_written(tmp_path, monkeypatch, call, queue):
    """With a failure queue and without: refused, nothing changed; while the store is away, `queued` and in the file."""
    opened = []

    def opening(url):
        opened.append(Refusing(open_store(url)))
        return opened[-1]

    monkeypatch.setattr("octavo.assemble.open_store", opening)
    settings = Settings(
        database=Database(dsn=f"sqlite:///{tmp_path}/octavo.db"),
        vault=VaultSettings(root_path=str(tmp_path / "vault"), watch_seconds=0),
        failure_queue=FailureQueue(directory=str(tmp_path / "queue"), enabled=queue),
        service=Service(timeout_seconds=4),
    )
    given = {"upsert_system_prompt": (), "upsert_user_profile": ("lin",), "upsert_config": ("world",)}[call]
    with MemoryService.from_settings(settings) as memory:
        upsert = getattr(memory, call)
        upsert(*given, "before")
        kept = everything(tmp_path / "vault")
        opened[-1].mode = "refuses"
        with pytest.raises(StoreError, match="somebody else's"):
            upsert(*given, "refused")
        assert everything(tmp_path / "vault") == kept
        for mode in ("hangs", "down"):
            opened[-1].mode = mode
            assert upsert(*given, f"while it {mode}").status == "queued"
            if not queue:  # the text before the next one would be nowhere
                break
