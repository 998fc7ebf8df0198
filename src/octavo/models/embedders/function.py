"""A caller's own function as an embedder."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from octavo.kernel.ports import Vector
from octavo.models.embedders.answers import check_name, check_texts, check_vectors
from octavo.models.embedders.languages import EVERYTHING, Languages
from octavo.util.user_code import called, foreign


class FunctionEmbedder:
    """Asks a function for a vector of each text: an async one here, any other one in a thread.

    The function takes a list of strings and answers as many vectors: lists, tuples, arrays, or one numpy array of rows.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        name: str,
        languages: str | Iterable[str] | None = None,
    ) -> None:
        self._function = function
        self._name = check_name(name)
        self._languages = EVERYTHING if languages is None else Languages.of(languages)
        self._dimensions: int | None = None

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"FunctionEmbedder({self._name!r})"

    def reads(self, text: str) -> bool:
        """Everything, unless languages were given."""
        return self._languages.reads(text)

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:  # noqa: ARG002
        """One vector of unit length for each text."""
        given = check_texts(texts)
        if not given:
            return []
        with foreign(f"the embedding function {self._name!r} failed"):
            answered = await called(self._function, given)
            # A thousand vectors take a tenth of a second to check: too long for the event loop.
            found = await asyncio.to_thread(check_vectors, answered, len(given), self._dimensions)
        self._dimensions = len(found[0])
        return found

    async def close(self) -> None:
        """Nothing to do: the function is the caller's."""
