"""A folder, a state and an environment of each test's own, and a way to call the command in it."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from octavo import Add, Record, Scope, open_store


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("OCTAVO_URL", "OCTAVO_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def octavo():
    """Call the command: `octavo("copy", a, b)` answers click's result."""
    from octavo.cli.commands import octavo as command

    def call(*args, **more):
        return CliRunner().invoke(command, [str(arg) for arg in args], prog_name="octavo", **more)

    return call


@pytest.fixture
def url():
    """An SQLite store with 100 records of two tenants."""

    async def fill():
        records = [
            Record(
                collection="messages",
                id=f"m{n:03}",
                scope=Scope(tenant=("", "acme")[n % 2]),
                text=f"消息 {n}",
            )
            for n in range(100)
        ]
        async with open_store("sqlite:///octavo.db") as store:
            await store.apply([Add(records)])

    asyncio.run(fill())
    return "sqlite:///octavo.db"


@pytest.fixture
def told(octavo):
    """Call a command for programs: the document it prints, of a call that went well."""

    def call(*words, **more):
        done = octavo(*words, "--json", **more)
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        assert (document["ok"], document["command"]) == (True, words[0])
        return document

    return call


@pytest.fixture
def nurse(told):
    """A memory of Lin's."""
    return told("add", "Lin is a nurse", "--user", "lin", "--no-infer", "--category", "career")["memory"]
