"""Stored text never steers the reader's terminal: no command sends a control character of it, in words or in JSON."""

import asyncio
import contextlib
import json
import re
import shutil
from pathlib import Path

import apsw
import click
import pytest

from octavo import Add, Record, Scope, open_store
from octavo.cli.commands import octavo as root
from octavo.config import Database, FailureQueue, Settings
from octavo.keys import Keys
from octavo.layers import LayeredMemory
from octavo.service.vault import Vault
from octavo.wraps.journal import Spool, Waiting

URL = "sqlite:///octavo.db"
#: A title for the window, a screen cleared with C1's own CSI, DEL, and text that runs backwards.
NASTY = "<\x1b]0;t\x07\x9b2J\x7f\u202e\r>"
OURS = re.compile(r"\x1b\[[0-9;]*m")  # colours that the command itself gives
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
CONTROLS_IN_JSON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

STORE = ("--store", URL)
VAULT = ("--root", "vault", *STORE)
QUEUE = ("--dir", "queue")
TENANT = ("--tenant", NASTY)
#: Every command, as it shows what is stored; those that show nothing of it say why.
CALLS = {
    ("copy",): [(URL, "sqlite:///other.db")],
    ("export",): [(URL, "out.jsonl"), (URL,)],
    ("import",): [("bad.jsonl", "sqlite:///other.db", "--on-error", "skip"), ("bad.jsonl", "sqlite:///other.db")],
    ("doctor",): [(URL,)],
    ("stores",): [()],
    ("reindex",): [(URL,), (URL, "--verify")],
    ("queue", "status"): [QUEUE],
    ("queue", "list"): [QUEUE, (*QUEUE, "--waiting"), (*QUEUE, NASTY)],
    ("queue", "replay"): [(*QUEUE, NASTY), (*QUEUE, "--all", *STORE)],
    ("queue", "discard"): [(*QUEUE, "--yes", NASTY)],
    ("vault", "status"): [VAULT],
    ("vault", "list"): [VAULT, (*VAULT, "--versions", f"users/{NASTY}"), (*VAULT, NASTY)],
    ("vault", "sync"): [VAULT],
    ("vault", "reindex"): [VAULT],
    ("events", "list"): [STORE],
    ("events", "tail"): [STORE],
    ("events", "search"): [("nasty", *STORE)],
    ("events", "stats"): [STORE, (*STORE, "--agent", NASTY)],
    ("events", "prune"): [("--older-than", "1d", *STORE, "--agent", NASTY)],
    ("events", "migrate"): [(URL, "sqlite:///other.db"), (f"{NASTY}:x", URL)],
    ("add",): [("hi " + NASTY, "--user", NASTY, "--no-infer", *STORE), (f"我喜欢{NASTY}咖啡", "--user", "u", *STORE)],
    ("search",): [("nasty", "--everyone", *STORE), (NASTY, "--user", NASTY, *STORE)],
    ("context",): [("nasty", "--user", "u", *STORE), (NASTY, "--agent", NASTY, "--session", NASTY, *STORE)],
    ("list",): [("--user", "u", *STORE), ("--user", NASTY, *STORE, *TENANT)],
    ("show",): [("MEMORY", *STORE), (NASTY, *STORE), (NASTY, *STORE, *TENANT)],
    ("history",): [("--user", "u", *STORE), (NASTY, "--user", "u", *STORE)],
    ("delete",): [("MEMORY", "--user", "u", "--yes", *STORE), (NASTY, "--yes", *STORE), ("MEMORY", *STORE)],
    ("undo",): [("LOG", *STORE), (NASTY, *STORE)],
    ("allow",): [(NASTY, *STORE), ("MEMORY", "--user", NASTY, *STORE)],
    ("forget",): [("--user", NASTY, "--dry-run", *STORE), ("--user", NASTY, "--yes", *STORE), (*STORE, "--scrub")],
    ("prune",): [STORE],
    ("keys", "create"): [(NASTY, *STORE)],
    ("keys", "list"): [STORE, (*STORE, *TENANT)],
    ("keys", "revoke"): [("KEY", *STORE), (NASTY, *STORE)],
    ("bench", "recall"): [],  # shows figures; what it writes to a store is removed again
    ("mcp",): [],  # speaks a protocol of JSON lines: tests/mcp/test_mcp_stdio.py
    ("serve",): [],  # its log is lines of JSON: tests/server/test_server_logs.py
    ("completion",): [],  # prints a script
}  # fmt: skip


def leaves(command=root, path=()):
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves(each, (*path, name))
    else:
        yield path


def test_every_command_is_here():
    assert set(CALLS) == set(leaves())


