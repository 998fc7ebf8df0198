"""What else is in a folder: editors' leftovers, links, pipes, folders, bytes that are no text. None of it is lost or believed."""

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from octavo import StoreError
from octavo.service.vault import Vault, folder

LEFTOVERS = [
    ".system.md.swp", ".#system.md", "#system.md#", "system.md~", "system.md.bak", "system.md.tmp", "~$system.md", ".octavo-1.tmp",
    "system.MD.swp", "notes.txt", ".git", "4913",
]  # fmt: skip


async def test_leftovers_of_editors_are_no_documents(vault):
    await vault.put("system", "text")
    for name in LEFTOVERS:
        (vault.root / "md" / name).write_text("half a thought")
    report = await vault.sync()
    assert (report.changed, report.problems) == (0, [])
    assert [each.key for each in await vault.list()] == ["system"]


async def test_an_editor_that_writes_beside_and_renames(vault):
    await vault.put("system", "text")
    beside = vault.root / "md" / ".system.md.new"
    beside.write_text("saved")
    beside.rename(vault.root / "md" / "system.md")
    assert (await vault.sync()).pushed == ["system"]


async def test_a_document_beside_the_folders_is_named(vault):
    await vault.put("system", "text")
    (vault.root / "README.md").write_text("what this folder is for")
    assert (await vault.sync()).problems == []
    (vault.root / "notes.md").write_text("dropped at the top")
    await problem(vault, "notes.md", "md/ or knowledge/")


async def problem(vault, path, word):
    """The sync that leaves one thing alone, and says why."""
    report = await vault.sync()
    [found] = report.problems
    assert found.path == path
    assert word in found.reason
    assert (await vault.status()).problems == [found]
    return report


@pytest.mark.parametrize(
    "how", ["folder", "pipe", "latin", "nul", "large", "outside", "dangling", "unreadable"]
)
async def test_what_cannot_be_a_document_is_left_alone(vault, other, tmp_path, monkeypatch, how):
    """It is named, it is neither deleted nor taken for a deletion, and all others are synced."""
    await vault.put("system", "text")
    await vault.put("world", "text")
    await other.sync()
    await other.put("system", "changed elsewhere")
    await other.put("world", "changed elsewhere")
    where = vault.root / "md" / "system.md"
    where.unlink()
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    word = {"folder": "folder", "pipe": "regular", "latin": "UTF-8", "nul": "NUL", "large": "bytes", "outside": "link out",
            "dangling": "link to nothing", "unreadable": "Permission"}[how]  # fmt: skip
    if how == "folder":
        where.mkdir()
        (where / "inside.md").write_text("x")
    elif how == "pipe":
        os.mkfifo(where)
    elif how == "outside":
        where.symlink_to(secret)
    elif how == "dangling":
        where.symlink_to(vault.root / "md" / "nothing.md")
    elif how == "large":
        with where.open("wb") as opened:
            opened.truncate(17 * 2**20)
    else:
        where.write_bytes({"latin": b"caf\xe9", "nul": b"a\0b"}.get(how, b"x"))
    if how == "unreadable":  # whoever runs the tests may read everything
        real = os.open

        def refuse(path, *args, **kwargs):
            if str(path).endswith("vault/md/system.md"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *args, **kwargs)

        monkeypatch.setattr(os, "open", refuse)
    report = await vault.sync()
    assert [found.path for found in report.problems] == ["md/system.md"]
    assert word in report.problems[0].reason
    assert (report.pulled, report.removed, report.pushed) == (["world"], [], [])
    assert os.path.lexists(where)
    assert secret.read_text() == "secret"
    with pytest.raises(StoreError, match="system"):
        await vault.get("system")
    with pytest.raises(StoreError, match="system"):
        await vault.put("system", "put")
    assert (await other.sync()).removed == []
    assert (await other.get("system")).body == "changed elsewhere"
    monkeypatch.undo()
    if where.is_dir():
        (where / "inside.md").unlink()
        where.rmdir()
    else:
        where.unlink()
    where.write_text("mended")
    assert (await vault.sync()).conflicts == ["system"]


async def test_a_name_that_is_not_utf8(vault):
    await vault.put("system", "text")
    os.close(os.open(os.fsencode(vault.root / "md" / "users") + b"/\xff.md", os.O_CREAT | os.O_WRONLY))
    await problem(vault, "md/users/?.md", "not UTF-8")


async def test_documents_in_the_wrong_place(vault):
    await vault.put("system", "text")
    (vault.root / "knowledge" / "loose.md").write_text("x")
    await problem(vault, "knowledge/loose.md", "experiences/ or facts/")


