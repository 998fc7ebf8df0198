"""One order for every command: the option, then the environment, then the file, then the default."""

import asyncio
import json
import shutil
from pathlib import Path

import click
import pytest

from octavo import Add, Record, Scope, open_store
from octavo.cli.commands import import_commands

root = import_commands()

#: Every command that reads settings, with the words that make it read and with the way its store is named.
READING = {
    ("export",): ("{}", "-"),
    ("import",): ("in.jsonl", "{}"),
    ("doctor",): ("{}",),
    ("reindex",): ("{}",),
    ("queue", "status"): (),
    ("queue", "list"): (),
    ("queue", "replay"): ("--all", "--store", "{}"),
    ("queue", "discard"): ("--all", "--yes"),
    ("vault", "status"): ("--store", "{}"),
    ("vault", "list"): ("--store", "{}"),
    ("vault", "sync"): ("--store", "{}"),
    ("vault", "reindex"): ("--store", "{}"),
    ("events", "list"): ("--store", "{}"),
    ("events", "tail"): ("--store", "{}"),
    ("events", "search"): ("hello", "--agent", "a", "--store", "{}"),
    ("events", "stats"): ("--store", "{}"),
    ("events", "prune"): ("--older-than", "1d", "--store", "{}"),
    ("copy",): ("memory://", "--store", "{}"),
    ("add",): ("tea", "--store", "{}"),
    ("search",): ("tea", "--store", "{}"),
    ("context",): ("tea", "--store", "{}"),
    ("list",): ("--store", "{}"),
    ("show",): ("m1", "--store", "{}"),
    ("history",): ("--store", "{}"),
    ("undo",): ("l1", "--store", "{}"),
    ("delete",): ("m1", "--yes", "--store", "{}"),
    ("allow",): ("m1", "--store", "{}"),
    ("forget",): ("--user", "lin", "--dry-run", "--store", "{}"),
    ("prune",): ("--store", "{}"),
    ("keys", "create"): ("name", "--store", "{}"),
    ("keys", "list"): ("--store", "{}"),
    ("keys", "revoke"): ("k1", "--store", "{}"),
}
UNREAD = {("stores",), ("events", "migrate"), ("bench", "recall"), ("completion",)}
RUNS = {("serve",), ("mcp",)}  # tests/server/test_serve_command.py and tests/mcp/test_mcp_stdio.py start them
EMBEDDED = {path: words for path, words in READING.items() if "{}" in words}
reading = pytest.mark.parametrize("path", READING, ids=" ".join)
storing = pytest.mark.parametrize("path", EMBEDDED, ids=" ".join)


def leaves(command=root, path=()):
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves(each, (*path, name))
    else:
        yield path, command


def test_every_command_that_reads_settings_is_here_and_takes_config_and_verbose():
    commands = dict(leaves())
    assert set(commands) == {*READING, *UNREAD, *RUNS}
    for path, command in commands.items():
        options = {option for each in command.params for option in each.opts}
        reads = path not in UNREAD
        assert ({"--config", "--verbose"} <= options) is reads, path


def make(url):
    async def fill():
        async with open_store(url) as store:
            hello = Record(
                collection="events", id="e1", kind="user_message", scope=Scope(agent="a", session="s"), data={"m": "hello"}
            )  # fmt: skip
            await store.apply([Add([hello])])

    asyncio.run(fill())


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "store.db"
    make(f"sqlite:///{path}")
    return path


@pytest.fixture
def places(template):
    """Where everything but a store is."""
    Path("in.jsonl").write_text('{"collection":"messages","id":"m"}\n')
    for folder in ("config", "octavo_queue", "octavo_vault"):
        Path(folder).mkdir()
    return template


def decided(octavo, path, words, url, whence):
    """Run it where only the right store is: any other would be refused, or made."""
    told = octavo(*path, *words, "--verbose")
    assert told.exit_code in (0, 1), told.output  # 1 is nothing found
    assert f"octavo: database.dsn is {url} ({whence})\n" in told.stderr
    assert [each.name for each in Path().glob("*.db")] == [url.removeprefix("sqlite:///")]


def named(words, url):
    """The words that name a store by an option; without one there is no such option either."""
    if url is None:
        at = words.index("{}")
        return words[: at - (words[at - 1] == "--store")] + words[at + 1 :]
    return tuple(word.format(url) for word in words)


@storing
def test_the_option_wins(octavo, monkeypatch, places, path):
    shutil.copy(places, "option.db")
    Path("config/memory.yaml").write_text("database: {dsn: 'sqlite:///file.db'}")
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///environment.db")
    words = named(EMBEDDED[path], "sqlite:///option.db")
    whence = "--store" if "--store" in words else "URL"
    decided(octavo, path, words, "sqlite:///option.db", whence)


@storing
@pytest.mark.parametrize("variable", ["OCTAVO_URL", "OCTAVO__DATABASE__DSN"])
def test_then_the_environment(octavo, monkeypatch, places, path, variable):
    shutil.copy(places, "environment.db")
    Path("config/memory.yaml").write_text("database: {dsn: 'sqlite:///file.db'}")
    monkeypatch.setenv(variable, "sqlite:///environment.db")
    decided(octavo, path, named(EMBEDDED[path], None), "sqlite:///environment.db", variable)


