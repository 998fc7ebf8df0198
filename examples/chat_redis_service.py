"""A chat service on Redis: one pool for the whole service, one memory for each request.

    pip install 'octavo[redis,server]'
    python examples/chat_redis_service.py
    curl -X POST 'http://127.0.0.1:8000/chat_endpoint?user_id=lin&session_id=monday&input=hello'

CHAT_REDIS names another server than redis://localhost:6379/0.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException
from redis.asyncio import ConnectionPool

from octavo.chat import MemoryBase, Msg, RedisMemory

redis_pool: ConnectionPool | None = None


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """The pool lives as long as the service; memories share it and never close it."""
    global redis_pool  # noqa: PLW0603 - one pool for the whole service is the point
    url = os.environ.get("CHAT_REDIS", "redis://localhost:6379/0")
    redis_pool = ConnectionPool.from_url(url, decode_responses=True, max_connections=10, encoding="utf-8")
    yield
    await redis_pool.disconnect()
    redis_pool = None


app = FastAPI(lifespan=lifespan)


async def agent(memory: MemoryBase, said: Msg) -> Msg:
    """Where your agent stands: it remembers what it is told, looks back, and remembers what it answers."""
    await memory.add(said)
    heard = [message for message in await memory.get_memory() if message.role == "user"]
    reply = Msg("bot", f"I have heard {len(heard)} from you, the last: {said.content}", "assistant")
    await memory.add(reply)
    return reply


@app.post("/chat_endpoint")
async def chat_endpoint(user_id: str, session_id: str, input: str) -> dict[str, str | None]:  # noqa: A002 - the documented name
    """One turn of a conversation."""
    if redis_pool is None:
        raise HTTPException(status_code=500, detail="the Redis pool is not open")
    week = 7 * 24 * 3600  # a talk nobody has come back to for so long is forgotten
    async with RedisMemory(session_id, user_id, connection_pool=redis_pool, key_ttl=week) as memory:
        reply = await agent(memory, Msg("user", input, "user"))
    return {"id": reply.id, "reply": reply.get_text_content()}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=8000)
