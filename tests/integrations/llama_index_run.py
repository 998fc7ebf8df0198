"""Runs in the frameworks' environment: LlamaIndex's chat engines and agents on Octavo's memory. Prints what happened as JSON.

python llama_index_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import random
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import BaseMemory, BaseMemoryBlock
from llama_index.core.memory import Memory as LlamaMemory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from octavo import AsyncMemory, Memory
from octavo.chat import ChatMemory
from octavo.integrations.llama_index import OctavoChatStore, OctavoMemory, OctavoMemoryBlock, memory_tools


def scripted(*script):
    """A model that says what it was given to say, and the list of what it is asked."""
    asked, script = [], list(script)

    def answer(messages, **_):
        asked.append([message.content or "" for message in messages])
        said = script.pop(0)
        return said if isinstance(said, ChatMessage) else ChatMessage(said, role="assistant")

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True), asked


def call(name, **arguments):
    block = ToolCallBlock(tool_call_id=f"call_{name}", tool_name=name, tool_kwargs=arguments)
    return ChatMessage(role="assistant", blocks=[block])


PICTURE = ImageBlock(image=b"\x89PNG" * 50, image_mimetype="image/png")
TALK = [
    ChatMessage("Be brief.", role="system"),
    ChatMessage(role="user", blocks=[TextBlock(text="看图 what is this?"), PICTURE]),
    ChatMessage(role="user", blocks=[PICTURE]),
    ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="hm"),
            TextBlock(text="Let me look."),
            ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"at": 1}),
        ],
    ),
    ChatMessage("a logo", role="tool", additional_kwargs={"tool_call_id": "c1", "name": "look"}),
    ChatMessage("A logo.", role="assistant", additional_kwargs={"seen": [True, None]}),
    ChatMessage("", role="user"),
]


def dumped(answer):
    if not isinstance(answer, list):
        return answer
    return [one.model_dump(mode="json") if isinstance(one, ChatMessage) else one for one in answer]


async def like_theirs(store):
    """The same calls to a chat store of LlamaIndex's own and to ours; where their answers differ."""
    differing = []
    for seed in range(2):
        draw = random.Random(seed)
        theirs, ours = SQLAlchemyChatStore(table_name="theirs"), OctavoChatStore(store, f"oracle-{seed}")
        for _ in range(40):
            key, status = draw.choice(["a", "b"]), draw.choice([*MessageStatus, None])
            some = draw.choices(TALK, k=draw.randrange(1, 5))
            verb, given = draw.choice([
                ("add_messages", (key, some)),
                ("add_messages", (key, some, MessageStatus.ARCHIVED)),
                ("add_message", (key, some[0])),
                ("get_messages", (key, status, draw.choice([None, 0, 1, 3]), draw.choice([None, 0, 2]))),
                ("get_messages", (key,)),
                ("count_messages", (key, status)),
                ("archive_oldest_messages", (key, draw.randrange(4))),
                ("delete_oldest_messages", (key, draw.randrange(3))),
                ("set_messages", (key, some)) if draw.random() < 0.3 else ("get_keys", ()),
                ("delete_messages", (key, status)) if draw.random() < 0.3 else ("get_keys", ()),
            ])  # fmt: skip
            if verb == "get_messages" and len(given) > 2 and given[3] and given[2] is None:
                given = (*given[:2], 5, given[3])  # or SQLite refuses theirs
            answers = [dumped(await getattr(one, verb)(*given)) for one in (theirs, ours)]
            if verb == "get_keys":
                answers = [sorted(each) for each in answers]
            if answers[0] != answers[1]:
                differing.append([seed, verb, str(given), answers])
    return differing


async def lossless(store):
    memory = OctavoMemory.from_defaults(store, "pictures", "lin")
    await memory.aput_messages(TALK)
    same = dumped(await memory.aget_all()) == dumped(TALK)
    gone = await memory.sql_store.delete_message("pictures", 0)
    chat = await ChatMemory(store, user_id="lin", session_id="pictures").get_memory()
    blocks = [block["type"] for message in chat for block in message.get_content_blocks()]
    other = await OctavoMemory.from_defaults(store, "pictures", "bob").aget_all()
    async with AsyncMemory(store) as known:
        found = [hit.text for hit in await known.search("what is this", user_id="lin", sources=["messages"])]
    return [same, gone.content, blocks, len(other), found]


