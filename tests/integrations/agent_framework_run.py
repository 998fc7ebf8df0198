"""Runs in the frameworks' environment: Agent Framework's agents on Octavo's providers. Prints what happened as JSON.

python agent_framework_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import sys

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    ContextProvider,
    HistoryProvider,
    Message,
)

from octavo import AsyncMemory, Memory
from octavo.integrations.agent_framework import OctavoHistoryProvider, OctavoMemoryProvider


class Scripted(BaseChatClient):
    """A client that says "yes", and keeps what it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.instructions = []

    async def _inner_get_response(self, *, messages, stream, options, **_):
        self.asked.append([message.text for message in messages])
        self.instructions.append(str((options or {}).get("instructions") or ""))
        return ChatResponse(messages=[Message("assistant", [f"Answer {len(self.asked)}."])])


PICTURE = Content.from_data(b"\x89PNG" * 50, media_type="image/png")
TALK = [
    Message("user", ["看图 what is this?", PICTURE], author_name="lin"),
    Message(
        "assistant",
        ["Let me look.", Content.from_function_call("c1", "look", arguments='{"at": 1}')],
        message_id="m1",
    ),
    Message("tool", [Content.from_function_result("c1", result="a logo")]),
    Message("user", [PICTURE]),
    Message("assistant", ["A logo."], additional_properties={"seen": True}),
]


async def lossless(store):
    history = OctavoHistoryProvider(store, "lin")
    await history.save_messages("pictures", TALK)
    kept = await history.get_messages("pictures")
    await history.save_messages("pictures", [*TALK, Message("user", ["And now?"])])  # as workflows do
    again = await history.get_messages("pictures")
    latest = await OctavoHistoryProvider(store, "lin", limit=2).get_messages("pictures")
    dumps = [[message.to_dict() for message in each] for each in (TALK, kept)]
    other = await OctavoHistoryProvider(store, "bob").get_messages("pictures")
    return [dumps[0] == dumps[1], len(again), [message.text for message in latest], len(other)]


async def first(store):
    client, history = Scripted(), OctavoHistoryProvider(store, "lin")
    agent = Agent(client, context_providers=[history])
    told = {"real": [isinstance(history, HistoryProvider), isinstance(history, ContextProvider)]}
    for said in ("My dentist is Dr. Osei.", "我住在杭州。"):
        await agent.run(said, session=AgentSession(session_id="monday"))
    async with AsyncMemory(store) as memory:
        learning = Agent(Scripted(), context_providers=[OctavoMemoryProvider(memory, user_id="ann")])
        await learning.run("I am allergic to peanuts.", session=AgentSession(session_id="tuesday"))
    return {**told, "asked": [len(each) for each in client.asked], "lossless": await lossless(store)}


async def second(store):
    client = Scripted()
    agent = Agent(client, context_providers=[OctavoHistoryProvider(store, "lin")])
    await agent.run("Who is my dentist?", session=AgentSession(session_id="monday"))
    told = {"asked": [len(each) for each in client.asked], "first": client.asked[0][0]}
    async with AsyncMemory(store) as memory:
        told["found"] = (await memory.search("Osei", user_id="lin", sources=["messages"]))[0].text
        told["facts"] = [fact.content for fact in await memory.get_all(user_id="ann")]
        knowing = Scripted()
        reading = OctavoMemoryProvider(memory, user_id="ann", learn=False)
        await Agent(knowing, instructions="Be kind.", context_providers=[reading]).run("What must I not eat?")
        told["instructions"] = " ".join([*knowing.asked[0], *knowing.instructions])
        told["said"] = [
            hit.text for hit in await memory.search("eat peanuts", user_id="ann", sources=["messages"])
        ]
        other = Scripted()
        await Agent(other, context_providers=[OctavoMemoryProvider(memory, user_id="bob")]).run(
            "What must I not eat?"
        )
        told["others"] = "peanuts" in " ".join([*other.asked[0], *other.instructions])
    return told


async def blocking(url):
    """A memory for callers who block, and a history that opens its store itself."""
    client = Scripted()
    with Memory(url) as memory:
        async with OctavoHistoryProvider(url, "eve") as history:
            agent = Agent(
                client, context_providers=[history, OctavoMemoryProvider(memory, user_id="eve", learn=False)]
            )
            for said in ("one", "two"):
                await agent.run(said, session=AgentSession(session_id="friday"))
    return [len(each) for each in client.asked]


async def main(url, parts):
    told = {}
    async with AsyncMemory(url) as memory:
        for part in parts:
            told[part] = await {"first": first, "second": second}[part](memory.store)
    told["blocking"] = await blocking(url) if "second" in parts else None
    print(json.dumps(told))


if __name__ == "__main__":
    address, *parts = sys.argv[1:]
    asyncio.run(main(address, parts))
