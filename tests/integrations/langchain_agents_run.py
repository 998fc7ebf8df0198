"""Runs in the frameworks' environment: agents and chains of today's LangChain on Octavo's retriever and tools. Prints JSON.

python langchain_agents_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import sys

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from octavo import AsyncMemory, Memory
from octavo.integrations.langchain import OctavoRetriever, memory_tools


class Scripted(GenericFakeChatModel):
    """A model that answers by a script; tools may be bound to it."""

    def bind_tools(self, tools, **_):
        return self


def call(name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call_{name}"}])


def agent(memory, *script, user_id="lin"):
    return create_agent(Scripted(messages=iter(script)), tools=memory_tools(memory, user_id=user_id))


def asked(question):
    return {"messages": [{"role": "user", "content": question}]}


def chain(retriever):
    """Documents in a prompt, and a model that tells what it was told."""
    prompt = ChatPromptTemplate.from_messages([("system", "Known: {known}"), ("human", "{question}")])
    joined = retriever | (lambda documents: " | ".join(each.page_content for each in documents))
    model = RunnableLambda(lambda prompt: AIMessage(prompt.to_messages()[0].content))
    return {"known": joined, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


async def first(memory):
    """Awaited, on another event loop than the memory's."""
    remembering = agent(memory, call("remember", text="Lin's dentist is Dr. Osei."), AIMessage("Noted."))
    done = await remembering.ainvoke(asked("My dentist is Dr. Osei."))
    told = {"said": [message.type for message in done["messages"]]}
    retriever = OctavoRetriever(memory=memory, user_id="lin")
    return {**told, "answer": await chain(retriever).ainvoke("Who is my dentist?")}


async def awaiting():
    """On a memory of the event loop that runs here."""
    async with AsyncMemory("memory://") as memory:
        await memory.add("My dentist is Dr. Osei.", user_id="lin")
        retriever = OctavoRetriever(memory=memory, user_id="lin")
        told = [await chain(retriever).ainvoke("Who is my dentist?")]
        told.append(await memory_tools(memory, user_id="lin")[0].ainvoke({"query": "dentist"}))
        for wrong in (
            lambda: retriever.invoke("dentist"),
            lambda: OctavoRetriever(memory=memory, user_id=""),
            lambda: memory_tools(memory, user_id=""),
        ):
            try:
                wrong()
            except (TypeError, ValueError) as error:
                told.append(str(error))
        return told


def second(memory):
    done = agent(memory, call("search_memory", query="dentist"), AIMessage("Dr. Osei.")).invoke(
        asked("Who is my dentist?")
    )
    told = {"recalled": done["messages"][2].content}
    retriever = OctavoRetriever(memory=memory, user_id="lin", sources=["messages"])
    told["real"] = isinstance(retriever, BaseRetriever)
    told["answer"] = chain(retriever).invoke("Who is my dentist?")
    [document] = retriever.invoke("花生", k=1)
    told["document"] = [document.page_content, {
        name: document.metadata[name] for name in ("source", "kind", "user_id", "session_id")
    }]  # fmt: skip
    told["session"] = [
        each.page_content
        for each in OctavoRetriever(memory=memory, user_id="lin", session_id="monday").invoke("dentist 花生")
    ]
    told["others"] = [
        each.page_content for each in OctavoRetriever(memory=memory, user_id="bob").invoke("dentist")
    ]
    told["awaited"] = asyncio.run(chain(retriever).ainvoke("Who is my dentist?")) == told["answer"]
    tools = memory_tools(memory, user_id="lin")
    told["tools"] = [[tool.name, sorted(tool.args), bool(tool.description)] for tool in tools]
    told["awaited_tool"] = asyncio.run(tools[0].ainvoke({"query": "dentist"})) == tools[0].invoke(
        {"query": "dentist"}
    )
    told["dumped"] = "memory" in retriever.model_dump() or "octavo" in repr(retriever.model_dump())
    return told


if __name__ == "__main__":
    address, *parts = sys.argv[1:]
    told = {}
    with Memory(address) as memory:
        if "first" in parts:
            memory.add("我对花生过敏。", user_id="lin", session_id="monday", metadata={"by": "chat"})
            memory.add("Bob's dentist is Dr. Wu.", user_id="bob")
            told = {"first": asyncio.run(first(memory)), "awaiting": asyncio.run(awaiting())}
        if "second" in parts:
            told["second"] = second(memory)
    print(json.dumps(told))
