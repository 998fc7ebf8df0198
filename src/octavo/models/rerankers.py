"""Models that read a question and a text together, and say how well the one answers the other: re-rankers.

They are slower and, if they know what people talk about, better judges than words and vectors; so they are asked about the
best hits only (`octavo.wraps.reranked`).
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from octavo.errors import ConfigError, ModelError
from octavo.models.checks import Model, batches, check_texts, tokens_at_most
from octavo.models.local import FolderModel
from octavo.models.openai_server import OpenAIServer
from octavo.util.sync import import_aside
from octavo.util.system import import_extra, require_extra

_MOST_CHARACTERS = 2000  # of a text: most models read 512 tokens of question and text together
_BATCH, _BATCH_TOKENS = 16, 4096
_LONGEST_SECONDS = 600.0  # of a request that nobody waits for any more
_NO_KEY = "none"


class Reranker(Protocol):
    """Scores texts by how well they answer a question."""

    @property
    def name(self) -> str: ...

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score for each text, more is better; ModelError when there is none."""
        ...

    async def close(self) -> None: ...


class _Result(msgspec.Struct):
    index: int
    relevance_score: float


class _Answer(msgspec.Struct):
    results: list[_Result]


class ServerReranker:
    """Asks `POST {base_url}/rerank`, which Jina and Cohere have, and vLLM, llama.cpp's server, Infinity and LiteLLM after them."""

    def __init__(self, model: str, *, base_url: str, api_key: str = "") -> None:
        if not base_url:
            raise ConfigError(f"openai:{model} needs base_url, the address of a server that has /rerank")
        self.name = f"openai:{model}"
        self._model = model
        # OPENAI_API_KEY is for OpenAI, which has no re-ranker: it is not sent to anybody else.
        self._server = OpenAIServer(base_url, api_key or _NO_KEY, timeout=_LONGEST_SECONDS, max_retries=0)

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score for each text."""
        server = self._server
        if server.closed:
            raise ModelError(f"the re-ranker {self.name!r} was closed")
        given = _shorten(question, texts)
        await import_aside("openai")
        body = {"model": self._model, "query": given[0], "documents": given[1:], "top_n": len(texts)}
        failed = f"the re-ranker {self.name!r} at {server.where} failed"
        with server.errors(failed):
            answer = await server.client().post("/rerank", cast_to=object, body=body)
        return _scores_of(answer, len(texts), failed)

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        await self._server.close()


class LocalReranker:
    """A cross-encoder on this machine's CPU, in a thread of its own, loaded by the first question."""

    def __init__(self, model: str) -> None:
        self.name = f"fastembed:{model}"
        self._model: FolderModel | _HubCrossEncoder
        if model.startswith(("/", ".", "~")):
            require_extra("onnxruntime", "fastembed")
            self._model = FolderModel(Path(model).expanduser(), pooling="none")
        else:
            require_extra("fastembed", "fastembed")
            self._model = _HubCrossEncoder(model)

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score for each text."""
        given, called = _shorten(question, texts), f"the re-ranker {self.name!r}"
        found = await self._model.run(called, partial(self._score, given[0], given[1:]))
        return _check_scores(found, len(texts), f"{called} failed")

    def _score(self, question: str, texts: list[str]) -> list[float]:
        placed: dict[int, float] = {}
        most = 1 if self._model.quantized_by_batch() else _BATCH
        for batch in batches([tokens_at_most(text) for text in texts], most, _BATCH_TOKENS):
            scores = self._model.score(question, [texts[number] for number in batch])
            placed.update(zip(batch, scores, strict=True))
        return [placed[number] for number in range(len(texts))]

    async def close(self) -> None:
        """Let go of the model and its thread; a second call does nothing."""
        await self._model.close()


class _HubCrossEncoder(Model):
    """A cross-encoder that fastembed knows by name; the first use may download it."""

    def __init__(self, model: str) -> None:
        self._called = model

    def open(self) -> Any:
        """Find the model on this machine, or download it."""
        made = import_extra("fastembed.rerank.cross_encoder", "fastembed").TextCrossEncoder
        try:
            return made(self._called)
        except ValueError as error:
            raise ModelError(f"fastembed has no re-ranker {self._called!r} here ({error})") from error

    def score(self, question: str, texts: list[str]) -> list[float]:
        """One score for each text."""
        return list(self._loaded.rerank(question, texts))


def open_reranker(spec: str, *, base_url: str = "", api_key: str = "") -> Reranker:
    """The re-ranker of a spec: `openai:<model>` of a server that has /rerank, or `fastembed:<hub name or folder>`."""
    kind, _, model = spec.strip().partition(":")
    if kind == "openai" and model:
        return ServerReranker(model, base_url=base_url, api_key=api_key)
    if kind == "fastembed" and model:
        return LocalReranker(model)
    shown = kind if kind.isprintable() and len(kind) <= 40 else "…"  # only what cannot hold a key
    raise ConfigError(f"unknown re-ranker {shown!r}; known: openai:<model>, fastembed:<hub name or folder>")


def _shorten(question: str, texts: Sequence[str]) -> list[str]:
    return check_texts([text[:_MOST_CHARACTERS] for text in (question, *texts)])


def _scores_of(answer: Any, count: int, failed: str) -> list[float]:
    """The scores in the order of the texts; servers answer the best one first."""
    try:
        results = msgspec.convert(answer, _Answer).results
    except msgspec.ValidationError as error:
        raise ModelError(f"{failed}: its answer is no list of results ({error})") from None
    placed = {result.index: result.relevance_score for result in results}
    if set(placed) != set(range(count)):
        raise ModelError(f"{failed}: it was given {count} texts and scored {len(placed)}")
    return _check_scores([placed[number] for number in range(count)], count, failed)


def _check_scores(scores: list[float], count: int, failed: str) -> list[float]:
    if len(scores) != count or not all(map(math.isfinite, scores)):
        raise ModelError(f"{failed}: it did not answer a number for each of {count} texts")
    return scores
