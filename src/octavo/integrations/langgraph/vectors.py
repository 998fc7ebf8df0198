"""Embeddings that somebody gives a store of LangGraph's, as a model of Octavo's."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langgraph.store.base import IndexConfig, ensure_embeddings  # type: ignore[import-not-found]

from octavo.kernel.ports import Store, Vector
from octavo.models import FunctionEmbedder

if TYPE_CHECKING:
    from octavo.wraps.vectors import Indexed


class LangChainEmbedder(FunctionEmbedder):
    """Embeddings of LangChain's, which may embed a question otherwise than a text."""

    def __init__(self, embeddings: Any, name: str) -> None:
        super().__init__(embeddings.aembed_documents, name)

        async def ask(texts: list[str]) -> list[Any]:
            return await asyncio.gather(*map(embeddings.aembed_query, texts))

        self._questions = FunctionEmbedder(ask, name)

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text."""
        return await (self._questions.embed(texts) if asking else super().embed(texts))


def with_vectors(store: Store, index: IndexConfig, collection: str) -> "Indexed":
    """The store, with vectors of this collection beside its records."""
    from octavo.vectors import ExactIndex
    from octavo.wraps.vectors import Indexed

    embeddings = ensure_embeddings(index["embed"])
    model = getattr(embeddings, "model", None) or type(embeddings).__name__
    embedder = LangChainEmbedder(embeddings, f"langgraph:{model}:{index.get('dims', '')}")
    return Indexed(store, ExactIndex(store), embedder, collections=(collection,))
