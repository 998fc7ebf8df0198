"""What Octavo keeps on disk is its account's alone, whatever the umask; a setting shares it with the group; `doctor` tells."""

import asyncio
import json
import os
import stat
import subprocess
import textwrap
from pathlib import Path

import pytest

from warm import programs

pytestmark = pytest.mark.every_store

#: Makes everything that Octavo keeps on disk, in the working directory.
MAKES = """
import asyncio, json, os
from pathlib import Path

from octavo import Add, Query, Record, Remove, Scope, open_store, open_vectors
from octavo.transfer import export
from octavo.assemble import assemble
from octavo.config import load_settings
from octavo.conversation import FileChatMessageHistory

from octavo.kernel.ports import Entry
from octavo.service.vault import Vault
from octavo.wraps.journal import Spool, Waiting

def record(n, text="hello"):
    return Record(collection="messages", id=f"m{n}", scope=Scope(session=f"s{n}"), text=text)

async def made():
    for folder in ("data", "data/out"):  # a caller's own
        os.path.isdir(folder) or os.mkdir(folder, 0o700)
    assemble(load_settings())  # a setting of the environment counts from here on
    for url in ("sqlite:///data/deep/octavo.db", "file://data/files?rotate_bytes=2000&sync=fsync", "file://data/json?format=json"):
        async with open_store(url) as store:
            for n in range(4):
                await store.apply([Add([record(n % 2, "x" * 900), record(n)])])
                await store.apply([Remove(Query(collection="messages", scope=Scope(session="s0")))])
            if url.startswith("sqlite"):
                seen.update(look("data/deep"))  # -wal and -shm go with the last connection
                await export(store, Path("data/out/memory.jsonl.gz"), resume=Path("data/out/state.jsonl"))
            async with Vault("data/vault", store) as vault:
                await vault.put("users/lin", "Likes cats.")
                await vault.put("facts/sky", "Blue.")
                await vault.sync()
    async with open_vectors("sqlite:///data/vectors.db") as index:
        await index.put("model", [Entry(collection="messages", id="m", scope=Scope(), digest="d", vector=[1.0, 2.0])])
        seen.update(look("data"))
    with Spool("data/queue", max_file_bytes=200) as spool:
        entries = [Waiting(ops=[Add([record(n)])]) for n in range(9)]
        spool.put(entries)
        spool.head(9)
        spool.bury([entries[0].id], "refused")
        spool.bury([entries[1].id], "refused")
        spool.dead.discard([entries[0].id])
    history = FileChatMessageHistory("data/chat/history.json")
    history.add_user_message("hello")
    history.add_ai_message("hi")

def look(folder):
    return {str(path): path.stat().st_mode & 0o777 for path in Path(folder).rglob("*")}

seen = {}
asyncio.run(made())
print(json.dumps(seen | look("data") | {"data": Path("data").stat().st_mode & 0o777}))
"""


