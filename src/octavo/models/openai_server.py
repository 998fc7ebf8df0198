"""A server that speaks OpenAI's protocol: its address and key, its client, its answers and errors without the key; and its embeddings."""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.checks import (
    Languages,
    NamedEmbedder,
    batches,
    check_positive,
    check_texts,
    check_vectors,
    cut,
    prefix_mark,
    prefixes_of,
    tokens_at_most,
)
from octavo.util.secrets import mask_passwords
from octavo.util.sync import import_aside
from octavo.util.system import import_extra, require_extra
from octavo.util.user_code import translate_errors

_NO_KEY = "none"  # the package insists on a key; servers at home do not
_OPENAI = "https://api.openai.com/v1"
_REFUSED_REQUEST = (400, 422)  # what servers say to a parameter that they do not know
_BATCH_TOKENS = 100_000  # a request may have 300,000 at OpenAI, and servers at home fewer


class RequestRefused(ModelError):  # noqa: N818 - names say what is wrong, not that it is an error
    """The server would not take the request as it was spelled."""


class OpenAIServer:
    """Where models are asked, through the `openai` package, which is loaded by the first question.

    Key and address come from OPENAI_API_KEY and OPENAI_BASE_URL where they are not given. A client handed in is used
    as it is, and stays open.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        *,
        timeout: float,
        max_retries: int,
        client: Any = None,
    ) -> None:
        require_extra("openai", "openai")
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._api_key = (
            _key(api_key or os.environ.get("OPENAI_API_KEY"), self.base_url) if client is None else ""
        )
        self._timeout, self._max_retries = timeout, max_retries
        self._given = client
        self._made: tuple[asyncio.AbstractEventLoop, Any] | None = None
        self.closed = False

    @property
    def package(self) -> Any:
        """The package, for the errors it defines."""
        return import_extra("openai", "openai")

    @property
    def where(self) -> str:
        """The address as it may be shown: no user, no password, no query."""
        where = urlsplit(self.base_url or _OPENAI)
        port = f":{where.port}" if where.port else ""
        return f"{where.scheme}://{where.hostname}{port}{where.path}"

    def client(self) -> Any:
        """The client for the running event loop."""
        loop = asyncio.get_running_loop()
        # Connections belong to the loop they were opened in: in a second asyncio.run() they would be dead.
        if self._made is None or self._made[0] is not loop:
            client = self._given or self.package.AsyncOpenAI(
                api_key=self._api_key,
                base_url=self.base_url,
                timeout=self._timeout,
                max_retries=self._max_retries,
            )
            self._made = (loop, client)
        return self._made[1]

    def mask_key(self, said: str) -> str:
        """The words without the key."""
        return said.replace(self._api_key, "…") if self._api_key not in ("", _NO_KEY) else said

    def mask(self, error: Any) -> Any:
        """The error as a cause that may be printed: some servers repeat the key they refuse."""
        body = getattr(error, "body", None)
        if self.mask_key(f"{error}{body}") != f"{error}{body}":
            error.args = (self.mask_key(str(error)),)
            error.message, error.body = error.args[0], None
        return error

    async def complete(self, name: str, **request: Any) -> Any:
        """The first choice of a chat completion; whatever goes wrong is a ModelError that calls the model by this name."""
        if self.closed:
            raise ModelError(f"{name} was closed; make another")
        await import_aside("openai")
        with self.errors(f"{name} failed"):
            answer = await self.client().chat.completions.create(**request)
        choices = getattr(answer, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ModelError(f"{name} answered without a message: {self.mask_key(repr(answer))[:200]}")
        return choices[0]

    @contextmanager
    def errors(self, failed: str) -> Iterator[None]:
        """Whatever goes wrong inside is a ModelError that says what failed."""
        with translate_errors(failed):
            try:
                yield
            except self.package.OpenAIError as error:
                refused = getattr(error, "status_code", None) in _REFUSED_REQUEST
                told = self._describe(failed, error)
                raise (RequestRefused if refused else ModelError)(told) from self.mask(error)
            except (
                ValueError,
                TypeError,
            ) as error:  # an answer that is no JSON, or an option that nobody knows
                raise ModelError(self._describe(failed, error)) from error

    def _describe(self, failed: str, error: Exception) -> str:
        """What went wrong in a few words, without key and password."""
        told = self.mask_key(" ".join(str(error).split()))
        own = getattr(self.client(), "api_key", None)  # of a client that was handed in
        secrets = [self.base_url or "", f"?api_key={own}" if isinstance(own, str) else ""]
        return f"{failed}: {type(error).__name__}: {mask_passwords(told, filter(None, secrets))[:500]}"

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        self.closed = True
        made, self._made = self._made, None
        if made is not None and self._given is None and made[0] is asyncio.get_running_loop():
            await made[1].close()


def _key(key: str | None, base_url: str | None) -> str:
    if key is None or not key.strip():
        if base_url is None:
            raise ConfigError("OpenAI needs a key: set OPENAI_API_KEY, or base_url for a server without one")
        return _NO_KEY
    key = key.strip()
    # As a header it would fail later, with an error that shows it.
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ConfigError("the API key has characters in it that no key has (it is not shown here)")
    return key


class OpenAIEmbedder(NamedEmbedder):
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
        self._prefixes = family.override(query_prefix, passage_prefix)
        size = f"/{dimensions}" if dimensions else ""
        space = name or f"openai:{model}{size}{prefix_mark(self._prefixes, family)}"
        super().__init__(space, Languages.of(languages))
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text."""
        # The endpoint refuses a whole batch for one text that is empty or too long.
        given = [
            cut(self._prefixes(text, asking=asking), self._max_tokens) or " " for text in check_texts(texts)
        ]
        sizes = [tokens_at_most(text) for text in given]
        planned = list(batches(sizes, self._batch_size, _BATCH_TOKENS))
        tasks = [asyncio.create_task(self._ask([given[number] for number in batch])) for batch in planned]
        try:
            answers = await asyncio.gather(*tasks)
        finally:  # the first failure, or the caller's leaving, ends the others
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        by_number = {
            number: vector
            for batch, found in zip(planned, answers, strict=True)
            for number, vector in zip(batch, found, strict=True)
        }
        return [by_number[number] for number in range(len(given))]

    async def _ask(self, texts: list[str]) -> list[Vector]:
        server, turns = self._server, self._turns_here()
        await import_aside("openai")
        client = server.client()
        wanted = {} if self._dimensions is None else {"dimensions": self._dimensions}
        with server.errors(f"the model {self._name!r} at {server.where} failed"):
            async with turns:
                answer = await client.embeddings.create(model=self._model, input=texts, **wanted)
            # In a thread: a hundred vectors take longer to check than the event loop should stand still.
            rows = _sort_embeddings(answer.data)
            found = await asyncio.to_thread(check_vectors, rows, len(texts), self._answered)
        self._answered = len(found[0])
        return found

    def _turns_here(self) -> asyncio.Semaphore:
        if self._server.closed:
            raise ModelError(f"the embedder {self._name!r} was closed; open another with open_embedder()")
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = (loop, asyncio.Semaphore(self._concurrency))
        return self._turns[1]

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        await self._server.close()


def _sort_embeddings(data: Any) -> list[Any]:
    """The embeddings in the order of the texts; servers may answer in another one and number them."""
    numbers = [getattr(item, "index", None) for item in data]
    items = list(data)
    if sorted(number for number in numbers if isinstance(number, int)) == list(range(len(items))):
        items.sort(key=lambda item: item.index)
    return [item.embedding for item in items]
