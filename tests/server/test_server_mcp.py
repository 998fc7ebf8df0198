"""/mcp of a running server: the real clients over HTTP, and that no tool, resource or prompt reaches what is not the caller's."""

import asyncio
import contextlib
import json
import sys

import httpx
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mcp import Client
from octavo import Add, Record, Scope, open_store

HEADERS = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@contextlib.asynccontextmanager
async def connected(url, key=None, **more):
    """The SDK's client of a server, with a key."""
    headers = {} if key is None else {"X-API-Key": key}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **more) as client,
    ):
        yield client


async def call(client, name, **arguments):
    answered = await client.call_tool(name, arguments)
    return answered.is_error, answered.structured_content or answered.content[0].text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_conversation(sqlite_server, mode):
    """In the protocol of today and in that of before, each request by itself."""
    server = sqlite_server()

    async def talk():
        async with connected(server.url, mode=mode) as client:
            await client.call_tool("remember", {"text": "I live in Berlin.", "session_id": "monday"})
            found = await client.call_tool("search_memory", {"query": "where do I live?"})
            assert "Berlin" in found.structured_content["hits"][0]["text"]
            assert "lives in Berlin" in (await client.read_resource("octavo://profile")).contents[0].text
            assert "I live" in (await client.read_resource("octavo://sessions/monday")).contents[0].text
            assert (await client.get_prompt("what_do_you_know_about_me")).messages
            refused, told = await call(client, "search_memory", query="")
            assert (refused, told) == (True, "search_memory: query: must say something")

    asyncio.run(talk())
    with server.client() as client:  # the same memory as that of the other doors
        assert client.get("/memory/user/default_user/profile").json()["count"] == 1


def test_fastmcps_client(sqlite_server, store_url, new_key):
    from fastmcp import Client as FastClient
    from fastmcp.client.transports import StreamableHttpTransport

    server = sqlite_server(auth="on")
    key = new_key(store_url("sqlite"), "write", "", user="lin").key

    async def talk():
        transport = StreamableHttpTransport(f"{server.url}/mcp", headers={"Authorization": f"Bearer {key}"})
        async with FastClient(transport) as client:
            await client.call_tool("remember", {"text": "I live in Berlin."})
            return (await client.call_tool("list_memories")).structured_content["memories"]

    [memory] = asyncio.run(talk())
    assert memory["text"] == "The user lives in Berlin"
    with server.client(key) as client:
        assert client.get("/memory/user/lin/profile").json()["count"] == 1


@pytest.fixture
def keyed(store_url, settings_of, serving, new_key):
    """A server that needs keys, with something of two users and two tenants in it."""
    url = store_url("sqlite")
    keys = {
        "lin": new_key(url, "write", "ours", user="lin").key,
        "bob": new_key(url, "write", "ours", user="bob").key,
        "reader": new_key(url, "read", "ours", user="bob").key,
        "writer": new_key(url, "write", "ours").key,
        "stranger": new_key(url, "admin", "other").key,
    }
    server = serving(settings_of(url, auth="on"))

    async def fill():
        async with connected(server.url, keys["lin"]) as client:
            told = await client.call_tool("remember", {"text": "I live in Berlin.", "session_id": "secret"})
        async with open_store(url) as store:
            scope = Scope(tenant="ours", user="lin")
            document = Record(collection="configs", id="users/lin", scope=scope, text="about lin")
            await store.apply([Add([document])])
        return told.structured_content["memories"][0]["id"]

    return server, keys, asyncio.run(fill())


@pytest.mark.parametrize("who", ["bob", "reader", "writer", "stranger"])
def test_nothing_of_another_user_or_tenant_is_reached(keyed, who):
    """By no tool, no resource and no prompt; and nothing says that it is there."""
    server, keys, fact = keyed

    async def look():
        async with connected(server.url, keys[who]) as client:
            writes = who != "reader"
            for name, more in (
                ("update_memory", {"text": "x"}),
                ("delete_memory", {}),
                ("memory_history", {}),
            ):
                hidden = await call(client, name, memory_id=fact, **more)
                none = await call(client, name, memory_id="nothing", **more)
                assert hidden[0]
                assert hidden[1].replace(fact, "nothing") == none[1]
                assert ("write access" in none[1]) is (not writes and name != "memory_history")
            assert (await call(client, "search_memory", query="where do I live?"))[1]["hits"] == []
            assert (await call(client, "search_memory", query="Berlin", session_id="secret"))[1]["hits"] == []
            assert (await call(client, "get_context", query="Berlin", session_id="secret"))[1]["text"] == ""
            assert (await call(client, "list_memories"))[1]["memories"] == []
            assert (await call(client, "remember", text="x", user_id="lin"))[0]
            assert [each.uri for each in (await client.list_resources()).resources] == ["octavo://profile"]
            assert "Berlin" not in (await client.read_resource("octavo://profile")).contents[0].text
            for uri in ("octavo://sessions/secret", "octavo://documents/users/lin", "octavo://profile/lin"):
                with pytest.raises(Exception, match=r"nothing was said|no document|Unknown resource"):
                    await client.read_resource(uri)
            for name in ("what_do_you_know_about_me", "start_with_my_context"):
                assert "Berlin" not in (await client.get_prompt(name)).messages[0].content.text

    asyncio.run(look())
    with server.client(keys["lin"]) as client:
        assert client.get(f"/memory/{fact}").json()["version"] == 1