def made(folder, umask, **environ):
    """Every path with its mode."""
    done = subprocess.run(
        [f"{programs()}/python", "-c", textwrap.dedent(MAKES)], cwd=folder, umask=umask, capture_output=True, text=True,
        check=False, timeout=120, env={**os.environ, **environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kinds(modes, folder):
    files = {f"{mode:04o}" for path, mode in modes.items() if not (folder / path).is_dir()}
    folders = {f"{mode:04o}" for path, mode in modes.items() if (folder / path).is_dir()}
    return files, folders


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_what_is_new_is_private_whatever_the_umask(tmp_path, umask):
    """Databases with their -wal and -shm, files, archives, locks, vaults, queues, exports, histories, vectors."""
    modes = made(tmp_path, umask)
    names = {Path(path).name for path in modes}
    assert {"octavo.db", "octavo.db-wal", "octavo.db-shm", "vectors.db", "vectors.db-wal", "history.json", "metadata.json",
            "memory.jsonl.gz", "failed_events.jsonl", "failed_events.dead.jsonl", "lin.md", ".octavo.lock", "index.db"} <= names  # fmt: skip
    odd = {path: f"{mode:04o}" for path, mode in modes.items() if mode not in (0o600, 0o700)}
    assert not odd
    assert kinds(modes, tmp_path) == ({"0600"}, {"0700"})


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_setting_shares_it_with_the_group(tmp_path, umask):
    (tmp_path / "data").mkdir(0o770)
    (tmp_path / "data").chmod(0o770)
    modes = made(tmp_path, umask, OCTAVO__FILES__GROUP_ACCESS="true")
    out = {str(path) for path in (Path("data"), Path("data/out"))}  # made before the setting was read
    modes = {path: mode for path, mode in modes.items() if path not in out}
    assert kinds(modes, tmp_path) == ({"0660"}, {"0770"})


def test_it_is_never_there_with_more_rights(tmp_path, monkeypatch):
    """Whoever opened it in that moment would keep it open."""
    from octavo.util.disk import make_folder, open_file

    old = os.umask(0)
    asked = []
    opened, mkdir = os.open, os.mkdir
    monkeypatch.setattr(os, "open", lambda path, flags, mode=0o777, **more: asked.append(mode if flags & os.O_CREAT else 0) or opened(path, flags, mode, **more))  # fmt: skip
    monkeypatch.setattr(
        os, "mkdir", lambda path, mode=0o777, **more: asked.append(mode) or mkdir(path, mode, **more)
    )
    try:
        make_folder(tmp_path / "a" / "b")
        os.close(open_file(tmp_path / "a" / "b" / "c", os.O_WRONLY))
    finally:
        os.umask(old)
    assert not [mode for mode in asked if mode & 0o077]


def test_existing_files_keep_their_mode(tmp_path):
    """Also those that are written anew and put in the place of the old."""
    made(tmp_path, 0o022)
    paths = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal"))]  # fmt: skip
    for path in paths:
        path.chmod(0o640)
    made(tmp_path, 0o022)
    for name in (
        "octavo.db",
        "vectors.db",
        "lin.md",
        "metadata.json",
        "history.json",
        "memory.jsonl.gz",
        "index.db",
    ):
        [path] = [path for path in paths if path.name == name and "json" not in path.parts]
        assert stat.S_IMODE(path.stat().st_mode) == 0o640, path
    # A queue's file is given another name when it has grown, and begun anew.
    kept = [path for path in paths if path.suffix in (".jsonl", ".json") and path.exists()]
    kept = [path for path in kept if path.name != "failed_events.jsonl"]
    assert len(kept) > 3
    assert not {str(path) for path in kept if stat.S_IMODE(path.stat().st_mode) != 0o640}


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_doctor_warns_of_what_others_can_read(tmp_path, monkeypatch, kind):
    from octavo import Add, Record, open_store

    place = tmp_path / ("octavo.db" if kind == "sqlite" else "files")
    url = f"sqlite:///{place}" if kind == "sqlite" else f"file://{place}"

    def told():
        async def look():
            async with open_store(url) as store:
                await store.apply([Add([Record(collection="messages", id="m")])])
                return {each.name: (each.value, each.warning) for each in await store.describe()}

        return asyncio.run(look())["access"]

    mode = "0600" if kind == "sqlite" else "0700"
    assert told() == (f"{mode}: this account", "")
    place.chmod(0o644 if kind == "sqlite" else 0o755)
    assert told()[1] == ""  # the folders above keep others out
    monkeypatch.setattr("octavo.util.disk._is_reachable", lambda path: True)
    value, warning = told()
    assert value.endswith("every account of this machine")
    assert warning == f"others can read what is kept; chmod -R o= {place}*"
    place.chmod(0o660 if kind == "sqlite" else 0o770)
    assert told() == (f"{'0660' if kind == 'sqlite' else '0770'}: this account and its group", "")


def test_doctor_warns_of_a_queue_and_a_vault_that_others_can_read(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from octavo.cli.commands import octavo

    monkeypatch.chdir(tmp_path)
    for name, mode in (("octavo_queue", 0o755), ("octavo_vault", 0o700)):
        Path(name).mkdir()
        Path(name).chmod(mode)
    monkeypatch.setattr("octavo.util.disk._is_reachable", lambda path: True)
    told = json.loads(CliRunner().invoke(octavo, ["doctor", "memory://", "--json"]).stdout)
    found = {each["name"]: (each["value"], each["warning"]) for each in told["findings"]}
    assert found["vault"] == ("octavo_vault, 0700: this account", "")
    warning = "others can read what is kept; chmod -R o= octavo_queue*"
    assert found["queue"] == ("octavo_queue, 0755: every account of this machine", warning)
