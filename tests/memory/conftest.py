"""The front door on every store; each test has a tenant of its own."""

import contextlib
import uuid

import pytest

from octavo import AsyncMemory, open_store
from servers import fresh
from serving import KINDS, url_of


@pytest.fixture(scope="session")
def door_url(server_url):
    """The address of a database of a kind that the tests of this process share."""
    with contextlib.ExitStack() as stack:
        urls = {}

        def url(kind):
            if kind not in urls:
                urls[kind] = stack.enter_context(fresh(kind, server_url(kind)))
            return urls[kind]

        yield url


@pytest.fixture(params=KINDS)
async def store(request, tmp_path, door_url):
    """A store of each kind, which other tests may have written to, for other tenants."""
    async with open_store(url_of(request.param, tmp_path, door_url)) as opened:
        yield opened


@pytest.fixture
def tenant():
    return uuid.uuid4().hex


@pytest.fixture
async def memory(store, tenant):
    """An empty memory of one tenant."""
    async with AsyncMemory(store, tenant=tenant) as opened:
        yield opened
