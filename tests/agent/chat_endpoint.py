"""A real HTTP server on loopback that speaks /v1/chat/completions, and misbehaves on request."""

import json

from model_endpoint import (
    BROKEN,
    GARBAGE,
    HUNG_UP,
    OTHER_JSON,
    REFUSED,
    TOO_BUSY,
    http,
    never,
    serving,
)

__all__ = [
    "BROKEN",
    "GARBAGE",
    "HUNG_UP",
    "NOT_JSON",
    "NO_CHOICES",
    "OTHER_JSON",
    "REFUSED",
    "TOO_BUSY",
    "answered",
    "called",
    "chat_endpoint",
    "http",
    "never",
    "said",
]


def chat_endpoint():
    """Answers each request with the next step of its `script`, and politely when there is none."""
    return serving("/v1/chat/completions", said("Hello."))


def answered(message: dict) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    body = {"id": "c1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return http("200 OK", json.dumps(body).encode())


def said(content) -> bytes:
    return answered({"content": content})


def called(*calls, content=None) -> bytes:
    """Calls of tools; arguments are the text the model wrote."""
    listed = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return answered({"content": content, "tool_calls": listed})


NOT_JSON = http("200 OK", b'{"choices": [')
NO_CHOICES = http("200 OK", b'{"id": "c", "object": "chat.completion", "choices": []}')
