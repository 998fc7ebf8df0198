"""Runs in AgentScope's own environment: real agents on Octavo's memories. Prints what happened as one line of JSON.

python agentscope_run.py FOLDER REDIS_URL
"""

import asyncio
import json
import sys
import warnings

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import MemoryBase
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.session import JSONSession
from agentscope.token import CharTokenCounter
from agentscope.tool import Toolkit, ToolResponse
from pydantic import BaseModel
from redis.asyncio import ConnectionPool
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from octavo import chat
from octavo.chat.compression import CompressionConfig, compress
from octavo.errors import ConfigError
from octavo.integrations import agentscope as ours

SUMMARY = ("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve")


class Scripted(ChatModelBase):
    """A model that says what it was given to say, and keeps what it was asked."""

    def __init__(self, *script):
        super().__init__("scripted", stream=False)
        self.script = list(script)
        self.prompts = []

    async def __call__(self, messages, structured_model=None, **_):
        self.prompts.append(json.dumps(messages, ensure_ascii=False))
        if structured_model is not None:
            return ChatResponse(content=[], metadata={field: f"{field}: 花生" for field in SUMMARY})
        return ChatResponse(content=[self.script.pop(0)])


async def weather(city: str) -> ToolResponse:
    """The weather in a city."""
    return ToolResponse(content=[TextBlock(type="text", text=f"{city}: 23 degrees")])


def agent_on(memory, model, **more):
    toolkit = Toolkit()
    toolkit.register_tool_function(weather)
    agent = ReActAgent(
        name="guide", sys_prompt="You are a guide.", model=model, formatter=OpenAIChatFormatter(), toolkit=toolkit,
        memory=memory, **more,
    )  # fmt: skip
    agent.set_console_output_enabled(False)
    return agent


def said(text):
    return TextBlock(type="text", text=text)


def asks(name):
    return ToolUseBlock(type="tool_use", id=name, name="weather", input={"city": "杭州"})


async def talk(memory):
    """Two questions, a call of a tool, and a compression by the agent itself."""
    model = Scripted(asks("call-1"), said("It is 23 degrees."), said("You asked about 杭州."))
    agent = agent_on(memory, model)
    first = await agent(Msg("lin", "How warm is it in 杭州?", "user"))
    second = await agent(Msg("lin", "What did I ask?", "user"))
    kept = await memory.get_memory()
    counter = CharTokenCounter()
    settings = ReActAgent.CompressionConfig(
        enable=True, agent_token_counter=counter, trigger_threshold=10, keep_recent=2
    )
    last = Scripted(said("Bye."))
    await agent_on(memory, last, compression_config=settings)(Msg("lin", "Thanks, bye", "user"))
    short = await memory.get_memory(exclude_mark="compressed")
    return {
        "real": isinstance(memory, MemoryBase) and agent.memory is memory,
        "replies": [first.get_text_content(), second.get_text_content()],
        "types": [[block["type"] for block in message.get_content_blocks()] for message in kept],
        "theirs": all(type(message) is Msg for message in kept),
        "model_saw_result": "杭州: 23 degrees" in model.prompts[1],
        "model_saw_first_question": "How warm" in model.prompts[2],
        "compressed": len(await memory.get_memory(mark="compressed", prepend_summary=False)),
        "short": [message.get_text_content() for message in short][1:],
        "summary": short[0].get_text_content()[:60],
        "model_saw_summary": "important_discoveries: 花生" in last.prompts[-1],
        "model_saw_compressed": "How warm" in last.prompts[-1],
        "size": await memory.size(),
        "state": sorted(memory.state_dict()),
        "agent_state_is_json": bool(json.dumps(agent.state_dict())),
    }


class Answer(BaseModel):
    """What the agent is asked to fill in."""

    city: str


