"""The servers that other tests stand on."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import pytest
import redis.asyncio

from sampled import sampled
from servers import KINDS, Remote, Shared, Unavailable, binaries, debian, running
from servers.aside import run_aside
from servers.verdict import give_up

TESTS = Path(__file__).parents[1]
each_kind = pytest.mark.parametrize("kind", KINDS)


async def remember(url, value=None):
    """Keep the value, or fetch the one kept before, through the driver that the package uses."""
    parts = urlsplit(url)
    if parts.scheme == "redis":
        async with redis.asyncio.Redis.from_url(url, decode_responses=True) as client:
            return await client.get("note") if value is None else await client.set("note", value)
    if parts.scheme == "postgresql":
        connection = await asyncpg.connect(url)
        try:
            if value is None:
                return await connection.fetchval("SELECT value FROM note")
            return await connection.execute(f"CREATE TABLE note AS SELECT '{value}' AS value")
        finally:
            await connection.close()
    async with (
        asyncmy.connect(
            host=parts.hostname,
            port=parts.port,
            user=parts.username,
            password=parts.password,
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        if value is None:
            await cursor.execute("SELECT value FROM note.note")
            return (await cursor.fetchone())[0]
        await cursor.execute("CREATE DATABASE note")
        return await cursor.execute(f"CREATE TABLE note.note AS SELECT '{value}' AS value")


def listening(url):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urlsplit(url).port)) == 0


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def becomes_true(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@sampled("kind", KINDS, share=2)
def test_private_server(kind):
    """A private server keeps its data and port over a restart, and leaves nothing behind."""
    with running(kind) as server:
        assert run_aside(remember(server.url, "kept")) is not False
        url, pid = server.url, server.pid
        assert alive(pid)

        server.stop()
        assert not server.running
        assert not alive(pid)
        assert not listening(url)

        server.start()
        server.restart()
        assert server.url == url
        assert run_aside(remember(url)) == "kept"
        pid = server.pid

    assert not alive(pid)
    assert not listening(url)
    assert not server.folder.exists()


@sampled("kind", [*KINDS][::-1], share=2)
def test_durable_server_survives_a_crash(kind):
    """What a durable server confirmed is there after it was killed."""
    with running(kind, durable=True) as server:
        run_aside(remember(server.url, "kept"))
        server.kill()
        assert not listening(server.url)
        server.start()
        assert run_aside(remember(server.url)) == "kept"


OWNER = """
import sys, time
from servers import running
with running(sys.argv[1]) as server:
    print(server.pid, server.url, server.folder, flush=True)
    time.sleep(600)
"""


@sampled(
    ("kind", "number"),
    [*((kind, signal.SIGKILL) for kind in KINDS), ("redis", signal.SIGTERM), ("redis", signal.SIGINT)],
    share=2,
)
def test_server_ends_with_its_owner(kind, number):
    """However a test run ends, its servers end and their folders go."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, kind],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as owner:
        pid, url, folder = owner.stdout.readline().split()
        assert listening(url)
        owner.send_signal(number)
    assert becomes_true(lambda: not Path(folder).exists())
    assert not alive(int(pid))
    assert not listening(url)


def test_guard_takes_its_server_along():
    """A guard that is told to end does not leave its server running."""
    with running("redis") as server:
        server._guard.terminate()
        assert becomes_true(lambda: not alive(server.pid))


def test_workers_share_one_server(monkeypatch):
    """Workers that ask at the same moment get the same server, started once."""
    monkeypatch.delenv("OCTAVO_TEST_REDIS", raising=False)
    shared = Shared()
    try:
        port = shared.listen()
        with ThreadPoolExecutor(8) as workers:
            urls = set(workers.map(lambda _: Remote(port).url("redis"), range(8)))
        assert len(urls) == 1
        assert len(shared._servers) == 1
        url = urls.pop()
        assert listening(url)
    finally:
        shared.close()
    assert not listening(url)


@each_kind
def test_fresh_databases(kind, fresh_url):
    """Two databases of one test do not see each other."""
    first, second = fresh_url(kind), fresh_url(kind)
    assert first != second
    KINDS[kind].ping(first)
    KINDS[kind].ping(second)


async def test_fresh_database_is_dropped_under_open_connections(postgres_url, mysql_url):
    """A test that failed with a transaction open does not block the next one."""
    with KINDS["postgres"].fresh(postgres_url) as url:
        left_open = await asyncpg.connect(url)
        await left_open.execute("BEGIN; CREATE TABLE t (a INT)")
    left_open.terminate()

    with KINDS["mysql"].fresh(mysql_url) as url:
        parts = urlsplit(url)
        left_open = await asyncmy.connect(
            host=parts.hostname,
            port=parts.port,
            user=parts.username,
            password=parts.password,
            db=parts.path[1:],
        )
        async with left_open.cursor() as cursor:
            await cursor.execute("CREATE TABLE t (a INT)")
            await cursor.execute("INSERT INTO t VALUES (1)")
    left_open.close()


def test_fresh_redis_leaves_data_alone():
    """On a Redis that was lent to us, a database with data in it is never handed out."""
    with running("redis") as server:
        filled = [f"{server.url[:-1]}{number}" for number in range(1, 5)]
        for url in filled:
            run_aside(remember(url, "mine"))
        for _ in range(2):
            with KINDS["redis"].fresh(server.url) as url:
                assert url not in filled
        for url in filled:
            assert run_aside(remember(url)) == "mine"


@each_kind
def test_missing_server(kind, monkeypatch):
    """A server that cannot be had fails the test in CI and is a skip with its reason elsewhere."""
    monkeypatch.setattr(binaries, "search", lambda *names: None)
    monkeypatch.setattr(debian, "install_servers", lambda: "no network")
    with pytest.raises(Unavailable, match="not found: no network") as missing, running(kind):
        pass
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no network"):
        give_up(missing.value)
    monkeypatch.setenv("CI", "false")
    with pytest.raises(pytest.skip.Exception, match="no network"):
        give_up(missing.value)


@sampled(("ci", "code", "workers"), [("1", 1, ["-n", "1"]), ("", 0, [])], share=2)
def test_missing_server_is_loud(ci, code, workers, tmp_path):
    """A whole run names what it could not test, and in CI it does not pass."""
    (tmp_path / "test_it.py").write_text("def test_it(fresh_redis):\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", *workers, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS), "CI": ci, "OCTAVO_TEST_REDIS": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "NOT TESTED, no server: OCTAVO_TEST_REDIS is set but nothing answers there" in done.stdout


def test_server_that_cannot_start_says_why(monkeypatch):
    """A server that ends at once is reported with the last words of its log."""
    monkeypatch.setattr(KINDS["redis"], "command", lambda self: [str(self.redis_server), "--port", "none"])
    with pytest.raises(Unavailable, match="redis ended while starting") as failed, running("redis"):
        pass
    assert 'port "none"' in str(failed.value)


def test_installation_keeps_services_off(monkeypatch, tmp_path):
    """While packages are installed a policy refuses their services; one that was there before is kept."""
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(debian, "POLICY", policy)
    with debian._services_stay_off():
        assert subprocess.run([policy], check=False).returncode == 101
    assert not policy.exists()
    policy.write_text("theirs")
    with debian._services_stay_off():
        assert policy.read_text() == "theirs"
    assert policy.read_text() == "theirs"