async def waterfall(store):
    """A memory with room for few words: the oldest messages leave it, are kept, and the block learns from them."""
    async with AsyncMemory(store) as known:
        block = OctavoMemoryBlock(memory=known, user_id="ann", max_tokens=200)
        memory = OctavoMemory.from_defaults(
            store, "long", "ann", memory_blocks=[block], token_limit=60, token_flush_size=10
        )
        for number, said in enumerate(["I am allergic to peanuts.", *("Tell me more, please." * 2,) * 4]):
            await memory.aput(ChatMessage(f"{said} {number}", role="user"))
            await memory.aput(ChatMessage("Of course.", role="assistant"))
        told = await memory.aget("What must I not eat?")
        return {
            "at_hand": len(await memory.aget_all(status=MessageStatus.ACTIVE)) < 10,
            "all": len(await memory.aget_all()),
            "told": [message.content for message in told],
            "facts": [fact.content for fact in await known.get_all(user_id="ann")],
        }


async def first(store):
    memory = OctavoMemory.from_defaults(store, "monday", "lin")
    real = [isinstance(memory, LlamaMemory), isinstance(memory, BaseMemory)]
    real.append(issubclass(OctavoMemoryBlock, BaseMemoryBlock))
    llm, asked = scripted("Hello Lin.", call("remember", text="Lin's dentist is Dr. Osei."), "Noted.")
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)
    await engine.achat("My name is Lin, 我住在杭州。")
    async with AsyncMemory(store) as known:
        agent = FunctionAgent(llm=llm, tools=memory_tools(known, user_id="lin"), streaming=False)
        await agent.run("My dentist is Dr. Osei.", memory=memory)
    told = {"real": real, "asked": [len(each) for each in asked], "lossless": await lossless(store)}
    return {**told, "differing": await like_theirs(store), "waterfall": await waterfall(store)}


async def second(store):
    memory = OctavoMemory.from_defaults(store, "monday", "lin")
    llm, asked = scripted(call("search_memory", query="dentist"), "Dr. Osei.")
    async with AsyncMemory(store) as known:
        block = OctavoMemoryBlock(memory=known, user_id="lin", accept_short_term_memory=False)
        blocks = OctavoMemory.from_defaults(store, "tuesday", "lin", memory_blocks=[block])
        tools = memory_tools(known, user_id="lin")
        agent = FunctionAgent(llm=llm, tools=tools, streaming=False)
        await agent.run("Who is my dentist?", memory=memory)
        told = {"asked": [len(each) for each in asked], "first": asked[0][0], "recalled": asked[1][-1]}
        told["roles"] = [message.role.value for message in await memory.aget_all()]
        knowing, heard = scripted("Osei.")
        engine = SimpleChatEngine.from_defaults(llm=knowing, memory=blocks)
        await engine.achat("Who is my dentist?")
        told["heard"] = heard[0]
        told["tools"] = [
            [tool.metadata.name, sorted(tool.metadata.get_parameters_dict()["properties"])] for tool in tools
        ]
        told["found"] = (await known.search("Osei", user_id="lin", sources=["messages"]))[0].text
        told["others"] = len(await known.search("Osei", user_id="bob"))
        try:
            memory.get()
        except RuntimeError as error:
            told["deadlock"] = str(error)
        try:
            OctavoMemoryBlock(memory=known, user_id="")
        except ValueError as error:
            told["refused"] = str(error)
    try:
        await memory.aput("hello")
    except TypeError as error:
        told["no_message"] = str(error)
    try:
        OctavoMemory.from_dict(memory.to_dict())
    except ValueError as error:
        told["homeless"] = "sql_store" in str(error)
    await memory.areset()
    told["reset"] = len(await memory.aget_all())
    return told


def blocking(url):
    """Engines for callers who block, on a memory that opens its store itself."""
    with Memory(url) as known, OctavoMemory.from_defaults(url, "friday", "eve") as memory:
        known.add("I am allergic to peanuts.", user_id="eve")
        engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
        engine.chat("one")
        engine.chat("two")
        counts = [len(memory.get()), len(memory.get_all())]
        memory.set(memory.get_all()[-2:])
        memory.put(ChatMessage("three", role="user"))
        counts.append(len(engine.chat_history))
        engine.reset()
        block = OctavoMemoryBlock(memory=known, user_id="eve")
        knowing = OctavoMemory.from_defaults(url, "friday", "eve", memory_blocks=[block])
        [system] = knowing.get("What must I not eat?")
        knowing.close()
        return [*counts, memory.get_all(), "peanuts" in system.content]


async def main(url, parts):
    told = {}
    async with AsyncMemory(url) as memory:
        for part in parts:
            told[part] = await {"first": first, "second": second}[part](memory.store)
    return told


if __name__ == "__main__":
    address, *parts = sys.argv[1:]
    told = asyncio.run(main(address, parts))
    told["blocking"] = blocking(address) if "second" in parts else None
    print(json.dumps(told))
