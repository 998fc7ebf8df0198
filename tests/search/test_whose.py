"""Whose is it: what was written for a user, through whichever face, is found by that user alone, and nothing else is."""

import itertools
from collections import Counter

from memories import inside
from octavo import Agent, AgentEvent, InvalidRecord, MockAdapter, Query
from octavo.assemble import Assembled
from octavo.chat import ChatMemory, Msg
from octavo.config import Service, Settings
from octavo.config import Vault as VaultSettings
from octavo.conversation import AIMessage, HumanMessage, RecallRetriever, StoreChatMessageHistory
from octavo.events import EventStore
from octavo.kernel.shapes import SHAPES
from octavo.layers import LayeredMemory
from octavo.search.recall import Recall
from octavo.service import MessagePayload, Observation, ObservationType
from octavo.service.memory import AsyncMemoryService
from octavo.service.vault import Vault
from octavo.wraps import Journal
from serving import Faulty

#: What people's own things are kept in; keys are an administrator's, vectors and what waits for them are derived.
COLLECTIONS = tuple(name for name in SHAPES if name not in ("keys", "vectors", "pending"))
SEARCHED = (
    "profile", "episodes", "messages", "exchanges", "observations", "events", "configs", "knowledge",
)  # fmt: skip
#: How many records each face writes for a user, by collection.
OF_A_USER = Counter(
    events=1 + 3, observations=2 + 1, turns=1, configs=1, versions=1, messages=1 + 2, summaries=1 + 1, entities=1,
    exchanges=1, profile=1 + 1, episodes=1, log=3, owners=1,
)  # fmt: skip
OF_NOBODY = Counter(events=1 + 3, observations=1, turns=1, configs=1, knowledge=1, versions=1)


async def write_events(store, home, user, root):
    """An event of one's own, and a run of an agent: its beginning, the message and the answer."""
    del root
    events = EventStore(store, tenant=home.tenant)
    event = AgentEvent(agent_name="a", session_id="s", data={"said": f"peanuts, {user}"}, user_id=user)
    assert await events.store(event)
    adapter = MockAdapter(script=[f"no peanuts, {user}"])
    async with Agent.create(f"agent {user}", adapter, memory_store=events, user_id=user or None) as agent:
        await agent.run(f"peanuts? {user}")


async def write_service(store, home, user, root):
    """An observation that names its user, one that names who acted, and a turn."""
    del root
    service = service_on(store, home)
    for said in [{"user_id": user}, {"actor": user}][: 2 if user else 1]:
        message = MessagePayload(text=f"peanuts, {user}")
        event = await service.append_event(Observation(ObservationType.MESSAGE, message, **said), "room")
    turn = await service.append_turn("room", event.event_id)
    await service.finish_turn(turn.turn_id)
    found = await service.recall("peanuts", user_id=user)
    assert {hit.record.scope.user or "" for hit in found} == {user}


async def write_vault(store, home, user, root):
    """A document, twice: what it said first is a version."""
    async with Vault(root / f"vault {user}", store, scope=home) as vault:
        key = f"users/{user}" if user else "system"
        await vault.put(key, f"peanuts, {user}")
        await vault.put(key, f"no peanuts, {user}")
        if not user:
            await vault.put("facts/peanuts", "peanuts are no nuts")


async def write_chat(store, home, user, root):
    del root
    chat = ChatMemory(store, user, "room", tenant=home.tenant)
    await chat.add(Msg("user", f"peanuts, {user}", "user"))
    await chat.update_compressed_summary(f"about peanuts, {user}")


async def write_conversation(store, home, user, root):
    """A history with a summary and entities, and an exchange that can be retrieved."""
    del root
    history = StoreChatMessageHistory(store, "talk", user, tenant=home.tenant)
    await history.aadd_messages([HumanMessage(f"peanuts? {user}"), AIMessage(f"peanuts, {user}")])
    await history.aset_state("summary", {"summary": f"peanuts, {user}"})
    await history.aset_state("entities", {"peanuts": {"of": user}})
    retriever = RecallRetriever(store, user, "talk", tenant=home.tenant)
    await retriever.aadd_texts([f"Human: peanuts? {user}"])


async def write_layers(store, home, user, root):
    """A profile, an event, and a text with one fact: each with its row in the log."""
    del root
    async with LayeredMemory(store, tenant=home.tenant) as memory:
        await memory.remember(f"Allergic to peanuts: {user}", user_id=user, layer="profile")
        await memory.remember(f"Ate peanuts: {user}", user_id=user)
        assert (await memory.extract("I live in Berlin.", user_id=user)).total_extracted == 1


FACES = (write_events, write_service, write_vault, write_chat, write_conversation, write_layers)


def service_on(store, home, journal=None):
    settings = Settings(vault=VaultSettings(enabled=False), service=Service(tenant=home.tenant))
    return AsyncMemoryService(
        Assembled(settings=settings, store=store, journal=journal, indexed=None, recall=Recall(store))
    )


