"""Runs in an environment of AgentScope and LangChain: their own classes write what is to be imported.

python makers_run.py FOLDER
"""

import asyncio
import sys
from pathlib import Path

from agentscope.memory import AsyncSQLAlchemyMemory, InMemoryMemory
from agentscope.message import Msg, TextBlock
from agentscope.session import JSONSession
from langchain_community.chat_message_histories import FileChatMessageHistory, SQLChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from sqlalchemy.ext.asyncio import create_async_engine

LANGCHAIN = [
    HumanMessage("I live in Berlin."),
    AIMessage("Noted.", tool_calls=[{"name": "remember", "args": {"city": "Berlin"}, "id": "t1"}]),
    ToolMessage("done", tool_call_id="t1"),
]


def agentscope():
    """Messages, new each time: their ids are their own."""
    return [
        Msg("lin", "我住在柏林。", "user"),
        Msg("Friday", [TextBlock(type="text", text="Noted.")], "assistant"),
        Msg("system", "Be kind.", "system"),
    ]


async def write_agentscope(folder):
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'agentscope.db'}")
    for user, session in (("lin", "monday"), ("bob", "tuesday")):
        memory = AsyncSQLAlchemyMemory(engine, session_id=session, user_id=user)
        first, *others = agentscope()
        await memory.add(first, marks="hint")
        await memory.add(others)
        await memory.close()
    await engine.dispose()
    memory = InMemoryMemory()
    await memory.add(agentscope(), marks=["hint"])
    await memory.update_compressed_summary("They spoke of Berlin.")
    await JSONSession(save_dir=str(folder / "states")).save_session_state("monday", memory=memory)


def write_langchain(folder):
    history = SQLChatMessageHistory("monday", connection=f"sqlite:///{folder / 'langchain.db'}")
    history.add_messages(LANGCHAIN)
    (folder / "files").mkdir()
    FileChatMessageHistory(str(folder / "files" / "monday.json")).add_messages(LANGCHAIN)


def main(folder):
    (folder / "states").mkdir()
    asyncio.run(write_agentscope(folder))
    write_langchain(folder)


main(Path(sys.argv[1]))
