"""An agent of Pydantic AI whose history outlives the program, and that finds what was said in other sessions by a tool."""

import tempfile
from contextlib import chdir

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from octavo import Memory
from octavo.integrations.pydantic_ai import OctavoHistory, memory_toolset


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A model that asks its memory, and then answers from what stands in the conversation."""
    told = messages[-1].parts[-1]
    if told.part_kind == "user-prompt" and str(told.content).endswith("?"):
        return ModelResponse([ToolCallPart("search_memory", {"query": str(told.content)})])
    known = "Osei" in str(messages)
    return ModelResponse([TextPart("Dr. Osei." if known else "I do not know.")])


def run(said: str, session_id: str, user_id: str) -> None:
    """One run of a program that has just been started."""
    url = "sqlite:///octavo.db"
    with Memory(url) as memory, OctavoHistory(url, session_id, user_id) as history:
        agent = Agent(FunctionModel(answer), toolsets=[memory_toolset(memory, user_id=user_id)])
        result = agent.run_sync(said, message_history=history.load())
        history.add(result.new_messages())
        print(f"{user_id}, {session_id}: {said}\n  {result.output} ({len(history.load())} messages)")


with tempfile.TemporaryDirectory() as folder, chdir(folder):
    run("My dentist is Dr. Osei.", "monday", "lin")
    run("Who is my dentist?", "tuesday", "lin")
    run("Who is my dentist?", "tuesday", "bob")