async def fill():
    here = Scope(agent=NASTY, session=NASTY)
    async with open_store(URL) as store:
        event = {"data": {"message": f"nasty {NASTY}", NASTY: [NASTY]}, "metadata": {NASTY: NASTY}}
        records = [
            Record(collection="events", id=NASTY, kind="user_message", scope=here, **event),
            Record(collection="events", id=f"2{NASTY}", kind=NASTY, scope=here, **event),
            Record(collection="messages", id=NASTY, kind=NASTY, scope=Scope(tenant=NASTY), text=NASTY, marks=[NASTY]),
        ]  # fmt: skip
        await store.apply([Add(records)])
        key = await Keys(store).create(NASTY, access="read", tenant=NASTY)
        async with Vault("vault", store) as vault:
            await vault.put(f"users/{NASTY}", f"one {NASTY}\nanother line")
            await vault.put(f"users/{NASTY}", f"two {NASTY}")
            await vault.put(f"facts/{NASTY}", NASTY)
            await vault.sync()
    Path("vault/md/users/other.md").write_text(NASTY)  # waits to be synced
    Path("vault/md", f"{NASTY}.md").mkdir()  # is a problem
    settings = Settings(database=Database(dsn=URL), failure_queue=FailureQueue(enabled=False))
    async with LayeredMemory.from_settings(settings) as memory:
        kept = await memory.remember(f"nasty {NASTY}", user_id="u", reason=NASTY, metadata={NASTY: NASTY})
        log = (await memory.logs(kept.id, user_id="u"))[0]
    return {"MEMORY": kept.id, "LOG": log.id, "KEY": key.info.id}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    with contextlib.chdir(folder):
        return folder, make()


@pytest.fixture
def named(filled):
    """The ids of what is stored in the working directory."""
    folder, named = filled
    shutil.copytree(folder, ".", dirs_exist_ok=True)
    return named


def make():
    named = asyncio.run(fill())
    # A term that is missing, for reindex --verify to name the record.
    with apsw.Connection("octavo.db") as raw:
        for table in ("agent_events", "messages"):
            if raw.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (f"{table}_terms",)).fetchall():
                raw.execute(f"DELETE FROM {table}_terms")
    record = Record(collection="messages", id=NASTY, text=NASTY)
    entries = [Waiting(id=f"{n}{NASTY}", ops=[Add([record])]) for n in range(2)] + [
        Waiting(id=NASTY, ops=[Add([record])])
    ]
    with Spool("queue") as spool:
        spool.put(entries)
        spool.head(3)
        spool.bury([NASTY], f"refused {NASTY}")
        spool.note_attempt(entries[0].id, f"down {NASTY}")
    Path("bad.jsonl").write_text(
        f"{json.dumps({'collection': NASTY, 'id': NASTY}, ensure_ascii=False)}\n{NASTY}\n"
    )
    return named


@pytest.mark.parametrize("path", [path for path, calls in CALLS.items() if calls], ids=" ".join)
@pytest.mark.parametrize("way", ["words", "json", "debug"])
def test_no_command_sends_a_control_character_of_stored_text(octavo, named, path, way):
    for call in CALLS[path]:
        args = [named.get(word, word) for word in call]
        more = {"words": (), "json": ("--json",), "debug": ("--debug",)}[way]
        # Without colours click takes out some of what it would send to a terminal.
        told = octavo(*path, *args, *more, color=True)
        assert told.exception is None or isinstance(told.exception, SystemExit), told.exception
        as_json = way == "json" or (*path, *call) == ("export", URL)  # to stdout, which is lines of JSON
        found = (CONTROLS_IN_JSON if as_json else CONTROLS).findall(OURS.sub("", told.stdout))
        assert not found, (path, args, told.stdout)
        assert not CONTROLS.findall(OURS.sub("", told.stderr)), (path, args, told.stderr)
        if way == "json" and told.stdout:
            for document in _documents(told.stdout):
                json.loads(document)


def _documents(said):
    """One document, or one a line."""
    try:
        json.loads(said)
    except ValueError:
        return said.splitlines()
    return [said]


def test_what_is_shown_is_recognised(octavo, named):
    """A control character is shown as Python spells it, and JSON gives back what was stored."""
    shown = r"<\x1b]0;t\x07\x9b2J\x7f\u202e\r>"
    assert shown in octavo("keys", "list", *STORE).stdout
    assert shown in octavo("vault", "list", *VAULT).stdout
    assert shown in octavo("events", "stats", *STORE).stdout
    versions = octavo("vault", "list", *VAULT, "--versions", f"users/{NASTY}").stdout
    assert f"one {shown}\nanother line\n" in versions
    told = octavo("keys", "list", *STORE, "--json").stdout
    assert [key["name"] for key in json.loads(told)["keys"]] == [NASTY]
    assert r"\u009b2J\u007f" in told
