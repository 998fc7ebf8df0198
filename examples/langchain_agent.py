"""An agent of LangChain with memory tools: what it is told to remember, it finds after a restart. Needs `pip install langchain`."""

import tempfile
from collections.abc import Sequence
from contextlib import chdir
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from octavo import Memory
from octavo.integrations.langchain import OctavoRetriever, memory_tools


class Scripted(GenericFakeChatModel):
    """A model that calls the tools it is scripted to call, and then tells what they answered."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Scripted":  # noqa: ARG002
        return self


def run(said: str, tool: str, **given: str) -> None:
    """One run of a program that has just been started."""
    with Memory("sqlite:///octavo.db") as memory:
        call = AIMessage("", tool_calls=[{"name": tool, "args": given, "id": "1"}])
        model = Scripted(messages=iter([call, AIMessage("Done.")]))
        agent = create_agent(model, tools=memory_tools(memory, user_id="lin"))
        done = agent.invoke({"messages": [{"role": "user", "content": said}]})
        answer = done["messages"][2].content.split(" ", 2)[2]  # of the tool: `- insert: …`, `- 2026-11-17 …`
        print(f"{said}\n  {tool}: {answer}")


with tempfile.TemporaryDirectory() as folder, chdir(folder):
    run("My dentist is Dr. Osei.", "remember", text="Lin's dentist is Dr. Osei.")
    run("Who is my dentist?", "search_memory", query="dentist")
    with Memory("sqlite:///octavo.db") as memory:
        retriever = OctavoRetriever(memory=memory, user_id="lin")
        print("for a chain:", [document.page_content for document in retriever.invoke("dentist")])
