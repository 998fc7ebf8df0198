"""An agent of AgentScope whose memory outlives the program, beside those of other users and sessions."""

import asyncio
import tempfile
from contextlib import chdir
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock
from agentscope.model import ChatModelBase, ChatResponse

from octavo.integrations.agentscope import ChatMemory


class Attentive(ChatModelBase):
    """Answers from what it is told in the call."""

    async def __call__(self, messages: list[dict[str, Any]], **_: Any) -> ChatResponse:
        *before, last = [str(message["content"]) for message in messages]
        known = any("Osei" in text for text in before)
        text = "Dr. Osei, you told me." if known else "I do not know."
        return ChatResponse(content=[TextBlock(type="text", text=text if "?" in last else "Noted.")])


async def run(said: str, user_id: str) -> None:
    """One run of a program that has just been started."""
    async with ChatMemory.open("sqlite:///octavo.db", user_id=user_id, session_id="monday") as memory:
        model = Attentive("attentive", stream=False)
        agent = ReActAgent("helper", "Be brief.", model, OpenAIChatFormatter(), memory=memory)
        agent.set_console_output_enabled(False)
        answer = await agent(Msg(user_id, said, "user"))
        print(f"{user_id}: {said}\n  {answer.get_text_content()} ({await memory.size()} messages)")


with tempfile.TemporaryDirectory() as folder, chdir(folder):
    asyncio.run(run("My dentist is Dr. Osei.", "lin"))
    asyncio.run(run("Who is my dentist?", "lin"))
    asyncio.run(run("Who is my dentist?", "bob"))
