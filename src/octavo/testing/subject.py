"""The store under test: how it is opened, and how a test gets one without any asyncio plugin."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

import pytest

from octavo.errors import OctavoError
from octavo.kernel.ids import new_id
from octavo.kernel.model import Op, Query, Record, Scope
from octavo.kernel.ports import Store, VectorIndex
from octavo.stores import open_store
from octavo.stores.memory import MemoryStore

T = TypeVar("T", Store, VectorIndex)
NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


class StoreUnderTest:
    """What a subclass says about its store: `open`, and `url` or `again` when its records outlive a store object.

    Every test writes under a tenant of its own, so one database may serve them all and nothing is cleaned between them.
    """

    #: A URL that names the same records each time it is opened, in any process; "" when there is none.
    url: str = ""
    #: How many generated programs are compared, unless OCTAVO_PROGRAMS says so.
    programs: ClassVar[int] = 300
    #: How many records the largest batch has; with 5,000 it is still larger than any limit on bound values.
    largest_batch: ClassVar[int] = 40_000
    #: A test that has not come to an end by then fails, rather than hang whoever runs it.
    seconds: ClassVar[float] = 240
    #: How long a program that fails is made shorter before it is shown.
    shrink_seconds: ClassVar[float] = 60

    async def open(self) -> Store:
        """A store to test; closed by the test."""
        if not self.url:
            raise NotImplementedError("a StoreContract needs `async def open(self)` or a `url`")
        return open_store(self.url)

    async def again(self) -> Store:
        """Another store on the records of those opened before by this test."""
        if not self.url:
            pytest.skip("records end with the store object: neither `url` nor `again` is given")
        return await self.open()

    def reference(self) -> Store:
        """The store whose answers are right."""
        return MemoryStore()

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """A store to test, until the end of the block."""
        return close_at_end(self.open())

    def opened_again(self) -> AbstractAsyncContextManager[Store]:
        """Another store on the same records, until the end of the block."""
        return close_at_end(self.again())


@asynccontextmanager
async def close_at_end(opening: Awaitable[T]) -> AsyncIterator[T]:
    """A store or index, until the end of the block."""
    opened = await opening
    try:
        yield opened
    finally:
        await opened.close()


def on_a_store(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run `async def test(self, store, home)` on an open store and a scope nobody else uses."""
    return on_opened(test, lambda: Scope(tenant=new_id()))


def on_opened(test: Callable[..., Awaitable[None]], new_home: Callable[[], object]) -> Callable[..., None]:
    """Run `async def test(self, opened, home)` on what its class opens, and what it has to itself."""

    @functools.wraps(test)
    def run(self: Any) -> None:
        async def body() -> None:
            async with asyncio.timeout(self.seconds), self.opened() as opened:
                await test(self, opened, new_home())

        asyncio.run(body())

    del run.__wrapped__  # pytest would take `store` and `home` for fixtures
    return run


def message(id_: str, scope: Scope, text: str = "", **fields: Any) -> Record:
    """A record of the collection that most tests write to."""
    return Record(collection="messages", id=id_, scope=scope, text=text, **fields)


def messages(scope: Scope, **clauses: Any) -> Query:
    """The question for all of them in a scope, or for those that the clauses name."""
    return Query(collection="messages", scope=scope, **clauses)


async def count(store: Store, op: Op) -> int:
    """How many records an op by itself adds, changes or removes."""
    counts = await store.apply([op])
    assert len(counts) == 1
    return counts[0]


async def ids(store: Store, query: Query) -> list[str]:
    """The ids of what the store finds, in its order."""
    return [record.id for record in await store.find(query)]


async def refuses(error: type[OctavoError], verb: Awaitable[Any], expected: str = "") -> str:
    """What the store said when it refused; it must, with this error and these words."""
    try:
        answer = await verb
    except error as refusal:
        assert type(refusal) is error
        assert expected in str(refusal)
        return str(refusal)
    raise AssertionError(f"not refused with {error.__name__}({expected!r}) but answered {answer!r}")
