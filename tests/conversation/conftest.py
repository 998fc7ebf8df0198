"""Histories of every kind, each of which can be opened a second time."""

import contextlib
import uuid

import pytest

from octavo.conversation import (
    ChatMessageHistory,
    FileChatMessageHistory,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
)
from servers import fresh

STORES = ("store-memory", "store-file", "store-sqlite", "store-postgres", "store-mysql", "store-redis")
#: What another process can open again.
LASTING = ("file", "redis", *STORES[1:])


@pytest.fixture(scope="session")
def conversation_url(server_url):
    """The address of a database of a kind that the tests of this process share; each has a session of its own."""
    with contextlib.ExitStack() as stack:
        urls = {}

        def url(kind):
            if kind not in urls:
                urls[kind] = stack.enter_context(fresh(kind, server_url(kind)))
            return urls[kind]

        yield url


class Histories:
    """One backend, and as many histories of one conversation on it as are asked for."""

    def __init__(self, kind, tmp_path, conversation_url):
        self.kind = kind
        self.session = uuid.uuid4().hex
        self._tmp_path = tmp_path
        self._url = conversation_url
        self._opened = []
        self._one = None

    def open(self):
        """The history, opened once more; the ones that do not last are the same object."""
        if self.kind in ("memory", "store-memory") and self._one is not None:
            return self._one
        self._one = self._made()
        self._opened.append(self._one)
        return self._one

    def address(self):
        """The arguments with which another process opens it."""
        if self.kind == "file":
            return [str(self._tmp_path / "talks" / "one.json")]
        if self.kind == "redis":
            return [self.session, self._url("redis")]
        kind = self.kind.removeprefix("store-")
        local = {
            "memory": "memory://",
            "file": f"file://{self._tmp_path}/kept",
            "sqlite": f"sqlite:///{self._tmp_path}/kept.db",
        }
        return [local.get(kind) or self._url(kind), self.session]

    def _made(self):
        if self.kind == "memory":
            return ChatMessageHistory()
        made = {"file": FileChatMessageHistory, "redis": RedisChatMessageHistory}
        return made.get(self.kind, StoreChatMessageHistory)(*self.address())

    def close(self):
        for history in self._opened:
            history.close()


@pytest.fixture(params=("memory", "file", "redis", *STORES))
def histories(request, tmp_path, conversation_url):
    made = Histories(request.param, tmp_path, conversation_url)
    yield made
    made.close()


@pytest.fixture
def history(histories):
    return histories.open()


@pytest.fixture(params=LASTING)
def lasting(request, tmp_path, conversation_url):
    made = Histories(request.param, tmp_path, conversation_url)
    yield made
    made.close()
