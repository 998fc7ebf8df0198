"""Sync: edits, deletions, conflicts, lost and damaged metadata, many files, and what is not read again."""

import asyncio
import json
import os
import shutil

import pytest

from octavo import Query, Remove, StoreUnavailable, open_store
from octavo.service.vault import Vault, folder
from octavo.service.vault.folder import Stamp
from octavo.wraps import Wrap


def file(vault, key):
    folder = "knowledge" if key.startswith(("facts/", "experiences/")) else "md"
    return vault.root / folder / f"{key}.md"


async def both(vault, other, key="system", text="base"):
    """A document that two machines agree on."""
    await vault.put(key, text)
    await other.sync()
    assert (await other.get(key)).body == text


async def test_an_edit_goes_to_the_other_machine(vault, other):
    await both(vault, other)
    file(vault, "system").write_text("---\na: 1\n---\nedited")
    assert (await vault.sync()).pushed == ["system"]
    assert (await other.sync()).pulled == ["system"]
    document = await other.get("system")
    assert (document.body, document.front, document.version) == ("edited", {"a": 1}, 2)
    assert [(v.reason, v.body) for v in await vault.versions("system")] == [("edited", "base")]
    assert (await vault.sync()).changed == (await other.sync()).changed == 0


async def test_new_deleted_and_renamed_files(vault, other):
    file(vault, "system").parent.mkdir(parents=True)
    file(vault, "system").write_text("new")
    assert (await vault.sync()).pushed == ["system"]
    await vault.put("facts/old", "fact")
    await other.sync()
    file(vault, "facts/old").rename(file(vault, "facts/new"))
    report = await vault.sync()
    assert (report.pushed, report.removed) == (["facts/new"], ["facts/old"])
    report = await other.sync()
    assert (report.pulled, report.unlinked) == (["facts/new"], ["facts/old"])
    assert not file(other, "facts/old").exists()
    assert (await other.get("facts/new")).body == "fact"


async def test_a_conflict_is_won_by_the_edited_file_and_loses_nothing(vault, other):
    await both(vault, other)
    await other.put("system", "theirs", {"by": "them"})
    file(vault, "system").write_text("mine")
    report = await vault.sync()
    assert report.conflicts == ["system"]
    assert (await vault.get("system")).body == "mine"
    assert (await vault.get("system")).version == 3
    versions = [(v.version, v.reason, v.body) for v in await vault.versions("system")]
    assert versions == [(1, "replaced", "base"), (2, "conflict", "theirs")]
    assert (await other.sync()).pulled == ["system"]
    assert (await other.get("system")).body == "mine"


async def test_a_deletion_does_not_delete_what_somebody_changed(vault, other):
    await both(vault, other)
    await other.put("system", "changed")
    file(vault, "system").unlink()
    assert (await vault.sync()).pulled == ["system"]
    assert (await vault.get("system")).body == "changed"


async def test_an_edit_survives_a_deletion_elsewhere(vault, other):
    await both(vault, other)
    file(vault, "system").write_text("edited")
    await other.remove("system")
    assert (await vault.sync()).pushed == ["system"]
    assert (await other.sync()).pulled == ["system"]
    assert (await other.get("system")).body == "edited"


async def test_the_same_edit_on_both_sides_is_no_conflict(vault, other):
    await both(vault, other)
    for each in (vault, other):
        file(each, "system").write_text("the same")
    assert (await vault.sync()).pushed == ["system"]
    report = await other.sync()
    assert (report.changed, report.unchanged) == (0, 1)
    assert len(await vault.versions("system")) == 1


async def test_an_empty_database_is_filled_from_the_files(vault, tmp_path):
    """A new or lost database deletes no file."""
    for n in range(5):
        await vault.put(f"facts/{n}", f"fact {n}")
    await vault.remove("facts/4")
    async with open_store("memory://") as empty, Vault(vault.root, empty) as moved:
        report = await moved.sync()
        assert report.pushed == ["facts/0", "facts/1", "facts/2", "facts/3"]
        assert (await moved.sync()).changed == 0


async def test_a_record_deleted_by_hand_comes_back(vault, store):
    await vault.put("system", "text")
    await store.apply([Remove(Query(collection="configs", ids=("system",)))])
    assert (await vault.sync()).pushed == ["system"]