async def hinted(memory):
    """A hint is shown to the model once, and taken out of the memory by its mark."""
    fills = ToolUseBlock(type="tool_use", id="f", name="generate_response", input={"city": "杭州"})
    model = Scripted(said("Let me see."), fills, said("It is 杭州."))
    reply = await agent_on(memory, model)(Msg("lin", "Which city?", "user"), structured_model=Answer)
    texts = [message.get_text_content() or "" for message in await memory.get_memory()]
    return {
        "metadata": reply.metadata,
        "shown": ["<system-hint>" in prompt for prompt in model.prompts],
        "left": any("<system-hint>" in text for text in texts),
    }


def every_block():
    source = {"type": "url", "url": "https://example.org/x"}
    inner = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    return [
        {"type": "text", "text": "早上好 😀"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "c", "name": "t", "input": {"a": [1, None, 2.5]}, "raw_input": "{}"},
        {"type": "tool_result", "id": "c", "name": "t", "output": [{"type": "text", "text": "ok"}]},
        {"type": "image", "source": inner},
        {"type": "audio", "source": source},
        {"type": "video", "source": source},
    ]


def fields(message):
    return {**message.to_dict(), "invocation_id": message.invocation_id}


async def lossless(memory):
    """Messages of every shape come back as they were given."""
    given = [
        Msg("lin", "plain", "user"),
        Msg("lin", "", "system", metadata={"deep": {"a": [1, "二", None, True]}}, timestamp="2026-01-02 03:04:05.678"),
        Msg("lin", every_block(), "assistant", invocation_id="run-7"),
        Msg("lin", [], "assistant"),
    ]  # fmt: skip
    await memory.add(given, marks=["one", "two"])
    await memory.add(given[0], marks="three")  # kept already
    back = await memory.get_memory()
    return [fields(message) for message in back] == [fields(message) for message in given]


async def refused(memory):
    """What a store cannot do without waiting is said, and nothing of it is done."""
    before = await memory.octavo.state_dict()
    try:
        memory.load_state_dict({"_compressed_summary": "x", "content": []})
    except ConfigError as error:
        return (
            "await memory.octavo.load_state_dict" in str(error) and before == await memory.octavo.state_dict()
        )
    return False


async def summary_loaded(made):
    """A summary of a state, and one that is assigned, is told afterwards, by another memory of the session too."""
    told = []
    async with made("loads") as memory:
        memory.load_state_dict({"_compressed_summary": "X"}, strict=False)
        told.append(memory.state_dict()["_compressed_summary"])
        told += [message.get_text_content() for message in await memory.get_memory()]
        memory._compressed_summary = "Y"
        told.append(memory.state_dict()["_compressed_summary"])
        await memory.add(Msg("lin", "hello", "user"))
        told += [message.get_text_content() for message in await memory.octavo.get_memory()]
        memory.load_state_dict({"_compressed_summary": "Z"}, strict=False)
    if isinstance(memory, ours.ChatMemory | ours.AsyncSQLAlchemyMemory | ours.RedisMemory):
        async with made("loads") as again:
            again.load_state_dict(again.state_dict())  # it does not know, and so leaves what is kept
            told.append((await again.get_memory())[0].get_text_content())
    return told


async def moves(memory):
    """Attributes that AgentScope's memories have are assigned, and lead to another session and back."""
    await memory.add(Msg("lin", "here", "user"))
    await memory.update_compressed_summary("so far")
    seen = []
    for name in ("session_id", "user_id", "key_prefix"):
        if hasattr(type(memory.octavo), name):
            before = getattr(memory, name)
            setattr(memory, name, "elsewhere")
            seen.append([name, await memory.size(), memory.state_dict()["_compressed_summary"] or ""])
            setattr(memory, name, before)
    return [seen, [message.content for message in await memory.get_memory()]]


async def content_of(memory):
    """`content` as AgentScope has it where AgentScope has it; elsewhere it is refused."""
    if not isinstance(memory, ours.InMemoryMemory):
        try:
            memory.content = []
        except AttributeError as error:
            return "content cannot be assigned" in str(error)
    await memory.add(Msg("lin", "two", "user"), marks="m")
    memory.content = [pair for pair in memory.content if pair[1] == ["m"]]
    [(message, marks)] = memory.content
    return type(message) is Msg and (message.content, marks, await memory.size()) == ("two", ["m"], 1)