async def counted(store, scope):
    """How many records there are in a scope, by collection, as they are found and as they are counted."""
    found = {name: await store.find(Query(collection=name, scope=scope)) for name in COLLECTIONS}
    for name, records in found.items():
        assert (await store.tally(Query(collection=name, scope=scope))).total == len(records)
        assert {record.scope.user or "" for record in records} <= {scope.user}
    return Counter({name: len(records) for name, records in found.items() if records})


async def test_every_face(store, home, tmp_path):
    """A user's things, another user's and nobody's, written through every face: each is found by whose it is, and only so."""
    for user in ("lin", "ann"):
        for write in FACES:
            await write(store, home, user, tmp_path)
    for write in (write_events, write_service, write_vault):  # the others are always somebody's
        await write(store, home, "", tmp_path)
    for user in ("lin", "ann"):
        assert await counted(store, inside(home, user=user)) == OF_A_USER
    assert await counted(store, inside(home, user="")) == OF_NOBODY
    assert not await counted(store, inside(home, user="eve"))
    every = [await store.find(Query(collection=name, scope=home)) for name in COLLECTIONS]
    assert sum(map(len, every)) == 2 * OF_A_USER.total() + OF_NOBODY.total()


async def test_every_face_is_searched(store, home, tmp_path):
    """One search over all that a user has finds it in every collection, and nothing of others."""
    for user in ("lin", "ann", ""):
        for write in FACES if user else (write_events, write_service, write_vault):
            await write(store, home, user, tmp_path)
    recall = Recall(store)
    for user, collection in itertools.product(("lin", "ann"), SEARCHED):
        hits = await recall.recall("peanuts", inside(home, user=user), 100, collections=(collection,))
        assert {hit.record.scope.user for hit in hits} == ({user} if collection != "knowledge" else set())
        assert all(user in str((hit.record.text, hit.record.data)) for hit in hits)
    whole = await recall.recall("peanuts", inside(home, user="lin"), 100, collections=SEARCHED)
    assert {hit.record.collection for hit in whole} == {*SEARCHED} - {"knowledge"}


async def test_what_waits_keeps_its_user(store, home, tmp_path):
    """Written while the store is down, by every face that then can write, it is the user's once the store is back."""
    down = Faulty(store, "down")
    async with Journal(down, tmp_path / "queue", timeout=1, backoff=(0.01, 0.05), owned=False) as journal:
        for user in ("lin", "ann"):
            await write_queued(journal, home, user, tmp_path)
        assert journal.status().waiting == 12
        down.mode = "up"
        while journal.status().waiting:
            await journal.replay_now()
    expected = Counter(events=1, observations=1, turns=1, configs=1, messages=1, exchanges=1)
    for user in ("lin", "ann"):
        assert await counted(store, inside(home, user=user)) == expected
    assert not await counted(store, inside(home, user=""))


async def test_what_was_given_up_keeps_its_user(in_memory, home, tmp_path):
    """A dead letter names the user of what it would have written, and replayed it is the user's."""
    down = Faulty(in_memory, "down")
    async with Journal(down, tmp_path / "queue", timeout=1, max_retries=0, owned=False) as journal:
        await write_queued(journal, home, "lin", tmp_path)
        down.poison, down.mode = _refuse, "up"
        while journal.status().waiting:
            await journal.replay_now()
        letters = await journal.dead_letters()
        assert len(letters) == 6
        records = [record for letter in letters for op in letter.ops for record in getattr(op, "records", ())]
        assert {record.scope.user for record in records} == {"lin"}
        down.poison = None
        assert await journal.replay_dead() == 6
        while journal.status().waiting:
            await journal.replay_now()
    assert (await counted(in_memory, inside(home, user="lin"))).total() == 6


def _refuse(ops):
    if any("peanuts" in str(op) for op in ops):
        raise InvalidRecord("nobody wants peanuts")


async def write_queued(journal, home, user, root):
    """One write of each kind that needs no answer of the store."""
    service = service_on(journal, home, journal)
    said = Observation(ObservationType.MESSAGE, MessagePayload(text=f"peanuts, {user}"), actor=user)
    event = await service.append_event(said, "room")
    await service.append_turn("room", event.event_id, plan={"say": "peanuts"})
    assert await EventStore(journal, tenant=home.tenant).store(
        AgentEvent(data={"said": "peanuts"}, user_id=user)
    )
    async with Vault(root / f"queued {user}", journal, scope=home) as vault:
        assert (await vault.put(f"users/{user}", f"peanuts, {user}")).status == "queued"
    await ChatMemory(journal, user, "room", tenant=home.tenant).add(Msg("user", f"peanuts, {user}", "user"))
    await RecallRetriever(journal, user, "talk", tenant=home.tenant).aadd_texts([f"peanuts, {user}"])
