"""An agent of Microsoft's Agent Framework with a history, and with what is remembered of the user in its instructions."""

import asyncio
import tempfile
from contextlib import chdir
from typing import Any

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message

from octavo import AsyncMemory
from octavo.integrations.agent_framework import OctavoHistoryProvider, OctavoMemoryProvider


class Attentive(BaseChatClient):
    """Answers from what it is told in the call."""

    async def _inner_get_response(self, *, messages: Any, options: Any, **_: Any) -> ChatResponse:
        safe = "peanuts" in str(options.get("instructions")) + " ".join(each.text for each in messages[:-1])
        text = "Noodles with vegetables." if safe else "Noodles with peanut sauce!"
        text = text if messages[-1].text.endswith("?") else "Noted."
        return ChatResponse(messages=[Message("assistant", [f"{text} (told {len(messages)} messages)"])])


async def run(said: str, session_id: str, user_id: str) -> None:
    """One run of a program that has just been started."""
    async with AsyncMemory("sqlite:///octavo.db") as memory:
        if said.startswith("I am"):
            await memory.add(said, user_id=user_id)  # finds the facts in it
        history = OctavoHistoryProvider(memory.store, user_id)
        known = OctavoMemoryProvider(memory, user_id=user_id, learn=False)
        agent = Agent(Attentive(), context_providers=[history, known])
        answer = await agent.run(said, session=AgentSession(session_id=session_id))
        print(f"{user_id}, {session_id}: {said}\n  {answer}")


with tempfile.TemporaryDirectory() as folder, chdir(folder):
    asyncio.run(run("I am allergic to peanuts.", "monday", "lin"))
    asyncio.run(run("What shall I cook?", "monday", "lin"))
    asyncio.run(run("What shall I cook?", "tuesday", "lin"))
    asyncio.run(run("What shall I cook?", "tuesday", "bob"))
