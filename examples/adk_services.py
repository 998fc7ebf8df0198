"""An agent of Google's ADK with sessions and a memory of them; ADK's own tool asks the memory before each call of the model."""

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator
from contextlib import chdir
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from octavo import AsyncMemory
from octavo.integrations.adk import OctavoMemoryService, OctavoSessionService


class Attentive(BaseLlm):
    """Answers from what it is told in the call."""

    async def generate_content_async(
        self,
        llm_request: Any,
        stream: bool = False,  # noqa: ARG002
    ) -> AsyncGenerator[LlmResponse]:
        known = "Osei" in str(llm_request.contents)
        part = types.Part(text="You told me of Dr. Osei." if known else "I do not know.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run(said: str, session_id: str, user_id: str) -> None:
    """One run of a program that has just been started; at its end the session is added to memory."""
    async with AsyncMemory("sqlite:///octavo.db") as memory:
        sessions, remembered = OctavoSessionService(memory.store), OctavoMemoryService(memory)
        agent = LlmAgent(name="helper", model=Attentive(model="attentive"), tools=[PreloadMemoryTool()])
        runner = Runner(app_name="helper", agent=agent, session_service=sessions, memory_service=remembered)
        events = await runner.run_debug(said, user_id=user_id, session_id=session_id, quiet=True)
        print(f"{user_id}, {session_id}: {said}\n  {events[-1].content.parts[0].text}")
        session = await sessions.get_session(app_name="helper", user_id=user_id, session_id=session_id)
        await remembered.add_session_to_memory(session)


logging.disable(logging.WARNING)  # this model counts no tokens
with tempfile.TemporaryDirectory() as folder, chdir(folder):
    asyncio.run(run("My dentist is Dr. Osei.", "monday", "lin"))
    asyncio.run(run("Who is my dentist?", "tuesday", "lin"))
    asyncio.run(run("Who is my dentist?", "tuesday", "bob"))