async def duplicates(memory):
    """What is done with `skip_duplicated=False`, the third argument of AgentScope's memories in stores."""
    one = Msg("lin", "one", "user")
    await memory.add(one)
    if not isinstance(memory, ours.AsyncSQLAlchemyMemory | ours.RedisMemory):
        await memory.add(one, None, True)
        await memory.add(one, skip_duplicated=False)
        return await memory.size()
    await memory.add(one, None, True)
    try:
        await memory.add([one, Msg("lin", "two", "user")], "m", False)
    except IntegrityError:
        return f"IntegrityError {await memory.size()}"
    return await memory.size()


async def moved(folder):
    """A whole agent is saved and loaded by AgentScope's own sessions."""
    old, new = ours.InMemoryMemory(), ours.InMemoryMemory()
    await lossless(old)
    await old.update_compressed_summary("so far")
    session = JSONSession(save_dir=f"{folder}/sessions")
    await session.save_session_state("s", guide=agent_on(old, Scripted()))
    await session.load_session_state("s", guide=agent_on(new, Scripted()))
    texts = [message.get_text_content() for message in await new.get_memory()]
    return new.state_dict() == old.state_dict() and texts[0] == "so far"


async def compressed_by_octavo():
    """Octavo's own compression works on what the memory holds."""
    memory = ours.InMemoryMemory()
    await memory.add([Msg("lin", f"message {number}", "user") for number in range(10)])
    done = await compress(memory.octavo, lambda _: "S", CompressionConfig(trigger=0, keep_recent=2))
    shown = [message.get_text_content() for message in await memory.get_memory(exclude_mark="compressed")]
    return done.messages == 8 and shown == ["S", "message 8", "message 9"]


async def main(folder, redis_url):
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder}/alchemy.db")
    pool = ConnectionPool.from_url(redis_url, decode_responses=True)
    report = {}
    async with AsyncSession(engine) as session:
        makers = {
            "InMemoryMemory": lambda user: ours.InMemoryMemory(),
            "ChatMemory": lambda user: ours.ChatMemory.open(f"sqlite:///{folder}/chat.db", user_id=user),
            "AsyncSQLAlchemyMemory": lambda user: ours.AsyncSQLAlchemyMemory(engine, user_id=user),
            "RedisMemory": lambda user: ours.RedisMemory(connection_pool=pool, user_id=user),
            "OctavoMemory": lambda user: ours.OctavoMemory(chat.ChatMemory.open("memory://", user)),
        }
        for name, made in makers.items():
            async with made("talks") as memory:
                report[name] = await talk(memory)
            async with made("hints") as memory:
                report[name]["hints"] = await hinted(memory)
            async with made("every block") as memory:
                report[name]["lossless"] = await lossless(memory)
                report[name]["refused"] = name == "InMemoryMemory" or await refused(memory)
            async with made("moves") as memory:
                report[name]["moves"] = await moves(memory)
                report[name]["content"] = await content_of(memory)
            async with made("duplicates") as memory:
                report[name]["duplicates"] = await duplicates(memory)
            report[name]["loaded"] = await summary_loaded(made)
        joined = ours.AsyncSQLAlchemyMemory(session, user_id="joined")
        await joined.add(Msg("lin", "taken back", "user"))
        await session.rollback()
        report["rolled_back"] = await joined.size() == 0
    positional = ours.AsyncSQLAlchemyMemory(engine, "monday", "lin")
    report["session_first"] = (positional.session_id, positional.user_id) == ("monday", "lin")
    at = pool.connection_kwargs
    named = {"host": at["host"], "port": at["port"], "db": at["db"], "password": at.get("password")}
    memory = ours.RedisMemory("s", "u", **named, client_name="octavo-test", socket_timeout=5)
    report["options"] = await memory.get_client().client_getname() == "octavo-test"
    await memory.close()
    report["moved"] = await moved(folder)
    report["compress"] = await compressed_by_octavo()
    await pool.disconnect()
    await engine.dispose()
    return report


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # such as a coroutine that nobody awaited
        print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
