"""Servers that really listen, on stores of every kind, and keys for them."""

import asyncio
import contextlib
import threading
import time

import httpx
import pytest
import uvicorn

from octavo import open_store
from octavo.config import Database, FailureQueue, Server, Service, Settings
from octavo.keys import Keys
from octavo.server import create_app
from octavo.server.running import bind

KINDS = ("sqlite", "postgres", "mysql")
STARTED = 30  # seconds after which a test fails rather than wait


class Running:
    """An application behind uvicorn, in a thread of its own; `url` is where it listens."""

    def __init__(self, settings, **more):
        self.settings = settings
        self.app = create_app(settings, **more)
        self._sock = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._sock.getsockname()[1]}"
        config = uvicorn.Config(
            self.app,
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._sock],))

    def __enter__(self):
        self._thread.start()
        ends = time.monotonic() + STARTED
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            assert time.monotonic() < ends, "the server did not start in time"
            time.sleep(0.01)
        return self

    def __exit__(self, *exc):
        self._server.should_exit = True
        self._thread.join()

    def client(self, key=None, **more):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=STARTED, trust_env=False, **more)


@pytest.fixture
def settings_of(tmp_path):
    """`settings_of(url, auth="on", …)`: settings with all files in the test's folder; other words are of the section server."""

    def made(url, *, queue=None, service=None, **server):
        return Settings(
            database=Database(dsn=url),
            failure_queue=FailureQueue(
                **{"directory": str(tmp_path / "queue"), "backoff_min_seconds": 0.01, **(queue or {})}
            ),
            service=Service(**(service or {})),
            server=Server(**server),
        )

    return made


@pytest.fixture
def store_url(tmp_path, request):
    """`store_url(kind)`: an empty store."""
    return lambda kind: (
        f"sqlite:///{tmp_path / 'octavo.db'}"
        if kind == "sqlite"
        else request.getfixturevalue("fresh_url")(kind)
    )


@pytest.fixture
def serving():
    """`serving(settings)` is a running server, stopped after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda settings, **more: stack.enter_context(Running(settings, **more))


@pytest.fixture(params=KINDS)
def client(request, store_url, settings_of, serving):
    """A client of a server without keys, on one kind of store after the other."""
    with serving(settings_of(store_url(request.param))).client() as client:
        yield client


@pytest.fixture
def sqlite_server(store_url, settings_of, serving):
    """`sqlite_server(auth="on")`: a server on SQLite."""
    return lambda **server: serving(settings_of(store_url("sqlite"), **server))


@pytest.fixture
def new_key():
    """`new_key(url, access, tenant)`: a key as `octavo keys create` makes it."""

    def made(url, access="admin", tenant="", **more):
        async def create():
            async with open_store(url) as store:
                return await Keys(store).create(f"{access} of {tenant}", access=access, tenant=tenant, **more)

        return asyncio.run(create())

    return made
