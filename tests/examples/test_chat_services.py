"""examples/chat_*_service.py: many requests at once over HTTP, none lost, and every connection back in its pool."""

import asyncio
import importlib.util
import socket
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
import redis.asyncio as aio
import uvicorn
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from octavo.chat import AsyncSQLAlchemyMemory, RedisMemory
from sampled import FULL

EXAMPLES = Path(__file__).parents[2] / "examples"
#: More than there are connections.
REQUESTS = 200 if FULL else 80
USERS = 10
DRIVERS = {"postgres": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}


def loaded(name, setting, url, monkeypatch):
    """The example as the module it is, with its address in the environment."""
    monkeypatch.setenv(setting, url)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def served(app):
    """A client of the app behind a real uvicorn on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        limits = httpx.Limits(max_connections=REQUESTS)
        try:
            async with httpx.AsyncClient(base_url=address, limits=limits, timeout=120) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


async def asked_by_many(client, path):
    """Everybody's turns at once: 8 of each of 10 users, or 20 at full length, half in one session and half in another."""

    async def turn(number):
        given = {
            "user_id": f"user {number % USERS}",
            "session_id": f"session {number // USERS % 2}",
            "input": f"<{number}> 你好",
        }
        return given, await client.post(path, params=given)

    answers = await asyncio.gather(*(turn(number) for number in range(REQUESTS)))
    assert Counter(answer.status_code for _, answer in answers) == {200: REQUESTS}
    for given, answer in answers:
        assert answer.json()["reply"].endswith(f"the last: {given['input']}")
    return answers


async def is_kept(answers, memory_of):
    """Each session holds what its user said in it and what was answered, and nothing else."""
    for session in range(2):
        for user in range(USERS):
            asked = {"user_id": f"user {user}", "session_id": f"session {session}"}
            mine = [(given, answer.json()) for given, answer in answers if asked.items() <= given.items()]
            kept = await memory_of(**asked).get_memory()
            assert len(mine) == REQUESTS // USERS // 2
            assert sorted(m.get_text_content() for m in kept if m.role == "user") == sorted(
                given["input"] for given, _ in mine
            )
            assert {m.id for m in kept if m.role == "assistant"} == {said["id"] for _, said in mine}


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
async def test_sqlalchemy(kind, tmp_path, fresh_url, monkeypatch):
    """At most 30 connections are out at once, all come back, and what was answered is committed."""
    url = f"sqlite+aiosqlite:///{tmp_path}/chat.db?timeout=60"
    if kind != "sqlite":
        url = urlunsplit(urlsplit(fresh_url(kind))._replace(scheme=DRIVERS[kind]))
    example = loaded("chat_sqlalchemy_service", "CHAT_DATABASE", url, monkeypatch)
    out = [0]
    event.listen(
        example.engine.sync_engine, "checkout", lambda *_: out.append(example.engine.pool.checkedout())
    )
    async with served(example.app) as client:
        answers = await asked_by_many(client, "/chat")
        assert example.engine.pool.checkedout() == 0
    assert 1 < max(out) <= 30
    engine = create_async_engine(url)
    try:
        await is_kept(answers, lambda **asked: AsyncSQLAlchemyMemory(engine, **asked))
    finally:
        await engine.dispose()


async def test_a_request_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """What an agent remembered before it failed is taken back with the transaction, and the connection returns."""
    url = f"sqlite+aiosqlite:///{tmp_path}/chat.db"
    example = loaded("chat_sqlalchemy_service", "CHAT_DATABASE", url, monkeypatch)
    asked = {"user_id": "lin", "session_id": "s", "input": "hello"}
    working = example.agent

    async def failing(memory, said):
        await working(memory, said)
        raise ValueError("no answer")

    async with served(example.app) as client:
        assert (await client.post("/chat", params=asked)).status_code == 200
        example.agent = failing
        assert (await client.post("/chat", params=asked)).status_code == 500
        assert (await client.post("/chat", params={"user_id": "lin"})).status_code == 422
        example.agent = working
        answer = await client.post("/chat", params=asked)
        assert answer.json()["reply"] == "I have heard 2 from you, the last: hello"
        assert example.engine.pool.checkedout() == 0


@pytest.mark.torture
async def test_redis(fresh_redis, monkeypatch):
    """The pool's 10 connections are enough, none stays out, and none is left when the service ends."""
    example = loaded("chat_redis_service", "CHAT_REDIS", fresh_redis, monkeypatch)
    async with served(example.app) as client:
        answers = await asked_by_many(client, "/chat_endpoint")
        pool = example.redis_pool
        assert pool._in_use_connections == set()
        assert 1 < len(pool._available_connections) <= 10
    assert example.redis_pool is None
    assert not any(connection.is_connected for connection in pool._available_connections)
    own = aio.ConnectionPool.from_url(fresh_redis)
    try:
        await is_kept(answers, lambda **asked: RedisMemory(connection_pool=own, **asked))
    finally:
        await own.disconnect()
