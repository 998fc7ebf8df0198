"""Which users, agents and sessions there are: what a store that is `ListsNames` says of them."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import msgspec
import pytest

from octavo.errors import InvalidQuery
from octavo.kernel.model import Add, Change, NameCount, Query, Record, Remove, Scope, ScopePart
from octavo.kernel.ports import ListsNames, Store
from octavo.testing.subject import Subject, on_a_store, refused

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
#: In the order of their characters, which is not that of any language.
NAMES = ("10", "9", "A", "Z", "a", "a b", "ab", "lin", "z", "é", "小明", "ﬁ", "🎉")


def listing(store: Store) -> ListsNames:
    """The store as one that lists names, or a skip."""
    if not isinstance(store, ListsNames):
        pytest.skip("the store is not octavo.kernel.ports.ListsNames")
    return store


def record(number: int, scope: Scope, collection: str = "profile") -> Record:
    return Record(
        collection=collection, id=f"{number}", scope=scope, created_at=NOON + timedelta(seconds=number)
    )


class Naming(Subject):
    """Run only for stores that are `octavo.kernel.ports.ListsNames`."""

    @on_a_store
    async def test_names_are_listed(self, store: Store, home: Scope) -> None:
        """Each has its count and its times; they come in one order everywhere, a page at a time."""
        listed = listing(store)
        records = [
            record(number, Scope(tenant=home.tenant, user=NAMES[number % len(NAMES)], agent="one", session=s))
            for number, s in enumerate(["x", "y", "y"] * 20)
        ]
        nobody = record(99, Scope(tenant=home.tenant))
        stranger = record(0, Scope(tenant=f"{home.tenant}2", user="stranger", session="x"))
        for collection in ("profile", "observations", "messages"):
            kept = [msgspec.structs.replace(one, collection=collection) for one in (*records, nobody)]
            other = msgspec.structs.replace(stranger, collection=collection)
            await store.apply([Add([*kept[::-1], other])])
            for part in get_args(ScopePart):
                expected = NameCount.of(part, kept)
                assert await listed.names(collection, part, home) == expected
                assert await self.paged(listed, collection, part, home, 2) == expected
        assert [one.name for one in await listed.names("profile", "user", home)] == list(NAMES)
        assert await listed.names("profile", "user", home, limit=0) == []
        assert await listed.names("profile", "user", home, after="🎉") == []
        assert await listed.names("profile", "user", Scope(tenant=f"{home.tenant}3")) == []
        assert await listed.names("turns", "session", home) == []

    @on_a_store
    async def test_names_within_a_scope(self, store: Store, home: Scope) -> None:
        """The sessions of a user are those in which that user has records, and count no others."""
        listed = listing(store)
        said = [(user, session) for user in ("lin", "bo") for session in ("monday", "friday")] + [
            ("bo", "sunday")
        ]
        records = [
            record(number, Scope(tenant=home.tenant, user=user, session=session), "messages")
            for number, (user, session) in enumerate(said * 3)
        ]
        await store.apply([Add(records)])
        for user, session in (("lin", None), ("bo", None), ("bo", "sunday"), ("", None), ("lin", "sunday")):
            scope = Scope(tenant=home.tenant, user=user, session=session)
            inside = [one for one in records if scope.covers(one.scope)]
            assert await listed.names("messages", "session", scope) == NameCount.of("session", inside)
            assert await listed.names("messages", "user", scope) == NameCount.of("user", inside)

    @on_a_store
    async def test_names_follow_their_records(self, store: Store, home: Scope) -> None:
        """Who has no records left is listed no more, and is again with the next one."""
        listed = listing(store)
        records = [record(n, Scope(tenant=home.tenant, user=f"user{n % 3}")) for n in range(9)]
        await store.apply([Add(records)])
        whole = Query(collection="profile", scope=home)
        await store.apply([Change(query=whole, text="changed")])
        assert await listed.names("profile", "user", home) == NameCount.of("user", records)
        await store.apply(
            [Remove(Query(collection="profile", scope=Scope(tenant=home.tenant, user="user1")))]
        )
        left = [one for one in records if one.scope.user != "user1"]
        assert await listed.names("profile", "user", home) == NameCount.of("user", left)
        await store.apply(
            [Remove(Query(collection="profile", ids=("0", "2"), scope=home)), Add([records[1]])]
        )
        left = [one for one in [*left, records[1]] if one.id not in ("0", "2")]
        assert await listed.names("profile", "user", home) == NameCount.of("user", left)
        await store.apply([Remove(whole)])
        assert await listed.names("profile", "user", home) == []

    @on_a_store
    async def test_many_names(self, store: Store, home: Scope) -> None:
        """Pages of a thousand sessions are whole and follow each other."""
        listed = listing(store)
        records = [
            record(n, Scope(tenant=home.tenant, session=f"s{n % 1000}"), "observations") for n in range(2500)
        ]
        await store.apply([Add(records)])
        assert await self.paged(listed, "observations", "session", home, 300) == NameCount.of(
            "session", records
        )

    @on_a_store
    async def test_what_names_are_refused(self, store: Store, home: Scope) -> None:
        """A part that is none, a collection nobody knows, a limit below 0, a name that nobody can have."""
        listed = listing(store)
        await refused(InvalidQuery, listed.names("profile", "tenant", home), "'tenant'")  # type: ignore[arg-type]
        await refused(InvalidQuery, listed.names("nothing", "user", home), "'nothing'")
        await refused(InvalidQuery, listed.names("profile", "user", home, limit=-1), "-1")
        await refused(InvalidQuery, listed.names("profile", "user", home, after="a\0"), "nobody can have")
        assert await listed.names("profile", "user", Scope(tenant="\ud800")) == []

    async def paged(
        self, store: ListsNames, collection: str, part: ScopePart, scope: Scope, size: int
    ) -> list[NameCount]:
        """All names, page by page."""
        found: list[NameCount] = []
        while page := await store.names(
            collection, part, scope, after=found[-1].name if found else "", limit=size
        ):
            assert len(page) <= size
            assert not found or page[0].name > found[-1].name, (
                "a page begins behind the name it was asked for"
            )
            found += page
        return found
