"""The store under test: how it is opened, and how a test gets one without any asyncio plugin."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from octavo.errors import OctavoError
from octavo.kernel.ids import new_id
from octavo.kernel.model import Op, Query, Record, Scope
from octavo.kernel.ports import Store, VectorIndex
from octavo.stores import open_store
from octavo.stores.memory import MemoryStore

T = TypeVar("T", Store, VectorIndex)
NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


class UnderTest(Generic[T]):
    """What a subclass says of what it tests: `open`, and `url` or `again` when what is kept outlives the object.

    Every test writes under a tenant of its own, so one database may serve them all and nothing is cleaned between them.
    """

    #: A URL that names the same each time it is opened, in any process; "" when there is none.
    url: str = ""
    #: A test that has not come to an end by then fails, rather than hang whoever runs it.
    seconds: ClassVar[float] = 240

    async def open(self) -> T:
        """A store or index to test; closed by the test."""
        if not self.url:
            raise NotImplementedError("a contract needs `async def open(self)` or a `url`")
        return self.open_url()

    def open_url(self) -> T:
        """What the URL names."""
        raise NotImplementedError

    async def again(self) -> T:
        """Another one on what those hold that were opened before by this test."""
        if not self.url:
            pytest.skip("what is kept ends with the object: neither `url` nor `again` is given")
        return await self.open()

    def opened(self) -> AbstractAsyncContextManager[T]:
        """A store or index to test, until the end of the block."""
        return close_at_end(self.open())

    def opened_again(self) -> AbstractAsyncContextManager[T]:
        """Another one on what the first holds, until the end of the block."""
        return close_at_end(self.again())


class StoreUnderTest(UnderTest[Store]):
    """What a subclass says about its store."""

    #: How many generated programs are compared, unless OCTAVO_PROGRAMS says so.
    programs: ClassVar[int] = 300
    #: How many records the largest batch has; with 5,000 it is still larger than any limit on bound values.
    largest_batch: ClassVar[int] = 40_000
    #: How long a program that fails is made shorter before it is shown.
    shrink_seconds: ClassVar[float] = 60

    def open_url(self) -> Store:
        """The store that the URL names."""
        return open_store(self.url)

    def reference(self) -> Store:
        """The store whose answers are right."""
        return MemoryStore()


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