async def test_a_folder_that_is_a_link_is_not_followed(vault, tmp_path):
    await vault.put("users/alice", "text")
    outside = tmp_path / "outside"
    (vault.root / "md" / "users").rename(outside)
    (outside / "bob.md").write_text("x")
    (vault.root / "md" / "users").symlink_to(outside)
    report = await problem(vault, "md/users", "not followed")
    assert (report.removed, report.pushed, (await vault.status()).unsynced) == ([], [], [])
    for key in ("users/alice", "users/bob"):
        with pytest.raises(StoreError, match="link"):
            await vault.get(key)
        with pytest.raises(StoreError, match="link"):
            await vault.put(key, "y")
    assert (outside / "alice.md").read_text() == "text"


async def test_a_tree_that_is_a_link_is_not_touched(vault, tmp_path):
    await vault.put("system", "text")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "world.md").write_text("theirs")
    (vault.root / "md").rename(tmp_path / "aside")
    (vault.root / "md").symlink_to(outside)
    report = await problem(vault, "md", "not followed")
    assert (report.changed, report.pending) == (0, [])
    with pytest.raises(StoreError, match="link"):
        await vault.put("system", "x")
    assert [path.name for path in outside.iterdir()] == ["world.md"]
    assert (outside / "world.md").read_text() == "theirs"


async def test_a_loop_of_links_ends(vault):
    await vault.put("facts/x", "text")
    (vault.root / "knowledge" / "facts" / "loop").symlink_to(vault.root / "knowledge")
    await problem(vault, "knowledge/facts/loop", "not followed")


async def test_a_link_inside_the_vault_is_followed(vault):
    """One text under two keys; writing through the link keeps it a link."""
    await vault.put("facts/x", "text")
    link = vault.root / "md" / "world.md"
    link.symlink_to("../knowledge/facts/x.md")
    assert (await vault.sync()).pushed == ["world"]
    await vault.put("world", "both")
    assert link.is_symlink()
    assert (await vault.get("facts/x")).body == "both"


async def test_a_root_that_is_a_link_is_fine(tmp_path, store):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    async with Vault(tmp_path / "link", store) as vault:
        await vault.put("users/alice", "text")
        report = await vault.sync()
        assert (report.problems, report.unchanged) == ([], 1)
        assert (tmp_path / "real" / "md" / "users" / "alice.md").read_text() == "text"


async def test_two_files_with_one_key(vault):
    """Names typed by hand may mean the same: one of them is the document, and the other is named."""
    await vault.put("facts/a?", "ours")
    (vault.root / "knowledge" / "facts" / "a?.md").write_text("by hand")
    report = await problem(vault, "knowledge/facts/a?.md", "same document")
    assert report.changed == 0
    (vault.root / "knowledge" / "facts" / "a%3F.md").unlink()
    assert (await vault.sync()).pushed == ["facts/a?"]
    assert (await vault.get("facts/a?")).body == "by hand"
    await vault.put("facts/a?", "put")
    assert (vault.root / "knowledge" / "facts" / "a?.md").read_text() == "put"


async def test_folders_of_ones_own(vault):
    (vault.root / "knowledge" / "facts" / "physics").mkdir(parents=True)
    (vault.root / "knowledge" / "facts" / "physics" / "gravity.md").write_text("down")
    assert (await vault.sync()).pushed == ["facts/physics/gravity"]
    assert [each.key for each in await vault.list("facts/physics")] == ["facts/physics/gravity"]


async def test_a_file_where_a_folder_is_needed(vault):
    await vault.put("system", "x")
    (vault.root / "md" / "users" / "team").write_text("a file without a suffix")
    with pytest.raises(StoreError, match="something else has that name"):
        await vault.put("users/team/alice", "x")
    assert (await vault.get("system")).body == "x"


async def test_modes_and_leftovers(vault):
    """A replaced file keeps its mode; nothing half-written stays behind, and an old leftover of a killed process goes."""
    await vault.put("system", "x")
    where = vault.root / "md" / "system.md"
    where.chmod(0o640)
    await vault.put("system", "y")
    assert stat.S_IMODE(where.stat().st_mode) == 0o640
    old, new = vault.root / "md" / ".octavo-old.tmp", vault.root / "md" / ".octavo-new.tmp"
    for leftover in (old, new):
        leftover.write_text("half")
    os.utime(old, (1, 1))
    await vault.sync()
    assert not old.exists()
    assert new.exists()  # somebody may be writing it
    new.unlink()
    assert list(vault.root.rglob("*.tmp")) == []


