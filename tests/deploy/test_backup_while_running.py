"""docs/backup-and-restore.md, the databases' own ways, while writers are at work: what was acknowledged before is there, nothing is half there.

Each write is one transaction over two tables, so that a backup that is not of one moment would hold one half of some.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from urllib.parse import urlsplit

import pytest
import redis

from octavo import Add, Query, Record, Scope, open_store, walk
from servers import KINDS
from servers.binaries import locate
from warm import programs

WRITERS = 4
PAUSE = 0.02  # seconds between two writes of one: an export reads on until nothing newer is there
ALREADY = 2000  # pairs that are there before, so that a backup takes some time
LONG = 240  # seconds, after which a test fails rather than hang


async def run(*command, **env):
    """A program, while this loop goes on; it must end well."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), env={**os.environ, **env}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(LONG):
        told, _ = await process.communicate()
    assert process.returncode == 0, f"{command}: {told.decode()[-2000:]}"


def pair(name):
    """One write: a message and an event of the same name."""
    here = Scope(user="lin", session="backup")
    return [
        Add([Record(collection=collection, id=name, kind="user", scope=here, text=f"number {name}")])
        for collection in ("messages", "events")
    ]


@contextlib.asynccontextmanager
async def writing(url):
    """Writers at work until the block ends; the names of what was acknowledged, which grow meanwhile."""
    async with open_store(url) as store:
        names = [f"before-{number}" for number in range(ALREADY)]
        for start in range(0, ALREADY, 500):
            await store.apply([op for name in names[start : start + 500] for op in pair(name)])
        acknowledged, ending = set(names), asyncio.Event()

        async def write(writer):
            number = 0
            while not ending.is_set():
                await store.apply(pair(f"{writer}-{number}"))
                acknowledged.add(f"{writer}-{number}")
                number += 1
                await asyncio.sleep(PAUSE)

        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(write(writer))
            try:
                yield acknowledged
            finally:
                ending.set()


async def back_up(url, backup):
    """What was acknowledged when the backup began; writes were acknowledged while it ran."""
    async with writing(url) as acknowledged:
        while len(acknowledged) < ALREADY + 5 * WRITERS:
            await asyncio.sleep(0.01)
        for _ in range(50):  # one that takes some milliseconds may run while nobody writes
            before = set(acknowledged)
            await backup()
            if len(acknowledged) > len(before):
                return before
    raise AssertionError("nobody wrote while the backup ran")


async def restored(url):
    """The names in each of the two collections of a store, which takes writes and answers questions as any other."""
    async with open_store(url) as store:
        found = [
            {record.id async for page in walk(store, Query(collection=name)) for record in page}
            for name in ("messages", "events")
        ]
        await store.apply(pair("afterwards"))
        for name in ("before-1999", "afterwards"):
            [hit] = await store.find(Query(collection="messages", text=f"number {name}"))
            assert hit.id == name
    return found


async def check_whole(before, url):
    messages, events = await restored(url)
    assert before - messages == set(), "lost, though acknowledged before the backup began"
    assert messages ^ events == set(), "half of a write"


async def test_sqlite_by_vacuum(tmp_path):
    code = (
        f"import apsw; apsw.Connection('{tmp_path}/octavo.db').execute(\"VACUUM INTO '{tmp_path}/copy.db'\")"
    )
    before = await back_up(f"sqlite:///{tmp_path}/octavo.db", lambda: run(sys.executable, "-c", code))
    await check_whole(before, f"sqlite:///{tmp_path}/copy.db")


async def test_sqlite_by_its_command(tmp_path):
    program = locate("sqlite3", package="sqlite3")
    before = await back_up(
        f"sqlite:///{tmp_path}/octavo.db",
        lambda: run(program, tmp_path / "octavo.db", f".backup {tmp_path}/copy.db"),
    )
    await check_whole(before, f"sqlite:///{tmp_path}/copy.db")


async def test_postgres_by_pg_dump(tmp_path, fresh_url):
    url, empty, dump = fresh_url("postgres"), fresh_url("postgres"), tmp_path / "octavo.dump"
    before = await back_up(url, lambda: run(locate("pg_dump"), "--format=custom", f"--file={dump}", url))
    await run(locate("pg_restore"), "--exit-on-error", f"--dbname={empty}", dump)
    await check_whole(before, empty)


def mysql_options(url):
    there = urlsplit(url)
    return [
        "--no-defaults",
        f"--host={there.hostname}",
        f"--port={there.port}",
        f"--user={there.username}",
    ], there


async def test_mysql_by_dump(tmp_path, fresh_url):
    url, empty, dump = fresh_url("mysql"), fresh_url("mysql"), tmp_path / "octavo.sql"
    options, there = mysql_options(url)
    program = locate("mariadb-dump", "mysqldump")
    command = [program, *options, "--single-transaction", f"--result-file={dump}", there.path.strip("/")]
    before = await back_up(url, lambda: run(*command, MYSQL_PWD=there.password))
    options, there = mysql_options(empty)
    await run(
        locate("mariadb", "mysql"), *options, f"--execute=source {dump}", there.path.strip("/"),
        MYSQL_PWD=there.password,
    )  # fmt: skip
    await check_whole(before, empty)


async def test_redis_by_its_snapshot(request):
    """BGSAVE, and the file that it makes given to another server."""
    if request.config.getoption("--quick"):
        pytest.skip("--quick starts no redis")
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(contextlib.closing(KINDS["redis"]())) for _ in range(2))
        await asyncio.to_thread(first.start)
        client = stack.enter_context(contextlib.closing(redis.Redis.from_url(first.url, socket_timeout=LONG)))

        async def save():
            client.bgsave()
            async with asyncio.timeout(LONG):
                while client.info("persistence")["rdb_bgsave_in_progress"]:
                    await asyncio.sleep(0.01)
            assert client.info("persistence")["rdb_last_bgsave_status"] == "ok"
            shutil.copy(first.folder / "dump.rdb", second.folder / "dump.rdb")

        before = await back_up(first.url, save)
        (second.folder / "dump.rdb").chmod(0o644)  # the folder is closed already, and the server is not us
        await asyncio.to_thread(second.start)
        await check_whole(before, second.url)


async def test_files_by_copy(tmp_path):
    """Each file is of another moment: what was acknowledged is there, and of what was just being written one half may be."""
    folder, copy = tmp_path / "files", tmp_path / "copy"
    program = locate("rsync", package="rsync")
    before = await back_up(
        f"file://{folder}", lambda: run(program, "--archive", "--exclude=.octavo", f"{folder}/", copy)
    )
    messages, events = await restored(f"file://{copy}")
    assert before - messages == before - events == set()


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgres", "mysql", "redis"])
async def test_export(kind, tmp_path, fresh_url):
    """On every store; record by record, so that of what is written meanwhile one half may be there."""
    urls = [
        {"sqlite": f"sqlite:///{tmp_path}/{name}.db", "file": f"file://{tmp_path}/{name}"}.get(kind) or fresh_url(kind)
        for name in ("octavo", "restored")
    ]  # fmt: skip
    backup = tmp_path / "backup.jsonl.gz"
    before = await back_up(urls[0], lambda: run(f"{programs()}/octavo", "export", urls[0], backup))
    await run(f"{programs()}/octavo", "import", backup, urls[1])
    messages, events = await restored(urls[1])
    assert before - messages == before - events == set()
