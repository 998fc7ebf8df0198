"""`octavo serve` on a database that holds another program's tables of the same names: refused before anybody is served."""

import asyncio
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from octavo import open_store
from octavo.stores.sql.statements import Do, Fetch
from running_server import octavo_serves
from servers import fresh, running
from warm import programs

LISTED = {
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
    "postgres": "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1",
}


@pytest.fixture(params=LISTED)
def place(request, tmp_path, fresh_url):
    """Where another program could have its tables: which kind of database, and its address."""
    kind = request.param
    return kind, f"sqlite:///{tmp_path}/theirs.db" if kind == "sqlite" else fresh_url(kind)


def sqlite_told(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(one).fetchall() for one in statements]


async def _server_told(url, *statements):
    async with open_store(url) as store, store._driver.connection() as connection:
        answers = []
        for one in statements:
            select = one.startswith("SELECT")
            rows = await store._driver.send(connection, Fetch(one) if select else Do(one))
            answers.append([tuple(row) for row in rows] if select else [])
        return answers


def told(url, *statements):
    """What the database answers to each."""
    if url.startswith("sqlite"):
        return sqlite_told(url.removeprefix("sqlite:///"), *statements)
    return asyncio.run(_server_told(url, *statements))


def serve(url, folder, *options):
    """What `octavo serve` comes to, when it ends by itself."""
    command = [f"{programs()}/octavo", "serve", "--store", url, "--port", "0", *options]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO")}
    return subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("place", "table"),
    [("sqlite", "events"), ("sqlite", "profile_memories"), ("postgres", "events"), ("mysql", "memory_logs")],
    indirect=["place"],
)
def test_it_is_refused_with_the_cure_and_nothing_is_changed(place, tmp_path, table):
    """The exit status is not 0, the table and the cure are named, and the database is as it was."""
    kind, url = place
    told(url, f"CREATE TABLE {table} (id INTEGER)", f"INSERT INTO {table} VALUES (7)")
    before = told(url, LISTED[kind], f"SELECT id FROM {table}")
    file = Path(url.removeprefix("sqlite:///")).read_bytes() if kind == "sqlite" else b""
    ended = serve(url, tmp_path)
    assert ended.returncode != 0
    for word in (table, "another database", "schema", "?prefix="):
        assert word in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "listens on" not in ended.stdout
    assert told(url, LISTED[kind], f"SELECT id FROM {table}") == before == [[(table,)], [(7,)]]
    if kind == "sqlite":
        assert Path(url.removeprefix("sqlite:///")).read_bytes() == file


def test_with_a_prefix_it_serves_beside_them(place, tmp_path):
    """The cure works, and so do tables of other names."""
    kind, url = place
    told(url, "CREATE TABLE events (id INTEGER)", "CREATE TABLE messages (id INTEGER)")
    with octavo_serves(f"{url}?prefix=octavo_", tmp_path):
        pass
    names = [row[0] for row in told(url, LISTED[kind])[0]]
    assert {"events", "messages"} <= set(names)
    told(url, "DROP TABLE events")
    with octavo_serves(url, tmp_path):  # the server has no use for a table of messages
        pass


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
def test_it_starts_while_the_database_is_down(kind, tmp_path):
    """A database that is merely away is waited for, and writes are queued."""
    with running(kind) as server, fresh(kind, server.url) as url:
        server.stop()
        with octavo_serves(url, tmp_path):
            pass
        server.start()
