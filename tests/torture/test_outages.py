"""Databases that really go away, and services that are really killed: what was acknowledged is there once, in order."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from steady import Stream, configured, said, streaming, until

from octavo import Query, Scope, open_store
from octavo.service import MemoryService
from sampled import sampled
from servers import fresh, running

STEADY = Path(__file__).with_name("steady.py")
SERVERS = ("postgres", "mysql")
TIMEOUT = 5.0


async def kept(url: str) -> dict[str, list[str]]:
    """The ids of all events in the database, by session, as its readers get them."""
    found: dict[str, list[str]] = {}
    async with open_store(url) as store:
        for record in await store.find(Query(collection="observations", scope=Scope())):
            found.setdefault(record.scope.session or "", []).append(record.id)
    return found


async def recovered(service: MemoryService) -> None:
    async def empty() -> bool:
        return (await service.aqueue_status()).waiting == 0

    await until(empty)


def assert_all_there(stream: Stream, there: dict[str, list[str]]) -> None:
    assert there == stream.sent  # each once, none missing, in the order they were sent
    assert stream.p99 < TIMEOUT


@pytest.mark.torture
@pytest.mark.timeout(600)
@sampled("kind", SERVERS, share=2)
async def test_an_outage_loses_nothing(kind, tmp_path, size):
    """The database is stopped under 200 events a second and started again; nobody restarts the service."""
    with running(kind, durable=True) as server, fresh(kind, server.url) as url:
        async with MemoryService.from_config(configured(tmp_path, url, TIMEOUT)) as service:
            async with streaming(service) as stream:
                await until(lambda: _answered(stream))
                await asyncio.sleep(1)
                assert {*stream.statuses} == {"stored"}
                await asyncio.to_thread(server.stop)
                before = stream.count
                await asyncio.sleep(size(3, 60))
                assert "stored" not in stream.statuses[before + 100 :]
                await asyncio.to_thread(server.start)
                await until(lambda: _stores_again(stream))
            await recovered(service)
            assert_all_there(stream, await kept(url))


async def _answered(stream: Stream) -> bool:
    return bool(stream.statuses)


async def _stores_again(stream: Stream) -> bool:
    return stream.statuses[-1] == "stored"


@pytest.mark.torture
@pytest.mark.timeout(600)
@sampled("kind", SERVERS[::-1], share=2)
async def test_the_service_starts_before_its_database(kind, tmp_path, size):
    """A service that finds no database queues, and stores by itself once there is one."""
    with running(kind, durable=True) as server, fresh(kind, server.url) as url:
        await asyncio.to_thread(server.stop)
        async with MemoryService.from_config(configured(tmp_path, url, TIMEOUT)) as service:
            async with streaming(service) as stream:
                await asyncio.sleep(size(2, 60))
                assert {*stream.statuses} == {"queued"}
                await asyncio.to_thread(server.start)
                await until(lambda: _stores_again(stream))
            await recovered(service)
            assert_all_there(stream, await kept(url))


@pytest.mark.torture
@pytest.mark.timeout(600)
async def test_a_database_that_hangs(tmp_path, size):
    """The server's process is halted: callers wait no longer than they said, and nothing is lost or doubled."""
    with running("mysql", durable=True) as server, fresh("mysql", server.url) as url:
        async with MemoryService.from_config(configured(tmp_path, url, 2.0)) as service:
            async with streaming(service) as stream:
                await asyncio.sleep(1)
                os.kill(server.pid, signal.SIGSTOP)
                try:
                    await asyncio.sleep(size(4, 60))
                finally:
                    os.kill(server.pid, signal.SIGCONT)
                await until(lambda: _stores_again(stream))
            await recovered(service)
            assert await kept(url) == stream.sent
            assert max(stream.seconds) < 2.0 + 1.0  # the time-out, and a busy machine


@pytest.mark.torture
@pytest.mark.timeout(1200)
@sampled("kind", SERVERS, share=2)
async def test_killed_while_the_database_is_down(kind, tmp_path, size):
    """kill -9 at random moments: after a restart and the database's return every acknowledged event is there once."""
    chance, acknowledged = random.Random(kind), list[str]()
    with running(kind, durable=True) as server, fresh(kind, server.url) as url:
        config = configured(tmp_path, url, TIMEOUT)
        await asyncio.to_thread(server.stop)
        for _ in range(size(4, 50)):
            acknowledged += await _killed_after(config, chance.randint(1, 150), chance.uniform(0, 0.05))
        await asyncio.to_thread(server.start)
        async with MemoryService.from_config(config) as service:
            await service.aappend_event(said("last", 0), "last")
            await recovered(service)
            assert (await service.aqueue_status()).dead == 0
        found = Counter(id_ for ids in (await kept(url)).values() for id_ in ids)
    assert {*acknowledged} <= {*found}
    assert {*found.values()} == {1}


async def _killed_after(config: Path, lines: int, seconds: float) -> list[str]:
    """Let a service write until it has acknowledged so much, and a moment longer; what it had acknowledged when it died."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(STEADY), str(config), "8", stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    heard = [await child.stdout.readline() for _ in range(lines)]
    await asyncio.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    heard += (await child.stdout.read()).splitlines(keepends=True)
    await child.wait()
    return [line.decode().strip() for line in heard if line.endswith(b"\n")]
