"""A real HTTP server on loopback that speaks /v1/embeddings, and misbehaves on request."""

import base64
import json
import struct

from model_endpoint import http, serving


def vector(text: str, dimensions: int = 4) -> list[float]:
    """What the server answers for a text: not of unit length, and different for different texts."""
    return [float(len(text) + 1), *(float(ord(text[-1:] or " ") % 13 + at) for at in range(dimensions - 1))]


def endpoint():
    """Answers properly, except where its `script` says otherwise for the next request."""
    return serving("/v1/embeddings", answered)


def spelled(values: list[float], body: dict):
    if body.get("encoding_format") == "base64":
        return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    return values


def listed(body: dict, rows: list) -> bytes:
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    return http("200 OK", json.dumps({"object": "list", "model": body["model"], "data": data}).encode())


async def answered(body: dict) -> bytes:
    size = body.get("dimensions", 4)
    return listed(body, [spelled(vector(text, size), body) for text in body["input"]])


async def in_floats(body: dict) -> bytes:
    """Some servers know no base64."""
    return listed(body, [vector(text) for text in body["input"]])


async def backwards(body: dict) -> bytes:
    data = [
        {"object": "embedding", "index": at, "embedding": vector(text)}
        for at, text in enumerate(body["input"])
    ]
    return http("200 OK", json.dumps({"data": data[::-1]}).encode())


async def too_few(body: dict) -> bytes:
    return listed(body, [vector(text) for text in body["input"][1:]])


async def uneven(body: dict) -> bytes:
    return listed(body, [vector(text, 4 + at) for at, text in enumerate(body["input"])])


async def zeros(body: dict) -> bytes:
    return listed(body, [[0.0] * 4 if text == "zero" else vector(text) for text in body["input"]])


async def no_numbers(body: dict) -> bytes:
    return listed(body, [None for _ in body["input"]])


async def bad_base64(body: dict) -> bytes:
    return listed(body, ["AAA" for _ in body["input"]])


async def truncated(body: dict) -> bytes:
    return (await answered(body))[:-20]


NOT_JSON = http("200 OK", b'{"data": [')
