"""An agent of the OpenAI Agents SDK whose session outlives the program; the model here only knows what it is told."""

import asyncio
import tempfile
from contextlib import chdir
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from octavo import AsyncMemory
from octavo.integrations.openai_agents import OctavoSession, memory_tools


class Attentive(Model):
    """Answers from what stands in the conversation."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002, ARG002
        known = any("Osei" in str(item) for item in input[:-1])
        text = "Your dentist is Dr. Osei." if known else "I do not know."
        text = text if str(input[-1]["content"]).endswith("?") else "Noted."
        said = ResponseOutputText(text=text, type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="1", content=[said], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def run(said: str, session_id: str) -> None:
    """One run of a program that has just been started."""
    async with AsyncMemory("sqlite:///octavo.db") as memory:
        agent = Agent(name="helper", model=Attentive(), tools=memory_tools(memory, user_id="lin"))
        session = OctavoSession(memory.store, session_id, "lin")
        answer = await Runner.run(agent, said, session=session)
        print(f"{session_id}: {said}\n  {answer.final_output}")


set_tracing_disabled(disabled=True)
with tempfile.TemporaryDirectory() as folder, chdir(folder):
    asyncio.run(run("My dentist is Dr. Osei.", "monday"))
    asyncio.run(run("Who is my dentist?", "monday"))
    asyncio.run(run("Who is my dentist?", "another session"))