async def test_a_full_disk(vault, monkeypatch):
    """The caller learns it with the cure, the old text stays whole, and nothing is left behind."""
    await vault.put("system", "old")
    real = os.fsync

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="make room"):
        await vault.put("system", "new")
    monkeypatch.setattr(os, "fsync", real)
    assert (await vault.get("system")).body == "old"
    assert list(vault.root.rglob("*.tmp")) == []
    assert (await vault.put("system", "new")).body == "new"


async def test_somebody_saves_in_the_same_moment(vault, monkeypatch):
    """The text saved between our reading and our renaming is not written over: it is read, kept and then replaced."""
    await vault.put("system", "one")
    where = vault.root / "md" / "system.md"
    real, saved = os.fsync, []

    def saving(fd):
        if not saved:
            saved.append(True)
            where.write_text("saved by a person")
        return real(fd)

    monkeypatch.setattr(os, "fsync", saving)
    document = await vault.put("system", "two")
    assert saved
    assert document.body == where.read_text() == "two"
    assert {v.body for v in await vault.versions("system")} == {"one", "saved by a person"}


def save_when_swapped(monkeypatch, save):
    """Have a person save in the last moment there is: when our file is about to take the place of theirs."""
    real, saved = folder.swap_files, []

    def swap(staged, target):
        if not saved:
            saved.append(target)
            save(Path(target))
        return real(staged, target)

    monkeypatch.setattr(folder, "swap_files", swap)
    return saved


def save_beside(target):
    beside = target.with_name("beside~")
    beside.write_text("saved by a person")
    beside.replace(target)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two files in one step")
@pytest.mark.parametrize("save", [lambda target: target.write_text("saved by a person"), save_beside])
async def test_somebody_saves_in_the_last_moment(vault, monkeypatch, save):
    """Between the last look at a file and its replacement: the edit is seen, kept as a version and then replaced."""
    await vault.put("system", "one")
    saved = save_when_swapped(monkeypatch, save)
    document = await vault.put("system", "two")
    assert saved
    assert document.body == (vault.root / "md" / "system.md").read_text() == "two"
    assert {v.body for v in await vault.versions("system")} == {"one", "saved by a person"}
    assert list(vault.root.rglob("*.tmp")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two files in one step")
async def test_an_editor_goes_on_writing_in_the_file_that_was_put_back(vault, monkeypatch):
    """Emptied in the last moment, and written after we looked: no other file stands in its place meanwhile."""
    await vault.put("system", "one")
    opened = []
    save_when_swapped(monkeypatch, lambda target: opened.append(target.open("w")))

    async def write_soon():
        while not opened:
            await asyncio.sleep(0.001)
        opened[0].write("saved by a person")
        opened[0].close()

    writing = asyncio.create_task(write_soon())
    await vault.put("system", "two")
    await writing
    texts = {v.body for v in await vault.versions("system")} | {(await vault.get("system")).body}
    assert "saved by a person" in texts


async def test_a_file_that_is_being_saved_is_waited_for(vault):
    """An editor empties a file and then writes it: the empty one is nobody's text."""
    await vault.put("system", "one")
    where = vault.root / "md" / "system.md"
    editor = where.open("w")
    putting = asyncio.create_task(vault.put("system", "two"))
    await asyncio.sleep(folder.SAVING_SECONDS / 4)
    editor.write("saved by a person")
    editor.close()
    assert (await putting).body == where.read_text() == "two"
    assert {v.body for v in await vault.versions("system")} == {"one", "saved by a person"}


async def test_somebody_saves_what_is_being_removed(vault, monkeypatch):
    """What was saved in the last moment before a removal is a version, like every text that gives way."""
    await vault.put("system", "one")
    where = vault.root / "md" / "system.md"
    real, saved = folder._take_away, []

    def take(target, found):
        if not saved:
            saved.append(target)
            where.write_text("saved by a person")
        real(target, found)

    monkeypatch.setattr(folder, "_take_away", take)
    assert await vault.remove("system")
    assert saved
    assert not where.exists()
    assert {v.body for v in await vault.versions("system")} == {"one", "saved by a person"}


async def test_a_file_made_in_the_same_moment_is_not_written_over(vault, monkeypatch):
    """A put of a document that had no file until then."""
    real = folder._put_in_place

    def put_in_place(staged, target, found):
        if not target.exists():
            target.write_text("saved by a person")
        real(staged, target, found)

    monkeypatch.setattr(folder, "_put_in_place", put_in_place)
    assert (await vault.put("facts/new", "two")).body == "two"
    assert {v.body for v in await vault.versions("facts/new")} == {"saved by a person"}
