"""A chat service on SQLAlchemy: a session of the pool for each request, one transaction for all an agent remembers in it.

    pip install 'octavo[sqlalchemy,server]' aiosqlite
    python examples/chat_sqlalchemy_service.py
    curl -X POST 'http://127.0.0.1:8000/chat?user_id=lin&session_id=monday&input=hello'

CHAT_DATABASE names another database than SQLite, which has one writer at a time: the others wait up to 30 seconds."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from octavo.chat import AsyncSQLAlchemyMemory, MemoryBase, Msg

URL = os.environ.get("CHAT_DATABASE", "sqlite+aiosqlite:///./chat.db?timeout=30")
engine = create_async_engine(URL, pool_size=10, max_overflow=20, pool_timeout=30)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """The engine is opened here, so it is disposed of here; a memory never does that."""
    yield
    await engine.dispose()


async def get_db() -> AsyncIterator[AsyncSession]:
    """A session that commits what the request did, or takes all of it back when the request fails."""
    async with AsyncSession(engine, expire_on_commit=False) as session, session.begin():
        yield session


# "function": the answer is sent after the commit, so whoever has one knows that it is kept.
Database = Annotated[AsyncSession, Depends(get_db, scope="function")]
app = FastAPI(lifespan=lifespan)


async def agent(memory: MemoryBase, said: Msg) -> Msg:
    """Where your agent stands: it remembers what it is told, looks back, and remembers what it answers."""
    await memory.add(said)
    heard = [message for message in await memory.get_memory() if message.role == "user"]
    reply = Msg("bot", f"I have heard {len(heard)} from you, the last: {said.content}", "assistant")
    await memory.add(reply)
    return reply


@app.post("/chat")
async def chat_endpoint(user_id: str, session_id: str, input: str, db: Database) -> dict[str, str | None]:  # noqa: A002 - the documented name
    """One turn of a conversation."""
    reply = await agent(AsyncSQLAlchemyMemory(db, user_id, session_id), Msg("user", input, "user"))
    return {"id": reply.id, "reply": reply.get_text_content()}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=8000)
