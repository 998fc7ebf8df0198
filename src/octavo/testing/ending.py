"""What has ended is found by its end, wherever it stands and however its end was changed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from octavo.kernel.model import START, Add, Change, Query, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store
from octavo.testing.subject import Subject, on_a_store

_NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


class Ending(Subject):
    @on_a_store
    async def test_what_has_ended(self, store: Store, home: Scope) -> None:
        """Whatever has ended by a moment is found, in its order and page by page; what is alive or never ends is not."""
        users = [msgspec.structs.replace(home, user=name) for name in ("u", "v")]
        records = [
            Record(
                collection="episodes",
                id=f"m{number}",
                scope=users[number % 2],
                kind=("fact", "event")[number % 3 == 0],
                created_at=_NOON + timedelta(minutes=number),
                expires_at=None if number % 5 == 0 else _NOON + timedelta(hours=number * 7 % 11),
            )
            for number in range(40)
        ]
        await store.apply([Add(records)])
        every = Query(collection="episodes", scope=home, expired_at=_NOON + timedelta(hours=4))
        clauses: tuple[dict[str, Any], ...] = (
            {}, {"scope": users[0]}, {"kinds": ("fact",)}, {"limit": 3}, {"limit": 3, "offset": 2}, {"newest_first": True, "limit": 5},
            {"after": START, "limit": 4}, {"after": records[9].cursor, "limit": 4}, {"since": _NOON + timedelta(minutes=20)},
            {"ids": ("m1", "m2", "m3", "m5")}, {"alive_at": _NOON + timedelta(hours=2)}, {"expired_at": _NOON - timedelta(hours=1)},
        )  # fmt: skip
        for clause in clauses:
            query = msgspec.structs.replace(every, **clause)
            assert [r.id for r in await store.find(query)] == [r.id for r in query.over(records)], clause
            assert await store.tally(query) == Tally.of(query, records), clause

    @on_a_store
    async def test_an_end_moves_with_its_record(self, store: Store, home: Scope) -> None:
        """A record that ends at another time, no longer, or is gone, is not found by the end it had."""
        every = Query(collection="profile", scope=home)

        async def ended(hours: int) -> list[str]:
            at = _NOON + timedelta(hours=hours)
            return [r.id for r in await store.find(msgspec.structs.replace(every, expired_at=at))]

        def one(id_: str) -> Query:
            return msgspec.structs.replace(every, ids=(id_,))

        await store.apply(
            [Add([Record(collection="profile", id=i, scope=home, expires_at=_NOON) for i in "abcd"])]
        )
        await store.apply([Add([Record(collection="profile", id="e", scope=home)])])
        assert await ended(-1) == []
        assert await ended(0) == ["a", "b", "c", "d"]
        await store.apply([Change(query=one("a"), expires_at=_NOON + timedelta(hours=5))])
        await store.apply([Change(query=one("b"), expires_at=None), Change(query=one("e"), expires_at=_NOON)])
        await store.apply([Remove(one("c"))])
        assert await ended(4) == ["d", "e"]
        assert await ended(5) == ["a", "d", "e"]
        await store.apply([Change(query=one("a"), expires_at=_NOON), Change(query=one("d"), kind="k")])
        assert await ended(0) == ["a", "d", "e"]
        await store.apply([Add([Record(collection="profile", id="c", scope=home)])])
        assert await ended(9) == ["a", "d", "e"]
        taken = Remove(msgspec.structs.replace(every, expired_at=_NOON, limit=2))
        assert await store.apply([taken, taken]) == [2, 1]
        assert await ended(9) == []
        assert [record.id for record in await store.find(every)] == ["b", "c"]
