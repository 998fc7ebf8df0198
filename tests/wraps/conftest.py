"""Stores with vectors beside them, of any kind, closed after the test."""

import itertools
from contextlib import AsyncExitStack

import pytest
from faults import PATIENCE

from octavo import Indexed, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder


@pytest.fixture
def place(tmp_path, request):
    """`place(kind)` is the URL of an empty store of that kind."""
    names = itertools.count()

    def url(kind):
        if kind in {"postgres", "mysql", "redis", "pgvector"}:
            return request.getfixturevalue("fresh_url")(kind)
        path = tmp_path / f"store{next(names)}"
        return {"memory": "memory://", "file": f"file://{path}", "sqlite": f"sqlite:///{path}.db"}[kind]

    return url


@pytest.fixture
async def wrap():
    """`await wrap(store, index, embedder)` is an open Indexed of what was given, or of new ones in memory."""
    async with AsyncExitStack() as stack:

        async def wrapped(store=None, index=None, embedder=None, **more):
            given = {"retry_seconds": PATIENCE, **more}
            indexed = Indexed(
                store or open_store("memory://"),
                index or open_vectors("memory://"),
                embedder or HashEmbedder(),
                **given,
            )
            return await stack.enter_async_context(indexed)

        yield wrapped
