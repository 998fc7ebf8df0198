"""Any endpoint that speaks OpenAI's /v1/embeddings, through the `openai` package."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.embedders.answers import (
    RefusedText,
    batches,
    check_name,
    check_positive,
    check_texts,
    check_vectors,
    cut,
    tokens_at_most,
)
from octavo.models.embedders.languages import EVERYTHING, Languages, prefix_mark, prefixes_of
from octavo.models.openai_server import OpenAIServer
from octavo.util.user_code import foreign

_BATCH_TOKENS = 100_000  # a request may have 300,000 at OpenAI, and servers at home fewer


class OpenAIEmbedder:
    """Vectors from an OpenAI-compatible server; batches run side by side, and the package retries what may pass.

    Key and address come from OPENAI_API_KEY and OPENAI_BASE_URL where they are not given. A client handed in is used
    as it is, and stays open.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        timeout: float = 60,
        max_retries: int = 2,
        batch_size: int = 128,
        concurrency: int = 4,
        max_tokens: int = 8191,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        languages: str | Iterable[str] | None = None,
        name: str | None = None,
        client: Any = None,
    ) -> None:
        check_positive(dimensions=dimensions, timeout=timeout, batch_size=batch_size, concurrency=concurrency)
        check_positive(max_tokens=max_tokens)
        if max_retries < 0:
            raise ConfigError(f"max_retries must be 0 or more; got {max_retries}")
        self._server = OpenAIServer(
            base_url, api_key, timeout=timeout, max_retries=max_retries, client=client
        )
        self._model = model
        self._dimensions = dimensions
        self._answered: int | None = dimensions
        self._batch_size, self._max_tokens = batch_size, max_tokens
        self._concurrency = concurrency
        family = prefixes_of(model)
        self._prefixes = family.overridden(query_prefix, passage_prefix)
        self._languages = EVERYTHING if languages is None else Languages.of(languages)
        size = f"/{dimensions}" if dimensions else ""
        self._name = check_name(name or f"openai:{model}{size}{prefix_mark(self._prefixes, family)}")
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._name!r})"  # never the key

    def reads(self, text: str) -> bool:
        """Everything, unless languages were given."""
        return self._languages.reads(text)

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text."""
        # The endpoint refuses a whole batch for one text that is empty or too long.
        given = [
            cut(self._prefixes(text, asking=asking), self._max_tokens) or " " for text in check_texts(texts)
        ]
        sizes = [tokens_at_most(text) for text in given]
        planned = list(batches(sizes, self._batch_size, _BATCH_TOKENS))
        tasks = [asyncio.create_task(self._ask(given, batch)) for batch in planned]
        try:
            answers = await asyncio.gather(*tasks)
        finally:  # the first failure, or the caller's leaving, ends the others
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        placed = {
            number: vector
            for batch, found in zip(planned, answers, strict=True)
            for number, vector in zip(batch, found, strict=True)
        }
        return [placed[number] for number in range(len(given))]

    async def _ask(self, texts: list[str], batch: list[int]) -> list[Vector]:
        server, turns = self._server, self._turns_here()
        client = server.client()
        wanted = {} if self._dimensions is None else {"dimensions": self._dimensions}
        with foreign(f"the model {self._name!r} at {server.where} failed"):
            async with turns:
                try:
                    answer = await client.embeddings.create(
                        model=self._model, input=[texts[number] for number in batch], **wanted
                    )
                except server.package.OpenAIError as error:
                    raise self._failed(error, batch) from server.told(error)
            try:
                # In a thread: a hundred vectors take longer to check than the event loop should stand still.
                found = await asyncio.to_thread(
                    check_vectors, _in_order(answer.data), len(batch), self._answered
                )
            except RefusedText as refused:
                number = None if refused.number is None else batch[refused.number - 1] + 1
                raise RefusedText(number, refused.reason) from None
        self._answered = len(found[0])
        return found

    def _turns_here(self) -> asyncio.Semaphore:
        if self._server.closed:
            raise ModelError(f"the embedder {self._name!r} was closed; open another with open_embedder()")
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = (loop, asyncio.Semaphore(self._concurrency))
        return self._turns[1]

    def _failed(self, error: Any, batch: list[int]) -> ModelError:
        status = getattr(error, "status_code", None)
        said = self._server.hidden(str(error))[:500]
        told = f"the model {self._name!r} at {self._server.where} failed: {type(error).__name__}: {said}"
        if status in (400, 413, 422):
            return RefusedText(batch[0] + 1 if len(batch) == 1 else None, told)
        return ModelError(told)

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        await self._server.close()


def _in_order(data: Any) -> list[Any]:
    """The embeddings in the order of the texts; servers may answer in another one and number them."""
    numbers = [getattr(item, "index", None) for item in data]
    items = list(data)
    if sorted(number for number in numbers if isinstance(number, int)) == list(range(len(items))):
        items.sort(key=lambda item: item.index)
    return [item.embedding for item in items]