@storing
@pytest.mark.parametrize("given", [False, True], ids=["found", "--config"])
def test_then_the_file(octavo, places, path, given):
    shutil.copy(places, "file.db")
    file = "mine.yaml" if given else "config/memory.yaml"
    Path(file).write_text("database:\n  dsn: sqlite:///file.db\n")
    more = ("--config", file) if given else ()
    decided(octavo, path, (*named(EMBEDDED[path], None), *more), "sqlite:///file.db", f"{file}, line 2")


@storing
def test_then_the_default(octavo, places, path):
    shutil.copy(places, "octavo.db")
    decided(octavo, path, named(EMBEDDED[path], None), "sqlite:///octavo.db", "the default")


@reading
def test_two_variables_that_differ_are_refused(octavo, monkeypatch, places, path):
    words = named(READING[path], None) if path in EMBEDDED else READING[path]
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///one.db")
    monkeypatch.setenv("OCTAVO__DATABASE__DSN", "sqlite:///two.db")
    told = octavo(*path, *words)
    assert told.exit_code == 2
    assert "OCTAVO_URL and OCTAVO__DATABASE__DSN name different stores" in told.stderr
    assert not list(Path().glob("*.db"))


def test_two_variables_that_agree_are_one(octavo, monkeypatch, places):
    shutil.copy(places, "one.db")
    for name in ("OCTAVO_URL", "OCTAVO__DATABASE__DSN"):
        monkeypatch.setenv(name, "sqlite:///one.db")
    assert octavo("doctor").exit_code == 0


@pytest.mark.parametrize("setting", ["failure_queue.directory", "vault.root_path"])
def test_so_do_folders(octavo, monkeypatch, setting):
    """--dir and --root before the environment, that before the file, that before the default."""
    section, _, key = setting.partition(".")
    group, option = ("queue", "--dir") if section == "failure_queue" else ("vault", "--root")
    default = "octavo_queue" if group == "queue" else "octavo_vault"
    for folder in ("option", "environment", "file", "config", default):
        Path(folder).mkdir()
    variable = f"OCTAVO__{section}__{key}".upper()
    Path("config/memory.yaml").write_text(f"{section}:\n  {key}: file\n")
    monkeypatch.setenv(variable, "environment")

    def said(*words):
        told = octavo(group, "status", *words, "--verbose")
        assert told.exit_code == 0
        return told.stdout.splitlines()[0], [
            line for line in told.stderr.splitlines() if f"octavo: {setting} is" in line
        ]

    assert said(option, "option") == ("option", [f"octavo: {setting} is option ({option})"])
    assert said() == ("environment", [f"octavo: {setting} is environment ({variable})"])
    monkeypatch.delenv(variable)
    assert said() == ("file", [f"octavo: {setting} is file (config/memory.yaml, line 2)"])
    Path("config/memory.yaml").unlink()
    assert said()[0] == default


def test_verbose_tells_no_password(octavo, monkeypatch):
    monkeypatch.setenv("OCTAVO_URL", "postgresql://me:hunter2@127.0.0.1:1/none")
    monkeypatch.setenv("OCTAVO__EXTRACTION__API_KEY", "sk-hunter2")
    told = octavo("list", "--user", "u", "--verbose")
    assert "octavo: database.dsn is postgresql://me:…@127.0.0.1:1/none (OCTAVO_URL)" in told.stderr
    assert "octavo: extraction.api_key is … (OCTAVO__EXTRACTION__API_KEY)" in told.stderr
    assert "hunter2" not in told.output


def test_a_clone_carries_no_active_settings():
    """Or whoever works in it would have a file that decides without having written one."""
    assert not (Path(__file__).parents[2] / "config" / "memory.yaml").exists()


@storing
def test_the_help_says_the_default(octavo, path):
    """Of every command that has one: `octavo queue replay` brings nothing to a store that nobody named."""
    told = " ".join(octavo(*path, "--help").stdout.split())
    assert ("settings, or sqlite:///octavo.db" in told) is (path != ("queue", "replay"))


def test_what_named_a_store_that_is_none_is_told(octavo, monkeypatch):
    """An option, a variable or a line of the settings: whoever reads the error knows where to look."""
    told = octavo("list", "--store", "wat://x", "--json")
    assert told.stderr.startswith("octavo: --store: unknown store scheme 'wat'; known: ")
    assert json.loads(told.stdout)["kind"] == "ConfigError"
    Path("config").mkdir()
    Path("config/memory.yaml").write_text("database:\n  dsn: wat://x\n")
    assert octavo("list").stderr.startswith("octavo: config/memory.yaml, line 2: unknown store scheme 'wat'")
    monkeypatch.setenv("OCTAVO_URL", "wat://x")
    assert octavo("list").stderr.startswith("octavo: OCTAVO_URL: unknown store scheme 'wat'")
