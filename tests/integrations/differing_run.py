"""Runs in the frameworks' environment: each framework's own class beside Octavo's, where the two differ. Prints JSON.

python differing_run.py PAGE    as in `langgraph`
"""

import asyncio
import json
import math
import sys
import tempfile
from datetime import date


async def outcome(work):
    """What was answered, or the name of what was raised."""
    try:
        return await work
    except Exception as error:
        return type(error).__name__


async def openai_agents():
    from agents import SQLiteSession

    from octavo import AsyncMemory
    from octavo.integrations.openai_agents import OctavoSession

    said, item = {}, {"role": "user", "content": "hello"}
    async with AsyncMemory("memory://") as memory:
        await memory.add("Tea, please.", user_id="lin", session_id="shared")
        for session in (SQLiteSession, lambda name: OctavoSession(memory.store, name, "lin")):
            kept = []
            for strange in ({"content": "a\0b"}, {"content": "a\ud800"}, {"n": math.nan}, {"n": 2**70}):
                kept.append(await outcome(session("strange").add_items([item | strange])))
            shared = session("shared")
            said[type(shared).__name__] = [kept, [each["content"] for each in await shared.get_items()]]
        said["another user"] = await OctavoSession(memory.store, "shared", "wei").get_items()
    return said


async def langgraph():
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.store.memory import InMemoryStore

    from octavo.integrations.langgraph import OctavoSaver, OctavoStore

    said = {}
    for store in (InMemoryStore(), OctavoStore("memory://")):
        here, value = ("a",), {"text": "My dentist is Dr. Osei.", "n": 5, "days": (date(2026, 1, 1),)}
        await store.aput(here, "1", value)
        await store.aput(here, "2", {"text": "rain", "n": "many"})
        born = (await store.aget(here, "1")).created_at
        told = {
            "asked": [item.key for item in await store.asearch(here, query="Who is my dentist?")],
            "listed": [item.key for item in await store.asearch(here)],
            "compared": await outcome(store.asearch(here, filter={"n": {"$gt": 1}})),
            "read": str((await store.aget(here, "1")).value["days"]),
            "long": await outcome(store.aput(here, "k" * 256, {})),
            "mortal": await outcome(store.aput(here, "3", {}, ttl=1)),
        }
        if isinstance(told["compared"], list):
            told["compared"] = [item.key for item in told["compared"]]
        await store.aput(here, "1", value)
        told["born"] = (await store.aget(here, "1")).created_at == born
        said[type(store).__name__] = told
    for saver in (InMemorySaver(), OctavoSaver("memory://")):
        said[type(saver).__name__] = [
            await outcome(work) for work in (saver.acopy_thread("a", "b"), saver.aprune(["a"]), saver.adelete_for_runs(["r"]))
        ]  # fmt: skip
    return said


async def anthropic():
    from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool

    from octavo.integrations.anthropic import OctavoMemoryTool

    def answer(tool, path, text):
        try:
            return tool.call({"command": "create", "path": path, "file_text": text}).split(":")[0]
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    said, deep = {}, "/memories/" + "/".join(["x" * 60] * 5)
    with tempfile.TemporaryDirectory() as folder, OctavoMemoryTool("memory://") as ours:
        for tool in (BetaLocalFilesystemMemoryTool(folder), ours):
            files = [(deep, "x"), ("/memories/nul", "a\0b"), ("/memories/big", "x" * 17 * 2**20)]
            said[type(tool).__name__] = [answer(tool, *file)[-60:] for file in files]
    return said


async def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from octavo.integrations.pydantic_ai import OctavoHistory

    async with OctavoHistory("memory://", "monday") as history:
        result = await Agent(TestModel()).run("Hello")
        await history.aadd(result.new_messages())
        again = await Agent(TestModel()).run("Bye", message_history=await history.aload())
        await history.aadd(again.all_messages())  # the first two for the second time
        return [len(await history.aload()), [each.kind for each in await history.aload(limit=1)]]


async def agent_framework():
    from agent_framework import AgentSession, InMemoryHistoryProvider, Message

    from octavo.integrations.agent_framework import OctavoHistoryProvider

    said = {}
    for provider in (InMemoryHistoryProvider(), OctavoHistoryProvider("memory://")):
        session = AgentSession(session_id="monday")
        state = session.state.setdefault(provider.source_id, {})
        await provider.save_messages("monday", [Message("user", ["hello"])], state=state)
        named = AgentSession(session_id="monday")
        found = await provider.get_messages("monday", state=named.state.setdefault(provider.source_id, {}))
        said[type(provider).__name__] = ["hello" in str(session.to_dict()), [each.text for each in found]]
    said["skip_excluded"] = [
        hasattr(InMemoryHistoryProvider(), "skip_excluded"),
        hasattr(provider, "skip_excluded"),
    ]
    return said


async def llama_index():
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory

    from octavo.integrations.llama_index import OctavoMemory

    said = {}
    for memory in (
        Memory.from_defaults(session_id="monday"), OctavoMemory.from_defaults("memory://", "monday")
    ):  # fmt: skip
        for text in "abc":
            await memory.aput(ChatMessage(text))
        removed = await memory.sql_store.delete_message("monday", 1)
        left = [each.content for each in await memory.aget_all()]
        said[type(memory).__name__] = [removed and removed.content, left]
    return said


async def adk():
    from google.adk.events import Event
    from google.adk.memory import InMemoryMemoryService
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    from octavo import AsyncMemory
    from octavo.integrations.adk import OctavoMemoryService, OctavoSessionService

    def event(name, text):
        return Event(
            id=name, author="user", content=types.Content(role="user", parts=[types.Part(text=text)])
        )

    said, who = {}, {"app_name": "helper", "user_id": "lin"}
    async with AsyncMemory("memory://") as memory:
        for service in (InMemorySessionService(), OctavoSessionService(memory.store)):
            first = await service.create_session(**who, session_id="monday", state={"due": date(2026, 1, 1)})
            late = await service.get_session(**who, session_id="monday")
            await service.append_event(first, event("1", "hello"))
            stale = await outcome(service.append_event(late, event("2", "late")))
            fresh = await service.get_session(**who, session_id="monday")
            same = await outcome(service.append_event(fresh, event("1", "another")))
            told = await service.get_session(**who, session_id="monday")
            said[type(service).__name__] = [
                stale if isinstance(stale, str) else "kept", same if isinstance(same, str) else "kept",
                [each.id for each in told.events], type(told.state["due"]).__name__,
            ]  # fmt: skip
        events = [event("3", "My dentist is Dr. Osei."), event("4", "I like long walks.")]
        entry = MemoryEntry(content=types.Content(parts=[types.Part(text="Likes tea")]))
        for service in (InMemoryMemoryService(), OctavoMemoryService(memory)):
            await service.add_events_to_memory(**who, events=events, session_id="tuesday")
            found = {}
            for query in ("is it raining", "walking"):
                hits = (await service.search_memory(**who, query=query)).memories
                found[query] = [hit.id for hit in hits]
            said[type(service).__name__] = [found, await outcome(service.add_memory(**who, memories=[entry]))]
    return said


if __name__ == "__main__":
    print(json.dumps(asyncio.run(globals()[sys.argv[1].replace("-", "_")]())))