async def test_a_folder_that_is_gone_is_restored_but_single_files_are_not(vault):
    for key in ("system", "users/a", "users/b", "facts/x"):
        await vault.put(key, key)
    shutil.rmtree(vault.root / "md")
    report = await vault.sync()
    assert (report.pulled, report.removed) == (["system", "users/a", "users/b"], [])
    shutil.rmtree(vault.root / "md")
    await vault.put("users/b", "put meanwhile")  # which makes the folder anew
    report = await vault.sync()
    assert (report.pulled, report.removed) == (["system", "users/a"], [])
    shutil.rmtree(vault.root / "md" / "users")
    assert (await vault.sync()).removed == ["users/a", "users/b"]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"system": 1}', '{"system": {"md5": 1}}', "\0\0\0", '{"system": {"path": "../../etc/passwd"}}', None]
)  # fmt: skip
async def test_metadata_that_is_damaged_or_gone_is_made_anew(vault, store, damage):
    for key in ("system", "users/a", "facts/x"):
        await vault.put(key, f"of {key}")
    metadata = vault.root / "metadata.json"
    good = json.loads(metadata.read_text())
    if damage is None:
        metadata.unlink()
    else:
        metadata.write_text(damage)
    file(vault, "users/a").write_text("edited meanwhile")
    async with Vault(vault.root, store) as again:
        assert (await again.get("system")).body == "of system"
        problems = [problem.path for problem in (await again.status()).problems]
        assert problems == (["metadata.json"] if damage is not None else [])
        report = await again.sync()
        assert report.conflicts == ["users/a"]  # nobody knows any more which of the two is older
        assert (await again.sync()).changed == 0
        assert (await again.status()).problems == []
    made = json.loads(metadata.read_text())
    assert {key: entry["md5"] for key, entry in made.items() if key != "users/a"} == {
        key: entry["md5"] for key, entry in good.items() if key != "users/a"
    }
    assert [(v.reason, v.body) for v in await vault.versions("users/a")] == [("conflict", "of users/a")]
    if damage is not None:
        assert (vault.root / "metadata.json.bad").read_text() == damage


class Racing(Wrap):
    """Somebody else writes between our reading and our writing."""

    def __init__(self, store, between):
        super().__init__(store, owned=False)
        self._between = between

    async def apply(self, ops):
        between, self._between = self._between, None
        if between is not None:
            await between()
        return await self.inner.apply(ops)


@pytest.mark.parametrize("how", ["edited", "deleted", "new"])
async def test_somebody_else_writes_in_the_same_moment(vault, other, store, how):
    """Our write finds another text than the one we read, and leaves it: it is looked at again and nothing is lost."""
    key = "world" if how == "new" else "system"
    await both(vault, other)
    if how == "deleted":
        file(vault, key).unlink()
    else:
        file(vault, key).write_text("mine")
    async with Vault(vault.root, Racing(store, lambda: other.put(key, "theirs"))) as racing:
        report = await racing.sync()
        assert report.complete
        assert (report.conflicts, report.pulled) == (([], [key]) if how == "deleted" else ([key], []))
        assert (await racing.sync()).changed == 0
    said = {v.body for v in await vault.versions(key)} | {(await vault.get(key)).body}
    assert said >= {"theirs", *(() if how == "deleted" else ("mine",)), *(() if how == "new" else ("base",))}
    await other.sync()
    assert (await other.get(key)).body == (await vault.get(key)).body


async def test_one_at_a_time(vault, store):
    """While one process is at work on a vault, another waits for it, but not for ever."""
    await vault.put("system", "text")
    async with Vault(vault.root, store, patience_seconds=0) as hasty, vault._hold_lock():
        for work in (hasty.put("system", "x"), hasty.remove("system")):
            with pytest.raises(StoreUnavailable, match="another process"):
                await work
        assert (await hasty.get("system")).body == "text"
        file(vault, "system").write_text("edited")
        report = await hasty.sync()
        assert "another process" in report.store_error
        assert report.pending == ["system"]
    assert (await vault.sync()).pushed == ["system"]


