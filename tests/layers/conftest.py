"""Layered memories on every store, with a clock that tests hold and an extractor that says what it is told."""

import contextlib
import uuid

import pytest
from layers_kit import Clock, Scripted

from octavo import open_store
from octavo.layers import LayeredMemory
from servers import fresh
from serving import KINDS, url_of


@pytest.fixture(scope="session")
def layers_url(server_url):
    """The address of a database of a kind that the tests of this process share; each has a tenant of its own."""
    with contextlib.ExitStack() as stack:
        urls = {}

        def url(kind):
            if kind not in urls:
                urls[kind] = stack.enter_context(fresh(kind, server_url(kind)))
            return urls[kind]

        yield url


@pytest.fixture(params=KINDS)
async def store(request, tmp_path, layers_url):
    """A store of each kind, which other tests may have written to, for other tenants."""
    async with open_store(url_of(request.param, tmp_path, layers_url)) as opened:
        yield opened


@pytest.fixture(params=KINDS)
async def empty(request, tmp_path, fresh_url):
    """A store of each kind that nobody has written to."""
    async with open_store(url_of(request.param, tmp_path, fresh_url)) as opened:
        yield opened


@pytest.fixture
def tenant():
    return uuid.uuid4().hex


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def scripted():
    return Scripted()


@pytest.fixture
async def memory(store, tenant, clock, scripted):
    """An empty memory of one tenant."""
    async with LayeredMemory(store, tenant=tenant, clock=clock, extractor=scripted) as made:
        yield made