def test_a_graph_is_its_users(store_url, settings_of, serving, new_key):
    import msgspec

    from octavo.config.settings import Mcp

    url = store_url("sqlite")
    settings = msgspec.structs.replace(settings_of(url, auth="on"), mcp=Mcp(toolset="graph", user="shared"))
    server = serving(settings)
    keys = {user: new_key(url, "write", "ours", user=user).key for user in ("lin", "bob")}
    entity = {"name": "Lin", "entityType": "person", "observations": []}

    async def look():
        async with connected(server.url, keys["lin"]) as client:
            assert not (await call(client, "create_entities", entities=[entity]))[0]
        async with connected(server.url, keys["bob"]) as client:
            await call(client, "delete_entities", entityNames=["Lin"])
            assert (await call(client, "read_graph"))[1] == {"entities": [], "relations": []}
        async with connected(server.url, keys["lin"]) as client:
            assert (await call(client, "read_graph"))[1]["entities"] == [entity]

    asyncio.run(look())


def test_who_is_let_in(keyed):
    server, keys, _ = keyed
    for key, status in ((None, 401), ("oct_0123456789abcdef_" + "0" * 64, 401), (keys["reader"], 200)):
        with server.client(key) as client:
            answered = client.post("/mcp", json=LIST, headers=HEADERS)
            assert answered.status_code == status
            if status == 401:
                assert answered.headers["www-authenticate"].startswith("Bearer")
            else:
                assert len(answered.json()["result"]["tools"]) == 7
                assert answered.headers["cache-control"] == "no-store"
                assert "mcp-session-id" not in answered.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"X-Forwarded-For": "203.0.113.9"}, 421),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_without_keys_only_this_machine_calls(sqlite_server, headers, status):
    with sqlite_server().client() as client:
        answered = client.post(
            "/mcp",
            content=json.dumps(LIST),
            headers={**HEADERS, "Content-Type": "application/json", **headers},
        )
        assert answered.status_code == status


def test_limits_and_nonsense(sqlite_server):
    """The body, the rate and the method are the server's business; what is no message of MCP is answered and forgotten."""
    server = sqlite_server(max_content_bytes=1024, max_body_bytes=20_000)
    with server.client() as client:
        assert client.post("/mcp", json={"x": "a" * 30_000}, headers=HEADERS).status_code == 413
        for method in ("GET", "DELETE", "PUT"):
            refused = client.request(method, "/mcp", headers=HEADERS)
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        for body in ("no JSON", "[]", "{}", '{"jsonrpc": "2.0", "id": 1, "method": "fly"}', "[" * 5000):
            answered = client.post(
                "/mcp", content=body, headers={**HEADERS, "Content-Type": "application/json"}
            )
            assert answered.status_code < 500, body
        long = {"name": "remember", "arguments": {"text": "a" * 2000}}
        told = client.post(
            "/mcp", json={**LIST, "method": "tools/call", "params": long}, headers=HEADERS
        ).json()
        assert "1,024 bytes" in told["result"]["content"][0]["text"]


def test_a_body_of_many_values(sqlite_server):
    """Everybody else would wait while it is read."""
    with sqlite_server().client() as client:
        many = client.post("/mcp", json={**LIST, "params": {"x": [0] * 30_000}}, headers=HEADERS)
        assert (many.status_code, many.json()["detail"]) == (400, "a body may hold at most 20,000 values")


def test_a_key_may_call_so_often(sqlite_server, store_url, new_key):
    server = sqlite_server(auth="on", requests_per_minute=3)
    with server.client(new_key(store_url("sqlite"), "read").key) as client:
        got = [client.post("/mcp", json=LIST, headers=HEADERS).status_code for _ in range(5)]
    assert got == [200, 200, 200, 429, 429]


def test_any_worker_answers(store_url, settings_of, serving, new_key):
    """Two servers over one store: a client need not come back to the one it began with."""
    url = store_url("sqlite")
    servers = [serving(settings_of(url)) for _ in range(2)]
    said = {"name": "remember", "arguments": {"text": "I live in Berlin."}}
    asked = {"name": "search_memory", "arguments": {"query": "where do I live?"}}
    for server, params in zip(servers, (said, asked), strict=True):
        with server.client() as client:
            told = client.post(
                "/mcp", json={**LIST, "method": "tools/call", "params": params}, headers=HEADERS
            )
            assert not told.json()["result"]["isError"]
    assert "Berlin" in told.json()["result"]["content"][0]["text"]


def test_many_at_once(sqlite_server):
    server = sqlite_server()

    async def ask():
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
            many = [client.post("/mcp", json={**LIST, "id": number}, headers=HEADERS) for number in range(40)]
            return [each.json()["id"] for each in await asyncio.gather(*many)]

    assert asyncio.run(ask()) == list(range(40))


def test_without_the_extra(sqlite_server, monkeypatch):
    """The server serves, and says at /mcp what it needs for that."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    with sqlite_server().client() as client:
        assert client.get("/health").status_code == 200
        told = client.post("/mcp", json=LIST, headers=HEADERS)
        assert (told.status_code, told.json()["detail"]) == (501, "/mcp needs mcp: pip install 'octavo[mcp]'")
