"""The least a FastAPI server does for the same requests: it checks them and answers what it holds in memory.

`/encoded/…` writes its answer with msgspec, as Octavo does, and is what Octavo is compared with; `/plain/…` returns a
dictionary, as most FastAPI programs do. Served by the same uvicorn with the same settings.
"""

import json
import socket
import sys
import time
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel

app = FastAPI()


class NewMemory(BaseModel):
    content: str
    memory_layer: Literal["profile", "event"] = "event"
    metadata: dict[str, Any] | None = None


def memory(user: str, number: int) -> dict[str, Any]:
    """A memory as Octavo answers it."""
    return {
        "id": f"user_{user}_1790000000.{number:018d}",
        "memory_type": "user",
        "entity_id": user,
        "layer": "profile",
        "category": "preference",
        "content": f"用户喜欢在周末去第 {number} 号公园跑步，然后喝一杯绿茶",
        "metadata": {"source": "bench", "number": number},
        "is_permanent": True,
        "expiry_date": None,
        "created_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "updated_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "version": 1,
        "sources": [],
        "happened_at": None,
        "status": "success",
        "topic": "",
    }


_PROFILES = {size: [memory("u", number) for number in range(size)] for size in (10, 100)}


def _profile(user_id: str, limit: int) -> dict[str, Any]:
    memories = _PROFILES[int(user_id.partition("-")[0].removeprefix("u"))][:limit]
    return {"user_id": user_id, "layer": "profile", "count": len(memories), "memories": memories}


def _made(user_id: str, body: NewMemory) -> dict[str, Any]:
    at = datetime.now(UTC)
    return {
        "id": f"user_{user_id}_{time.time()}",
        "status": "success",
        "created_at": at,
        "mode": "direct",
        "layer": body.memory_layer,
        "category": "other",
    }


def _encoded(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


@app.get("/encoded/memory/user/{user_id}/profile")
async def encoded_profile(user_id: str, limit: int = 100) -> Response:
    return _encoded(_profile(user_id, limit))


@app.post("/encoded/memory/user/{user_id}")
async def encoded_remember(user_id: str, body: NewMemory) -> Response:
    return _encoded(_made(user_id, body))


@app.get("/plain/memory/user/{user_id}/profile")
async def plain_profile(user_id: str, limit: int = 100):
    return _profile(user_id, limit)


@app.post("/plain/memory/user/{user_id}")
async def plain_remember(user_id: str, body: NewMemory):
    return _made(user_id, body)


if __name__ == "__main__":
    # The protocol is named, or asyncio does not know that it may switch off Nagle's delay: 40 ms on each answer.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    sock.listen(2048)
    config = uvicorn.Config(
        app, lifespan="on", log_config=None, access_log=False, server_header=False, proxy_headers=False, ws="none"
    )  # fmt: skip
    print(json.dumps({"url": f"http://127.0.0.1:{sock.getsockname()[1]}"}), flush=True)
    sys.stdout.close()
    uvicorn.Server(config).run([sock])
