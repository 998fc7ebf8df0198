"""What tests of the memory service share: stores of every kind, observations, and a store that misbehaves when told to."""

import asyncio
import contextlib
import functools
import itertools
import json

import pytest

from octavo import StoreUnavailable, open_store
from octavo.config import Database, FailureQueue, Service, Settings, Vault
from octavo.importers.sources import ImportSource, open_reader
from octavo.importers.values import DefaultOwner, bring
from octavo.service import MemoryService, MessagePayload, Observation, ObservationType
from octavo.wraps import Wrap

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
LASTING = KINDS[1:]
SETTLED = 60  # seconds, after which a test fails rather than hang

_paths = itertools.count()


def url_of(kind, folder, fresh_url):
    """The URL of an empty store of that kind."""
    if kind in {"postgres", "mysql", "redis"}:
        return fresh_url(kind)
    path = folder / f"store{next(_paths)}"
    return {"memory": "memory://", "file": f"file://{path}", "sqlite": f"sqlite:///{path}.db"}[kind]


def said(text, session="dm:alice", **more):
    """Somebody says this."""
    return Observation(
        ObservationType.MESSAGE,
        MessagePayload(text=text),
        source_name="cli",
        session_key=session,
        actor="alice",
        **more,
    )


def texts(events):
    """What was said, in the order of the events."""
    return [event.payload["text"] for event in events]


async def bring_same_id(url, folder, *users):
    """Something of each of these users (m0 and m1) under the id "1", as an import of what they had elsewhere brings it."""
    source = folder / "mem0.json"
    source.write_text(
        json.dumps([{"id": "1", "memory": f"{u} sews", "user_id": u} for u in users or ("m0", "m1")])
    )
    read = functools.partial(open_reader("mem0"), ImportSource.parse(str(source), "mem0"), DefaultOwner())
    async with open_store(url) as store:
        await bring(read, store, "run")


class Faulty(Wrap):
    """A store in front of another: "up", "down" (refuses), "hangs" (answers nothing), "late" (commits, then fails)."""

    def __init__(self, store=None, mode="up"):
        super().__init__(store or open_store("memory://"))
        self.mode = mode
        self.calls = 0
        self.poison = None  # whose text never goes in, and why

    async def _meet(self):
        self.calls += 1
        if self.mode == "down":
            raise StoreUnavailable("connection refused")
        while self.mode == "hangs":
            await asyncio.sleep(0.25)
            if self.mode != "hangs":
                raise StoreUnavailable("connection reset")  # as a server that was started again does

    async def __aenter__(self):
        await self._meet()
        await self.inner.__aenter__()
        return self

    async def apply(self, ops):
        await self._meet()
        if self.poison is not None:
            self.poison(ops)
        counts = await self.inner.apply(ops)
        if self.mode == "late":
            raise StoreUnavailable("the connection was lost after the commit")
        return counts

    async def find(self, query):
        await self._meet()
        return await self.inner.find(query)

    async def tally(self, query):
        await self._meet()
        return await self.inner.tally(query)


@pytest.fixture(params=KINDS)
def store_url(request, tmp_path):
    """The URL of an empty store, one kind after the other."""
    return url_of(request.param, tmp_path, request.getfixturevalue("fresh_url"))


@pytest.fixture
def faulty(monkeypatch):
    """Every store that is opened stands behind a switch: `faulty[-1].mode = "down"` takes the last one away.

    `faulty.first` is how the next one begins.
    """
    opened = _Opened()

    def opening(url):
        opened.append(Faulty(open_store(url), opened.first))
        return opened[-1]

    monkeypatch.setattr("octavo.assemble.open_store", opening)
    return opened


class _Opened(list):
    first = "up"


@pytest.fixture
def serve(tmp_path):
    """`serve(url, queue={…}, …)` is a running service with its files in the test's folder, closed after it."""
    with contextlib.ExitStack() as stack:

        def served(url, *, queue=None, vault=None, **service):
            settings = Settings(
                database=Database(dsn=url),
                vault=Vault(**{"root_path": str(tmp_path / "vault"), **(vault or {})}),
                failure_queue=FailureQueue(
                    **{"directory": str(tmp_path / "queue"), "backoff_min_seconds": 0.001, **(queue or {})}
                ),
                service=Service(**service),
            )
            return stack.enter_context(MemoryService.from_settings(settings))

        yield served
