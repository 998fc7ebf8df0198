"""What any face keeps for a user is found through every door, and by nobody else: in Python and over HTTP.

The command is asked the same in tests/cli/test_memory_commands.py.
"""

import httpx
import pytest

from octavo import Agent, AgentEvent, AsyncMemory, MockAdapter, open_store
from octavo.assemble import Assembled
from octavo.chat import ChatMemory, Msg
from octavo.config import Database, FailureQueue, Server, Settings
from octavo.config import Service as ServiceSettings
from octavo.config import Vault as VaultSettings
from octavo.conversation import HumanMessage, RecallRetriever, StoreChatMessageHistory
from octavo.events import EventStore
from octavo.layers import LayeredMemory
from octavo.search.recall import Recall
from octavo.server import create_app
from octavo.service import MessagePayload, Observation, ObservationType
from octavo.service.memory import AsyncMemoryService
from octavo.service.vault import Vault

SAID = "the spare key is under the flowerpot"
QUESTION = "where is the spare key?"
LIN, ANN = "lin", "ann"


async def by_events(store, tenant, user, folder):
    del folder
    event = AgentEvent(agent_name="a", session_id="s", data={"said": SAID}, user_id=user)
    assert await EventStore(store, tenant=tenant).store(event)


async def by_agent(store, tenant, user, folder):
    del folder
    events = EventStore(store, tenant=tenant)
    adapter = MockAdapter(script=["noted"])
    async with Agent.create(f"a {user}", adapter, memory_store=events, user_id=user) as agent:
        await agent.run(SAID)


async def by_service(store, tenant, user, folder):
    del folder
    settings = Settings(vault=VaultSettings(enabled=False), service=ServiceSettings(tenant=tenant))
    assembled = Assembled(settings=settings, store=store, journal=None, indexed=None, recall=Recall(store))
    said = Observation(ObservationType.MESSAGE, MessagePayload(SAID), actor=user)
    await AsyncMemoryService(assembled).append_event(said, f"dm:{user}")


async def by_vault(store, tenant, user, folder):
    from octavo import Scope

    async with Vault(folder / user, store, scope=Scope(tenant=tenant)) as vault:
        await vault.put(f"users/{user}", SAID)


async def by_chat(store, tenant, user, folder):
    del folder
    await ChatMemory(store, user, "room", tenant=tenant).add(Msg("user", SAID, "user"))


async def by_history(store, tenant, user, folder):
    del folder
    await StoreChatMessageHistory(store, "talk", user, tenant=tenant).aadd_messages([HumanMessage(SAID)])


async def by_retriever(store, tenant, user, folder):
    del folder
    await RecallRetriever(store, user, "talk", tenant=tenant).aadd_texts([SAID])


async def by_layers(store, tenant, user, folder):
    del folder
    await LayeredMemory(store, tenant=tenant).remember(SAID, user_id=user)


async def by_extraction(store, tenant, user, folder):
    del folder
    await LayeredMemory(store, tenant=tenant).extract(f"Remember: {SAID}.", user_id=user)


async def by_the_front_door(store, tenant, user, folder):
    del folder
    await AsyncMemory(store, tenant=tenant).add(SAID, user_id=user)


FACES = {
    by_events: "events",
    by_agent: "events",
    by_service: "observations",
    by_vault: "documents",
    by_chat: "messages",
    by_history: "messages",
    by_retriever: "messages",
    by_layers: "facts",
    by_extraction: None,
    by_the_front_door: None,
}
each_face = pytest.mark.parametrize("write", FACES, ids=lambda write: write.__name__)


@each_face
async def test_in_python(memory, store, tenant, tmp_path, write):
    for user in (LIN, ANN):
        await write(store, tenant, user, tmp_path)
    hits = await memory.search(QUESTION, user_id=LIN)
    assert hits
    assert "flowerpot" in hits[0].text
    assert {hit.user_id for hit in hits} == {LIN}
    if FACES[write] is not None:
        assert {hit.source for hit in hits} == {FACES[write]}
    assert not hits.probably_absent
    assert "flowerpot" in str(await memory.context(QUESTION, user_id=LIN))
    assert await memory.search(QUESTION, user_id="somebody else") == []


@each_face
async def test_over_http(tmp_path, write):
    """`POST /search` and `POST /context` answer what Python does, to whoever names the user."""
    url = f"sqlite:///{tmp_path}/octavo.db"
    async with open_store(url) as store:
        for user in (LIN, ANN):
            await write(store, "", user, tmp_path)
    queue = FailureQueue(directory=str(tmp_path / "queue"))
    app = create_app(
        Settings(database=Database(dsn=url), failure_queue=queue, vault=VaultSettings(enabled=False))
    )
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        told = (await client.post("/search", json={"query": QUESTION, "user_id": LIN})).json()
        assert told["count"] == len(told["hits"]) > 0
        assert "flowerpot" in told["hits"][0]["text"]
        assert {hit["user_id"] for hit in told["hits"]} == {LIN}
        assert all(hit["why"] and hit["source"] and hit["when"] for hit in told["hits"])
        assert told["probably_absent"] is False
        block = (await client.post("/context", json={"query": QUESTION, "user_id": LIN})).json()
        assert "flowerpot" in block["text"]
        assert block["tokens"] <= 1000
        nobody = (await client.post("/search", json={"query": QUESTION, "user_id": "somebody else"})).json()
        assert (nobody["count"], nobody["probably_absent"]) == (0, True)


async def test_nobody_named_over_http(tmp_path):
    """A search without an owner is refused; everyone is for admin."""
    app = create_app(Settings(database=Database(dsn="memory://"), server=Server(auth="off")))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        for path in ("/search", "/context"):
            refused = await client.post(path, json={"query": QUESTION})
            assert refused.status_code == 422
            assert "whose memory?" in refused.json()["detail"]
        both = await client.post("/search", json={"query": QUESTION, "user_id": "a", "everyone": True})
        assert both.status_code == 422
        wrong = await client.post("/search", json={"query": QUESTION, "user_id": "a", "sources": ["mails"]})
        assert wrong.status_code == 422
