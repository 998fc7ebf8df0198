"""An embedder over a model on this machine's CPU: in a thread of its own, in batches, with questions between them."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from octavo.errors import ModelError
from octavo.kernel.ports import Vector
from octavo.models.checks import NamedEmbedder, batches, check_texts, tokens_at_most
from octavo.models.languages import Languages, Prefixes
from octavo.util.user_code import foreign

T = TypeVar("T")

# Measured on two cores: 8 to 16 texts are fastest, larger batches only wait longer for a question to get its turn.
_BATCH = 16
_BATCH_TOKENS = 4096
_PLANNED = 4096  # texts sorted together; sorting more would only hold more of them in memory


class Model(Protocol):
    """What models on this machine have in common."""

    max_tokens: int

    def load(self) -> None: ...
    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]: ...
    def quantized_by_batch(self) -> bool: ...
    def languages(self) -> Languages: ...
    def unload(self) -> None: ...


class LocalEmbedder(NamedEmbedder):
    """A model in a thread of its own: loaded on first use, one batch at a time, questions between."""

    def __init__(
        self,
        model: Model,
        name: str,
        languages: Languages,
        *,
        prefixes: Prefixes | None = None,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(name, languages)
        self._model = model
        self._prefixes = prefixes or Prefixes()
        self._batch_size = batch_size
        self._most = 0  # texts in a batch, known once the model is loaded
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text."""
        given = [self._prefixes(text, asking=asking) for text in check_texts(texts)]
        found: list[Vector] = []
        for start in range(0, len(given), _PLANNED):
            found += await self._embed_planned(given[start : start + _PLANNED], asking=asking)
        return found

    async def _embed_planned(self, texts: list[str], *, asking: bool) -> list[Vector]:
        most = self._most or await self._run(self._load)
        sizes = [min(self._model.max_tokens, tokens_at_most(text)) for text in texts]
        placed: dict[int, Vector] = {}
        # Each batch is a turn of its own, so that a question need not wait for ten thousand records.
        for batch in batches(sizes, most, _BATCH_TOKENS):
            chosen = [texts[number] for number in batch]
            rows = await self._run(partial(self._model.embed, chosen, asking=asking))
            placed.update(zip(batch, rows, strict=True))
        return [placed[number] for number in range(len(texts))]

    def _load(self) -> int:
        self._model.load()
        # Measured with an int8 model: batched, a text got vectors with cosines down to 0.98 to its own, where those of
        # different texts spread by no more than 0.035. One at a time costs a fifth of the speed and is exact.
        alone = self._batch_size is None and self._model.quantized_by_batch()
        self._most = 1 if alone else self._batch_size or _BATCH
        return self._most

    async def _run(self, work: Callable[[], T]) -> T:
        """Do this in the model's thread, where nothing else runs at the same time: so it is loaded once."""
        if self._closed:
            raise ModelError(f"the embedder {self._name!r} was closed; open another with open_embedder()")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="octavo-embedder")
        with foreign(f"the model {self._name!r} failed"):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        """Let go of the model and its thread; a second call does nothing."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(thread.shutdown)  # waits for the batch under way
        self._model.unload()
