"""Who has memories: every user of a tenant by name, once, with counts and times, on every store."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from octavo import Add, Record, Scope, open_store
from octavo.client import AsyncClient, Client
from octavo.server.routes.users import users_page
from octavo.testing.agreement import USERS

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def at(hours):
    return NOON + timedelta(hours=hours)


def record(collection, hours, user="", tenant="", **more):
    scope = Scope(tenant=tenant, user=user or None, session="s")
    return Record(collection=collection, scope=scope, created_at=at(hours), text="x", **more)


@pytest.fixture(params=KINDS)
async def store(request, tmp_path):
    local = {"memory": "memory://", "file": f"file://{tmp_path}/f", "sqlite": f"sqlite:///{tmp_path}/o.db"}
    url = local.get(request.param) or request.getfixturevalue("fresh_url")(request.param)
    async with open_store(url) as opened:
        yield opened


async def every(store, limit, tenant=""):
    """All pages of so many users."""
    pages, after = [], ""
    while True:
        found, following = await users_page(store, tenant, limit, after)
        assert len(found) <= limit
        pages.append(found)
        if following is None:
            return pages
        after = following.id


async def test_users_are_merged_by_name(store):
    """A user is there once, wherever something of his is kept, with the sum of it; nobody else's tenant counts."""
    kept = [record("profile", n, name) for n, name in enumerate(USERS) if n % 2]
    kept += [record("episodes", 20 + n, name) for n, name in enumerate(USERS) if n % 3]
    kept += [record("messages", 40 + n, name) for n, name in enumerate(USERS)]
    kept += [record("messages", 60, USERS[0]), record("messages", 0), record("profile", 0, "theirs", "other")]
    for collection in ("profile", "episodes", "messages"):
        await store.apply([Add([one for one in kept if one.collection == collection])])
    [whole] = await every(store, 100)
    assert [user.user_id for user in whole] == list(USERS)
    assert [tuple(user.counts.values()) for user in whole] == [
        (n % 2, int(n % 3 > 0), 2 if n == 0 else 1) for n in range(len(USERS))
    ]
    assert [user.total for user in whole] == [sum(user.counts.values()) for user in whole]
    assert (whole[0].first_at, whole[0].last_at) == (at(40), at(60))
    assert (whole[1].first_at, whole[1].last_at) == (at(1), at(41))
    for limit in (1, 2, 5):
        assert [user for page in await every(store, limit) for user in page] == whole
    assert [user.user_id for page in await every(store, 10, "other") for user in page] == ["theirs"]
    assert await users_page(store, "", 0) == ([], None)


async def test_what_has_expired_is_not_counted(store):
    """Swept or not: nobody sees it, and whose all has expired is nobody."""
    gone = datetime.now(UTC) - timedelta(seconds=1)
    await store.apply(
        [
            Add([record("episodes", 1, "ann", expires_at=gone), record("episodes", 2, "ann")]),
            Add([record("episodes", 1, "bob", expires_at=gone), record("profile", 1, "zoe")]),
        ]
    )
    [first, second] = await every(store, 2)
    assert [(user.user_id, user.total, user.first_at) for user in (*first, *second)] == [
        ("ann", 1, at(2)),
        ("zoe", 1, at(1)),
    ]


async def test_more_users_than_a_page_has(store):
    """Over HTTP an answer has 200 at most, and says that there are more."""
    names = [f"u{number:03}" for number in range(450)]
    await store.apply([Add([record("profile", 1, name) for name in names])])
    pages = await every(store, 1000)
    assert [len(page) for page in pages] == [200, 200, 50]
    assert [user.user_id for page in pages for user in page] == names


def test_over_http(store_url, settings_of, serving, new_key):
    """A reader may ask, and is told about his own tenant; the clients read all pages."""
    url = store_url("sqlite")
    keys = {name: new_key(url, access, name).key for name, access in (("ours", "read"), ("theirs", "admin"))}

    async def fill():
        async with open_store(url) as opened:
            await opened.apply(
                [Add([record("messages", 1, f"{n:03}", tenant) for tenant in keys for n in range(210)])]
            )

    asyncio.run(fill())
    server = serving(settings_of(url, auth="on"))
    with server.client(keys["ours"]) as client:
        told = client.get("/users?limit=2").json()
        assert told["count"] == 2
        assert told["users"][0] == {
            "user_id": "000", "total": 1, "counts": {"profile": 0, "event": 0, "messages": 1},
            "first_at": "2026-06-01T13:00:00Z", "last_at": "2026-06-01T13:00:00Z",
        }  # fmt: skip
        assert client.get("/users", params={"after": told["next"]}).json()["users"][0]["user_id"] == "002"
        for wrong in ("x", "e30", "e30=", client.get("/events").json().get("next", "A")):
            refused = client.get("/users", params={"after": wrong})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), wrong
    with Client(server.url, api_key=keys["ours"]) as client:
        assert [user.user_id for user in client.users()] == [f"{n:03}" for n in range(100)]
        assert len(client.users(limit=5000)) == 210

    async def awaited():
        async with AsyncClient(server.url, api_key=keys["theirs"]) as client:
            return await client.users(limit=205)

    assert len(asyncio.run(awaited())) == 205


def test_a_store_that_lists_no_names(sqlite_server):
    """Somebody's own store may not be able to: that is said, and is not a fault of the server."""
    server = sqlite_server()
    held = server.app.state.memories
    held.assembled = type("Bare", (), {"store": object(), "journal": None})()
    with server.client() as client:
        refused = client.get("/users")
    assert (refused.status_code, refused.json()["code"]) == (501, "unsupported")
