"""A store beside which a second model reads the best hits of a question once more."""

import asyncio
import logging
import time
from collections.abc import Sequence

from octavo.errors import ModelError
from octavo.kernel.ports import Store
from octavo.models.rerankers import Reranker
from octavo.wraps.wrap import Wrap

_PAUSE_SECONDS = 30.0  # after a failure: not every question should wait for a model that does not answer
_log = logging.getLogger("octavo.search")


class Reranked(Wrap):
    """Asks a re-ranker about the `top` best hits, within `timeout` seconds (`octavo.kernel.ports.Reranks`).

    A failure is logged once, until the model answers again, and the next half minute goes on without it. Store and model are
    closed with this wrap; `owned=False` leaves both open.
    """

    def __init__(
        self, store: Store, model: Reranker, *, top: int = 20, timeout: float = 2.0, owned: bool = True
    ) -> None:
        super().__init__(store, owned=owned)
        self._model = model
        self._top = top
        self._timeout = timeout
        self._failed = ""  # what went wrong last, until something goes right
        self._not_before = 0.0

    def most_reranked(self) -> int:
        """How many of the best hits are read."""
        return self._top

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the question; ModelError where the model does not say so in time."""
        if time.monotonic() < self._not_before:
            raise ModelError(self._failed)
        try:
            async with asyncio.timeout(self._timeout):
                scores = await self._model.score(question, texts)
        except TimeoutError:
            failure = f"the re-ranker {self._model.name!r} did not answer within {self._timeout:g} s"
        except ModelError as error:
            failure = str(error)
        else:
            self._failed = ""
            return scores
        if not self._failed:
            _log.warning("recall goes on without re-ranking: %s", failure)
        self._failed, self._not_before = failure, time.monotonic() + _PAUSE_SECONDS
        raise ModelError(failure)

    async def close(self) -> None:
        """Close the model and the store inside, if they are owned."""
        try:
            if self._owned:
                await self._model.close()
        finally:
            await super().close()
