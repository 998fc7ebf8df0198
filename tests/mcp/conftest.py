"""MCP servers in process, over a memory on every store; each test has a tenant of its own."""

import contextlib
import uuid

import pytest

from mcp import Client
from octavo import AsyncMemory, open_store
from octavo.mcp import ToolCaller
from octavo.mcp.server import new_server
from servers import fresh
from serving import KINDS, url_of


@pytest.fixture(scope="session")
def shared_url(server_url):
    """The address of a database of a kind that the tests of this process share."""
    with contextlib.ExitStack() as stack:
        urls = {}

        def url(kind):
            if kind not in urls:
                urls[kind] = stack.enter_context(fresh(kind, server_url(kind)))
            return urls[kind]

        yield url


@pytest.fixture(params=KINDS)
async def store(request, tmp_path, shared_url):
    """A store of each kind, which other tests may have written to, for other tenants."""
    async with open_store(url_of(request.param, tmp_path, shared_url)) as opened:
        yield opened


@pytest.fixture
async def memory(store):
    """An empty memory of one tenant."""
    async with AsyncMemory(store, tenant=uuid.uuid4().hex) as opened:
        yield opened


@pytest.fixture
async def quick_memory():
    """An empty memory in this process, for what does not depend on the store."""
    async with AsyncMemory(open_store("memory://")) as opened:
        yield opened


class Caught:
    """A client whose calls answer what came of them: the structured value, or the sentence of an error."""

    def __init__(self, client):
        self.client = client

    async def __call__(self, name, **arguments):
        answered = await self.client.call_tool(name, arguments)
        assert not answered.is_error, answered.content
        assert len(answered.content) == 1
        assert answered.content[0].text
        return answered.structured_content

    async def refused(self, name, **arguments):
        answered = await self.client.call_tool(name, arguments)
        assert answered.is_error, answered.structured_content
        return answered.content[0].text


@contextlib.asynccontextmanager
async def calling(memory, user="lin", toolset="memory", **more):
    """`async with calling(memory) as call: await call("remember", text=…)`, as this user."""
    caller = ToolCaller(memory=memory, user_id=user, **more)
    async with Client(new_server(lambda _: caller, toolset)) as client:
        yield Caught(client)


@pytest.fixture
def connect():
    return calling
