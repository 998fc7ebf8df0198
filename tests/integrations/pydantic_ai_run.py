"""Runs in the frameworks' environment: Pydantic AI's agents on Octavo's histories and tools. Prints what happened as JSON.

python pydantic_ai_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import sys

from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from octavo import AsyncMemory, open_store
from octavo.chat import ChatMemory, Msg
from octavo.integrations.pydantic_ai import OctavoHistory, memory_toolset
from octavo.integrations.tools import SessionItems

PICTURE = BinaryContent(data=b"\x89PNG" * 50, media_type="image/png")
TALK = [
    ModelRequest(parts=[UserPromptPart(["What is this? 看图", PICTURE])], instructions="Be brief."),
    ModelResponse(
        parts=[ThinkingPart("a logo"), TextPart("Let me look."), ToolCallPart("look", {"at": "图"}, "c1")]
    ),
    ModelRequest(parts=[ToolReturnPart("look", {"found": ["a", 1]}, "c1"), UserPromptPart("And this?")]),
    ModelRequest(parts=[UserPromptPart([PICTURE])]),
    ModelResponse(parts=[ToolCallPart("look", '{"at": 1}', "c2")]),
    ModelRequest(parts=[ToolReturnPart("look", "nothing", "c2")]),
    ModelResponse(parts=[TextPart("Nothing.")]),
]


def scripted(*script):
    """A model that answers with these parts, one after the other, and what it was asked."""
    asked, left = [], list(script)

    def answer(messages, info):
        asked.append(messages)
        return ModelResponse(parts=[left.pop(0)])

    return FunctionModel(answer), asked


async def lossless(store):
    history = OctavoHistory(store, "pictures", "lin")
    await history.aadd(TALK)
    dumped = [ModelMessagesTypeAdapter.dump_json(each) for each in (TALK, await history.aload())]
    starts = [len(await history.aload(limit)) for limit in (0, 1, 2, 3, 4, 5, 7, 99)]
    async with AsyncMemory(store) as memory:
        hits = await memory.search("logo picture iVBORw0K 看图", user_id="lin", session_id="pictures")
    chat = await ChatMemory(store, "lin", "pictures").get_memory()
    told = [dumped[0] == dumped[1], starts, [hit.text for hit in hits]]
    return [*told, [[message.role, message.get_text_content()] for message in chat]]


class Others(SessionItems):
    """Another framework's session."""

    kept_as = "others"


async def beside_others(store):
    """A session to which other faces and frameworks speak too."""
    await ChatMemory(store, "lin", "mixed").add([Msg("lin", "Hello", "user"), Msg("bot", "Hi.", "assistant")])
    theirs, history = Others(store, "mixed", "lin"), OctavoHistory(store, "mixed", "lin")
    await theirs._keep([theirs._record(Msg("lin", "And you?", "user"), {"parts": 3}, "")])
    await history.aadd([ModelResponse(parts=[TextPart("Fine.")])])
    said = [[part.content for part in message.parts] for message in await history.aload()]
    return [said, [record.text for record in await theirs._latest(None)][-1]]


async def first(store):
    agent = Agent(TestModel(custom_output_text="Noted."))
    history = OctavoHistory(store, "monday", "lin")
    result = await agent.run("My dentist is Dr. Osei.", message_history=await history.aload())
    await history.aadd(result.new_messages())
    return {
        "kept": len(await history.aload()),
        "lossless": await lossless(store),
        "others": await beside_others(store),
    }


async def second(store):
    async with AsyncMemory(store) as memory:
        model, asked = scripted(
            ToolCallPart("remember", {"text": "I am allergic to peanuts."}), TextPart("I will."),
            ToolCallPart("search_memory", {"query": "what is she allergic to?"}), TextPart("Peanuts."),
        )  # fmt: skip
        agent = Agent(model, toolsets=[memory_toolset(memory, user_id="lin")])
        history = OctavoHistory(store, "monday", "lin")
        result = await agent.run("Remember my allergy.", message_history=await history.aload())
        await history.aadd(result.new_messages())
        told = {"asked": [len(each) for each in asked], "kept": len(await history.aload())}
        await agent.run("What must I not eat?")
        told["recalled"] = asked[-1][-1].parts[0].content
        told["found"] = [hit.text for hit in await memory.search("Osei", user_id="lin", sources=["messages"])]
        told["not_found"] = len(await memory.search("Osei", user_id="bob"))
        await history.aclear()
        told["cleared"] = await history.aload()
    return told


def blocking(url):
    with OctavoHistory(url, "sync", "lin") as history:
        agent = Agent(TestModel(custom_output_text="Yes."))
        for said in ("one", "two"):
            result = agent.run_sync(said, message_history=history.load())
            history.add(result.new_messages())
        kept = len(history.load())
        history.clear()
        return [kept, history.load()]


async def main(url, parts):
    told = {}
    async with open_store(url) as store:
        for part in parts:
            told[part] = await {"first": first, "second": second}[part](store)
    return told


if __name__ == "__main__":
    address, *parts = sys.argv[1:]
    report = asyncio.run(main(address, parts))
    print(json.dumps({**report, "blocking": blocking(address)}))
