"""Stores to move records between."""

import itertools
from contextlib import AsyncExitStack

import pytest
from moving import sample

from octavo import Add, open_store


@pytest.fixture
async def make(tmp_path, request):
    """A factory of empty stores of any kind, closed after the test."""
    names = itertools.count()
    async with AsyncExitStack() as stack:

        async def made(kind):
            if kind in {"postgres", "mysql", "redis"}:
                url = request.getfixturevalue("fresh_url")(kind)
            else:
                path = tmp_path / f"store{next(names)}"
                url = {"memory": "memory://", "file": f"file://{path}", "sqlite": f"sqlite:///{path}.db"}[
                    kind
                ]
            return await stack.enter_async_context(open_store(url))

        yield made


@pytest.fixture
async def full(make):
    """A memory store with 300 records."""
    store = await make("memory")
    await store.apply([Add(sample(300))])
    return store
