"""Reading all of a store in order: tenant by tenant, collection by collection, in pages that fit in memory."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import encode_record
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.ports import ListsTenants, Store
from octavo.kernel.shapes import SHAPES
from octavo.kernel.text import spell
from octavo.transfer.trail import Step

PAGE_BYTES = 8 * 1024 * 1024
FIRST_PAGE = (
    100  # before the size of a collection's records is known, a thousand of them could fill the memory
)
MOST_COUNTED = 1000  # tenants; counting more beforehand would take longer than a progress bar is worth

Take: TypeAlias = Callable[[list[Record], Step], Awaitable[Step]]


class Reach(msgspec.Struct, frozen=True):
    """Which records of a store are meant: these collections of these tenants, inside this scope."""

    tenants: list[str]
    collections: Sequence[str]
    scope: Scope

    @classmethod
    async def of(cls, store: Store, collections: Sequence[str] | None, scope: Scope | None) -> "Reach":
        """What was asked for; without a scope, every tenant the store can name (the empty one when it cannot)."""
        named = tuple(SHAPES) if collections is None else tuple(dict.fromkeys(collections))
        if unknown := [name for name in named if name not in SHAPES]:
            raise ConfigError(f"unknown collection {unknown[0]!r}; known: {', '.join(SHAPES)}")
        if scope is not None:
            return cls([scope.tenant], named, scope)
        return cls(await store.tenants() if isinstance(store, ListsTenants) else [""], named, Scope())

    def queries(self) -> Iterator[Query]:
        for tenant in self.tenants:
            scope = msgspec.structs.replace(self.scope, tenant=tenant)
            for collection in self.collections:
                yield Query(collection=collection, scope=scope)

    async def total(self, store: Store) -> int | None:
        """How many records there are now, or None when counting them would take long."""
        if len(self.tenants) > MOST_COUNTED:
            return None
        return sum([(await store.tally(query)).total for query in self.queries()])

    def run(self, move: str) -> str:
        """A name for the move: the same words must be asked for again to take up its trail."""
        tenant = None if self.scope == Scope() else self.scope.tenant
        return spell([move, self.collections, tenant, self.scope.user, self.scope.agent, self.scope.session])


async def pour(store: Store, query: Query, step: Step, size: int, take: Take) -> Step:
    """Hand over every record past the step in pages, oldest first; answer the step behind the last one."""
    limit = min(size, FIRST_PAGE)
    while True:
        page = await store.find(msgspec.structs.replace(query, after=step.cursor, limit=limit))
        if page:
            step = await take(page, step)
        if len(page) < limit:
            return step
        weight_bytes = sum(len(encode_record(record)) for record in page)
        limit = max(1, min(size, PAGE_BYTES * len(page) // weight_bytes))


def checked_size(batch: int) -> int:
    if batch < 1:
        raise ConfigError(f"a batch must have 1 record or more; got {batch}")
    return batch
