"""Writing through every face for one user, with a secret of its own in each field; and looking for these secrets afterwards."""

import secrets
from pathlib import Path

from octavo import Agent, AgentEvent, AsyncMemory, MockAdapter, Scope
from octavo.assemble import Assembled
from octavo.chat import ChatMemory, Msg
from octavo.config import Service as ServiceSettings
from octavo.config import Settings
from octavo.config import Vault as VaultSettings
from octavo.conversation import (
    ConversationEntityMemory,
    HumanMessage,
    RecallRetriever,
    StoreChatMessageHistory,
)
from octavo.events import EventStore
from octavo.layers import LayeredMemory
from octavo.search.recall import Recall
from octavo.service import MessagePayload, Observation, ObservationType
from octavo.service.memory import AsyncMemoryService
from octavo.service.vault import Vault


class Secrets:
    """Words that nobody else says: `secrets()` is a new one."""

    def __init__(self):
        self.words = []

    def __call__(self, prefix=""):
        # Of 20 letters and digits, so that no part of a database holds it by chance.
        word = f"{prefix}q{secrets.token_hex(10)}"
        self.words.append(word)
        return word

    def found_in(self, data: bytes):
        """The words that some bytes hold, as they are or as a search folds them."""
        low = data.lower()
        return [word for word in self.words if word.lower().encode() in low]


async def by_events(store, tenant, user, folder, secret):
    del folder
    event = AgentEvent(
        agent_name="a",
        session_id=secret("s-"),
        user_id=user,
        data={"said": secret()},
        metadata={"m": secret()},
    )
    assert await EventStore(store, tenant=tenant).store(event)


async def by_agent(store, tenant, user, folder, secret):
    del folder
    events = EventStore(store, tenant=tenant)
    async with Agent.create(
        "helper", MockAdapter(script=[secret()]), memory_store=events, user_id=user
    ) as agent:
        await agent.run(secret())


async def by_service(store, tenant, user, folder, secret):
    del folder
    settings = Settings(vault=VaultSettings(enabled=False), service=ServiceSettings(tenant=tenant))
    assembled = Assembled(settings=settings, store=store, journal=None, indexed=None, recall=Recall(store))
    service = AsyncMemoryService(assembled)
    said = Observation(
        ObservationType.MESSAGE,
        MessagePayload(secret(), extra={"x": secret()}),
        source_name=secret(),
        metadata={"deep": {"er": [secret()]}},
        obs_id=secret(),
        actor=user,
    )
    session = secret("dm-")
    event = await service.append_event(said, session, {"reasons": [secret()]}, {"meta": secret()})
    turn = await service.append_turn(session, event.event_id, {"plan": secret()}, {"meta": secret()})
    await service.finish_turn(turn.turn_id, secret(), "error", secret())
    # Nobody is named, in a session that is this user's alone.
    nobody = Observation(ObservationType.ALERT, {"message": secret()}, user_id="")
    await service.append_event(nobody, session)


async def by_vault(store, tenant, user, folder, secret):
    async with Vault(folder / "vault", store, scope=Scope(tenant=tenant)) as vault:
        await vault.put(f"users/{user}", f"# Before\n\n{secret()}", {"title": secret()})
        await vault.put(f"users/{user}", f"# 之后\n\n{secret()}")


async def by_chat(store, tenant, user, folder, secret):
    del folder
    chat = ChatMemory(store, user, secret("room-"), tenant=tenant)
    message = Msg(secret(), f'He said: "{secret()}"', "user", metadata={"m": secret()})
    await chat.add(message, marks=[secret()])
    await chat.update_compressed_summary(secret())


async def by_history(store, tenant, user, folder, secret):
    del folder
    history = StoreChatMessageHistory(store, secret("talk-"), user, tenant=tenant)
    await history.aadd_messages([HumanMessage(secret())])
    memory = ConversationEntityMemory(chat_memory=history)
    await memory.asave_context(
        {"input": f"My friend Zhang Wei lives in {secret('B')}."}, {"output": secret()}
    )
    await memory.asave_context({"input": f"张伟说{secret()}住在北京"}, {"output": secret()})


async def by_retriever(store, tenant, user, folder, secret):
    del folder
    await RecallRetriever(store, user, secret("talk-"), tenant=tenant).aadd_texts([secret()])


async def by_layers(store, tenant, user, folder, secret):
    del folder
    layers = LayeredMemory(store, tenant=tenant)
    kept = await layers.remember(secret(), user_id=user, metadata={"m": secret()}, reason=secret())
    await layers.revise(kept.id, content=secret(), reason=secret())
    gone = await layers.remember(f"a mistake {secret()}", user_id=user, layer="profile", category="career")
    await layers.forget(gone.id, reason=secret())
    await layers.extract(f"I live in {secret('B')} and I like {secret()}.", user_id=user)


async def by_the_front_door(store, tenant, user, folder, secret):
    del folder
    async with AsyncMemory(store, tenant=tenant) as memory:
        await memory.add(f"I work at {secret('A')} and my sister is {secret('Ann')}.", user_id=user)
        await memory.add(
            secret(), user_id=user, session_id=secret("s-"), metadata={"m": secret()}, infer=False
        )
        await memory.search(secret.words[-1], user_id=user)  # has the indexes of words filled


FACES = (
    by_events, by_agent, by_service, by_vault, by_chat, by_history, by_retriever, by_layers, by_the_front_door,
)  # fmt: skip


async def write_all(store, tenant, user, folder, secret, faces=FACES):
    """Write through these faces, and have every index filled."""
    for write in faces:
        await write(store, tenant, user, folder, secret)


def bytes_of(*folders: Path) -> bytes:
    """The names and the bytes of all files there, those of keys left out."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            found.append(str(path.relative_to(folder)).encode())
            if path.is_file():
                found.append(path.read_bytes())
    return b"\n".join(found)
