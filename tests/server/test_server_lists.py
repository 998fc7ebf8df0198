"""Every list of the server goes on with `next`: each record comes exactly once, also while others are added."""

import itertools

import httpx
import pytest

from octavo.server import create_app

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
TEXT = "软件 " * 60  # 420 bytes
MANY = 7


class Asked:
    """The application on a store, and ways to add one more of everything it lists."""

    def __init__(self, app, client):
        self.app, self.client = app, client
        self.numbers = itertools.count(1)
        self.revised = ""

    async def post(self, path, body):
        answered = await self.client.post(path, json=body)
        assert answered.status_code == 200, answered.text
        return answered.json()

    async def memory(self, layer, user="lin"):
        body = {"content": f"{next(self.numbers)} {TEXT}", "memory_layer": layer}
        return (await self.post(f"/memory/user/{user}", body))["id"]

    async def profile(self):
        await self.memory("profile")

    async def episode(self):
        await self.memory("event")

    async def change(self):
        self.revised = self.revised or await self.memory("profile", "ann")
        path = f"/memory/user/ann/profile/{self.revised}"
        answered = await self.client.put(path, json={"content": f"{next(self.numbers)} {TEXT}"})
        assert answered.status_code == 200

    async def event(self, session="s"):
        body = {"session_key": session, "obs_id": f"{next(self.numbers)}", "payload": {"text": TEXT}}
        return await self.post("/events", body)

    async def turn(self):
        event = await self.event()
        await self.app.state.memories.service("").append_turn("s", event["event_id"], plan={"text": TEXT})

    async def session(self):
        """A new session; when there are enough, one more event in the oldest too, which a listing would come to last."""
        await self.event(f"s{next(self.numbers)}")
        told = (await self.client.get("/sessions")).json()["sessions"]
        if len(told) > MANY:
            await self.event(told[-1]["session"])

    async def user(self):
        """One behind all others and one before them."""
        number = next(self.numbers)
        for name in (f"u{number:03}", f"a{number:03}"):
            await self.memory("profile", name)

    async def page(self, path, after):
        limit = {} if path == "/memory/{memory_id}" else {"limit": 2}
        path = path.format(memory_type="user", entity_id="lin", memory_id=self.revised, session="s")
        answered = await self.client.get(path, params={**limit, **after})
        assert answered.status_code == 200, answered.text
        return answered.json()


#: Of every list: what its rows are called, what tells them apart, and what adds one.
LISTS = {
    "/memory/{memory_id}": ("history", "id", Asked.change),
    "/memory/{memory_id}/logs": ("logs", "id", Asked.change),
    "/memory/{memory_type}/{entity_id}/profile": ("memories", "id", Asked.profile),
    "/memory/{memory_type}/{entity_id}/events": ("memories", "id", Asked.episode),
    "/memory/{memory_type}/{entity_id}/logs": ("logs", "id", Asked.episode),
    "/users": ("users", "user_id", Asked.user),
    "/events": ("events", "obs_id", Asked.event),
    "/sessions": ("sessions", "session", Asked.session),
    "/sessions/{session}/events": ("events", "obs_id", Asked.event),
    "/sessions/{session}/turns": ("turns", "turn_id", Asked.turn),
}


@pytest.fixture(params=KINDS)
async def asked(request, tmp_path, settings_of):
    local = {"memory": "memory://", "file": f"file://{tmp_path}/f", "sqlite": f"sqlite:///{tmp_path}/o.db"}
    url = local.get(request.param) or request.getfixturevalue("fresh_url")(request.param)
    app = create_app(settings_of(url, max_page_bytes=2000))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield Asked(app, client)
    await app.state.memories.close()


async def walk(asked, path, add=None):
    """The rows of all pages; between two of them something is added."""
    name, key, _ = LISTS[path]
    found, after, pages = [], {}, 0
    while True:
        pages += 1
        told = await asked.page(path, after)
        found += [row[key] for row in told[name]]
        if "next" not in told:
            return found, pages
        after = {"after": told["next"]}
        if add is not None and pages <= MANY:
            await add(asked)
        assert pages < 50, "pages repeat"


async def test_every_record_comes_once(asked):
    for path, (_, _, add) in LISTS.items():
        for _ in range(MANY):
            await add(asked)
        before, pages = await walk(asked, path)
        assert pages > 2, path
        assert len(before) == len({*before}) >= MANY, path
        meanwhile, _ = await walk(asked, path, add)
        assert len(meanwhile) == len({*meanwhile}), path
        assert {*before} <= {*meanwhile}, path


def test_every_list_is_here(settings_of):
    """Whatever answers rows takes `after` and may say `next`; what is ranked by a question does not go on."""
    document = create_app(settings_of("memory://")).openapi()
    lists = set()
    for path, verbs in document["paths"].items():
        if "get" not in verbs:
            continue
        content = verbs["get"]["responses"]["200"]["content"]
        if "application/json" not in content:  # a stream of all there is
            continue
        told = content["application/json"]["schema"]
        fields = document["components"]["schemas"][told["$ref"].rpartition("/")[2]]["properties"]
        if any(field.get("type") == "array" for field in fields.values()):
            lists.add(path)
            assert "next" in fields, path
            assert "after" in {each["name"] for each in verbs["get"]["parameters"]}, path
    assert lists == set(LISTS)
