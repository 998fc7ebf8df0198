"""What the tests of moving records share: records to move, and stores that can be watched and unplugged."""

import io
import itertools
from datetime import UTC, datetime, timedelta

from octavo import Record, Scope, StoreUnavailable
from octavo.kernel.shapes import SHAPES
from octavo.transfer import export

BORN = datetime(2026, 3, 1, 12, tzinfo=UTC)
KINDS = ("memory", "file", "sqlite")


def sample(count: int) -> list[Record]:
    """Records of every collection and of three tenants, many of them born in the same microsecond."""
    collections = itertools.cycle(SHAPES)
    return [
        Record(
            collection=next(collections),
            id=f"r{n:05}",
            kind=("user", "assistant")[n % 2],
            scope=Scope(tenant=("", "acme", "东方")[n // 12 % 3], user=f"u{n % 5}", session=f"s{n % 7}"),
            text=f"第{n}条 message, ünï 🧠" if n % 4 else "",
            data={"n": n, "half": n / 2, "deep": [{"a": None}, True]},
            metadata={"even": n % 2 == 0, "name": f"m{n}"},
            marks=("hint", "important")[: n % 3],
            created_at=BORN + timedelta(seconds=n // 10),
            updated_at=BORN + timedelta(days=n),
            expires_at=BORN + timedelta(days=1) if n % 6 == 0 else None,
            seq=10_000 - n,
        )
        for n in range(count)
    ]


async def contents(store) -> bytes:
    """Everything a store keeps, in reading order, as bytes to compare."""
    out = io.BytesIO()
    await export(store, out)
    return out.getvalue()


class Watched:
    """A store that counts what is asked of it and can be unplugged after so many writes."""

    def __init__(self, store, *, writes=None):
        self.store = store
        self.finds = 0
        self.largest_page = 0
        self.writes_left = writes

    async def apply(self, ops):
        if self.writes_left is not None:
            if not self.writes_left:
                raise StoreUnavailable("unplugged")
            self.writes_left -= 1
        return await self.store.apply(ops)

    async def find(self, query):
        self.finds += 1
        found = await self.store.find(query)
        self.largest_page = max(self.largest_page, len(found))
        return found

    async def tally(self, query):
        return await self.store.tally(query)

    async def tenants(self):
        return await self.store.tenants()

    async def close(self):
        await self.store.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        await self.close()


class Plain:
    """A store with the three verbs and nothing else."""

    def __init__(self, store):
        self.apply, self.find, self.tally, self.close = store.apply, store.find, store.tally, store.close

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        pass


class Unreadable(Watched):
    """A store that can be unplugged after so many reads."""

    def __init__(self, store, *, finds):
        super().__init__(store)
        self.finds_left = finds

    async def find(self, query):
        if not self.finds_left:
            raise StoreUnavailable("unplugged")
        self.finds_left -= 1
        return await super().find(query)