async def test_metadata_that_names_another_file_is_not_believed(vault, store, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    await vault.put("system", "text")
    metadata = vault.root / "metadata.json"
    entries = json.loads(metadata.read_text())
    for path in ("../secret.md", str(secret), "md/users/../../../secret.md", "md/world.md"):
        entries["system"]["path"] = path
        metadata.write_text(json.dumps(entries))
        async with Vault(vault.root, store) as again:
            assert (await again.get("system")).body == "text"
            await again.sync()
            assert (await again.get("system")).body == "text"
    assert secret.read_text() == "secret"


async def test_an_edit_within_the_same_moment_is_seen(vault):
    """Same size, same times, same inode: only the bytes differ."""
    await vault.put("system", "aaaa")
    where = file(vault, "system")
    was = where.stat()
    with where.open("r+b") as opened:
        opened.write(b"bbbb")
    os.utime(where, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert where.stat().st_size == was.st_size
    assert where.stat().st_ino == was.st_ino
    assert (await vault.sync()).pushed == ["system"]
    assert (await vault.get("system")).body == "bbbb"


async def test_an_edit_is_seen_where_times_are_coarse(vault, monkeypatch):
    """A file system that tells times in steps of two seconds, and an edit within the step: only reading tells."""

    def coarse(found):
        step = 2 * 10**9
        return Stamp(found.st_size, found.st_mtime_ns // step * step, 0, 0)

    monkeypatch.setattr(Stamp, "of", staticmethod(coarse))
    monkeypatch.setattr(folder, "_RACY_NS", 10**11)  # a busy machine may take longer than a step to get here
    await vault.put("system", "aaaa")
    where = file(vault, "system")
    was = where.stat()
    where.write_text("bbbb")
    os.utime(where, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (await vault.status()).unsynced == ["system"]
    assert (await vault.sync()).pushed == ["system"]


async def test_files_from_the_future_and_the_past(vault):
    """The clock was set back, or the files come from a machine that is ahead: edits are seen all the same."""
    await vault.put("system", "one")
    where = file(vault, "system")
    for n, at in enumerate((0, 4_000_000_000, 1_000_000_000)):
        where.write_text(f"edit {n}")
        os.utime(where, (at, at))
        assert (await vault.sync()).pushed == ["system"]
        assert (await vault.sync()).changed == 0
    os.utime(where, (5, 5))  # touched, not edited
    report = await vault.sync()
    assert (report.changed, report.unchanged) == (0, 1)


async def test_ten_thousand_files_are_not_read_each_time(root, size, monkeypatch):
    """Only what has another stamp than before is read."""
    count = size(2_000, 10_000)
    async with open_store("memory://") as store, Vault(root, store) as vault:
        await vault.put("system", "x")
        for n in range(count):
            where = file(vault, f"facts/{n}")
            where.write_text(f"fact {n}")
            os.utime(where, (1_000_000_000, 1_000_000_000))
        # As if the files had been there for a while: a file changed within two seconds of being read is read again.
        monkeypatch.setattr(folder, "_RACY_NS", -1)
        assert len((await vault.sync()).pushed) == count
        read = []
        real = type(vault._folder).read

        def reading(folder, path):
            read.append(path)
            return real(folder, path)

        monkeypatch.setattr(type(vault._folder), "read", reading)
        report = await vault.sync()
        assert (report.changed, report.unchanged, read) == (0, count + 1, [])
        file(vault, "facts/7").write_text("edited")
        assert (await vault.sync()).pushed == ["facts/7"]
        assert set(read) == {"knowledge/facts/7.md"}


async def test_polls_wait_until_a_file_has_come_to_rest(vault):
    """An editor that writes in place is seen in the middle of it; the text is taken when two polls saw the same."""
    await vault.put("system", "before")
    await vault.sync()
    where = file(vault, "system")
    where.write_text("half of")
    report = await vault.poll()
    assert (report.changed, report.pending) == (0, ["system"])
    where.write_text("half of it, and all of it")
    assert (await vault.poll()).pending == ["system"]
    assert (await vault.poll()).pushed == ["system"]
    assert [v.body for v in await vault.versions("system")] == ["before"]


async def test_polls_do_not_take_renaming_for_deletion(vault):
    await vault.put("system", "before")
    where = file(vault, "system")
    where.rename(where.with_name("system.md~"))
    report = await vault.poll()
    assert (report.removed, report.pending) == ([], ["system"])
    where.write_text("saved")
    await vault.poll()
    assert (await vault.poll()).pushed == ["system"]
    where.unlink()
    await vault.poll()
    assert (await vault.poll()).removed == ["system"]


async def test_the_watch_picks_up_edits_and_what_others_wrote(root, store, other):
    vault = Vault(root, store, watch_seconds=0.01)
    await vault.put("system", "before")
    vault.start()
    vault.start()
    assert (await vault.status()).watching
    file(vault, "system").write_text("edited")
    await other.put("facts/x", "from elsewhere")
    async with asyncio.timeout(60):
        while True:
            found = await store.find(Query(collection="configs", ids=("system",)))
            if found[0].text == "edited" and file(vault, "facts/x").exists():
                break
            await asyncio.sleep(0)
    await vault.stop()
    assert not (await vault.status()).watching
    vault.start()
    await vault.close()


async def test_the_status_needs_no_store(vault, store):
    await vault.put("system", "x")
    await vault.put("facts/x", "y")
    await store.close()
    status = await vault.status()
    assert (status.documents, status.unsynced, status.problems) == ({"fact": 1, "system": 1}, [], [])
    assert status.synced_at is not None
    file(vault, "facts/x").unlink()
    file(vault, "world").write_text("new")
    assert (await vault.status()).unsynced == ["facts/x", "world"]
    assert [(each.key, each.synced) for each in await vault.list()] == [("system", True), ("world", False)]
