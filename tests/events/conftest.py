"""Every documented store, empty, by the name of its kind."""

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from octavo import (
    FileMemoryStore,
    InMemoryMemoryStore,
    MySQLMemoryStore,
    PostgreSQLMemoryStore,
    RedisMemoryStore,
    SQLiteMemoryStore,
)

KINDS = ("memory", "file", "file-json", "file-single", "sqlite", "mysql", "postgres", "redis")


def server_config(url: str) -> dict:
    """The config that names the database at this address, under the documented keys."""
    parts = urlsplit(url)
    config = {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
    }
    if parts.scheme == "redis":
        return {**config, "db": int(parts.path.strip("/") or 0), **dict(parse_qsl(parts.query))}
    return {**config, "database": unquote(parts.path.strip("/"))}


@pytest.fixture
def named(tmp_path, fresh_url):
    """`named(kind, **more)`: the documented store of a kind; called again with the same kind, the same place."""
    urls: dict[str, str] = {}

    def make(kind, **more):
        if kind in ("mysql", "postgres", "redis"):
            if kind not in urls:
                urls[kind] = fresh_url(kind)
            store = {
                "mysql": MySQLMemoryStore,
                "postgres": PostgreSQLMemoryStore,
                "redis": RedisMemoryStore,
            }[kind]
            return store(config={**server_config(urls[kind]), **more})
        if kind == "memory":
            return InMemoryMemoryStore(config=more or None)
        if kind == "sqlite":
            return SQLiteMemoryStore(config={"db_path": str(tmp_path / "memory.db"), **more})
        layout = {
            "file": {},
            "file-json": {"format": "json"},
            "file-single": {"file_per_session": False},
        }[kind]
        return FileMemoryStore(config={"base_path": tmp_path / "agent_memory", **layout, **more})

    return make


@pytest.fixture(params=KINDS)
async def store(request, named):
    async with named(request.param) as opened:
        yield opened
