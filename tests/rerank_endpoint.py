"""A real HTTP server on loopback that speaks /v1/rerank, and misbehaves on request; it scores by the words that are shared."""

import json

from model_endpoint import http, serving


def endpoint():
    """Answers properly, except where its `script` says otherwise for the next request."""
    return serving("/v1/rerank", ranked)


def shared(question: str, text: str) -> int:
    """How many words two texts share."""
    return len(set(question.lower().split()) & set(text.lower().split()))


def listed(scores: dict) -> bytes:
    results = [{"index": at, "relevance_score": score} for at, score in scores.items()]
    results.sort(key=lambda result: -result["relevance_score"])
    return http("200 OK", json.dumps({"model": "words", "results": results}).encode())


async def ranked(body: dict) -> bytes:
    """As servers do: the best first."""
    return listed({at: shared(body["query"], text) for at, text in enumerate(body["documents"])})


async def reversed_order(body: dict) -> bytes:
    """What was last is first."""
    return listed({at: float(at) for at in range(len(body["documents"]))})


async def too_few(body: dict) -> bytes:
    return listed(dict.fromkeys(range(len(body["documents"]) - 1), 1.0))


async def strangers(body: dict) -> bytes:
    return listed({at + 1: 1.0 for at in range(len(body["documents"]))})


async def no_numbers(body: dict) -> bytes:
    return http("200 OK", b'{"results": [{"index": 0, "relevance_score": "good"}]}')


async def not_finite(body: dict) -> bytes:
    return http(
        "200 OK",
        json.dumps(
            {
                "results": [
                    {"index": at, "relevance_score": float("nan")} for at in range(len(body["documents"]))
                ]
            }
        ).encode(),
    )
