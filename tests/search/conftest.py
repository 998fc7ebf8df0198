"""Recall is tested on every store: one database for each kind and run, one tenant for each test."""

from contextlib import ExitStack
from functools import cache

import pytest

from memories import KINDS
from octavo import Scope, new_id, open_store
from servers import fresh


@pytest.fixture(scope="session")
def database(server_url, tmp_path_factory):
    """`database(kind)`: the URL of a database of this kind that all tests of recall share."""
    with ExitStack() as stack:

        @cache
        def url(kind: str) -> str:
            if kind == "memory":
                return "memory://"
            if kind == "file":
                return f"file://{tmp_path_factory.mktemp('recall')}/records"
            if kind == "sqlite":
                return f"sqlite:///{tmp_path_factory.mktemp('recall')}/records.db?durability=fast"
            return stack.enter_context(fresh(kind, server_url(kind)))

        yield url


@pytest.fixture(params=KINDS)
async def store(request, database):
    """An open store of each kind in turn."""
    async with open_store(database(request.param)) as opened:
        yield opened


@pytest.fixture
def home() -> Scope:
    """A scope nobody else uses."""
    return Scope(tenant=new_id())


@pytest.fixture
async def in_memory():
    """A store for what does not depend on the store."""
    async with open_store("memory://") as opened:
        yield opened
