"""The heap of ends: what has ended by a moment, read without looking at the rest."""

import random
from datetime import UTC, datetime, timedelta

from octavo import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.codec import seal
from octavo.stores.endings import Endings
from octavo.stores.memory import MemoryStore

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


def test_ends_come_and_go():
    """Whatever is added, moved and dropped, what has ended by any moment is what the rows say, each once."""
    chance = random.Random(7)
    rows = {}
    looked = []

    def row(rank):
        looked.append(rank)
        return rows.get(rank)

    endings = Endings(row)
    for step in range(4000):
        name = str(chance.randrange(300))
        old = next((one for one in rows.values() if one.id == name), None)
        ends = NOON + timedelta(minutes=chance.randrange(500))
        new = seal(Record(collection="log", id=name, created_at=NOON, seq=int(name), expires_at=ends))
        if old is None:
            rows[new.rank] = new
            endings.add(ends, new.rank)
        elif chance.random() < 0.5:
            del rows[old.rank]
            endings.discard()
        elif old.expires_at != ends:
            rows[new.rank] = new
            endings.add(ends, new.rank)
            endings.discard()
        if step % 100 == 0:
            for minutes in (-1, 0, 20, 250, 500):
                at = NOON + timedelta(minutes=minutes)
                found = [one.id for one in endings.by(at)]
                assert sorted(found) == sorted(one.id for one in rows.values() if one.expires_at <= at)
    assert len(endings._heap) <= 2 * len(rows) + 66, "what no longer holds is forgotten in the end"
    looked.clear()
    list(endings.by(NOON - timedelta(minutes=1)))
    assert looked == []


async def test_the_memory_store_looks_at_nothing_else(monkeypatch):
    """A question for what has ended looks at what has ended, or at a scope that holds even less."""
    seen = []
    real = Query.matches
    async with MemoryStore() as store:
        records = [
            Record(
                collection="episodes",
                id=f"{user}{n}",
                scope=Scope(user=user),
                expires_at=NOON + timedelta(days=n) if n % 100 == 0 else None,
            )
            for user in "abcd"
            for n in range(1000)
        ]
        records.append(Record(collection="episodes", id="e", scope=Scope(user="e"), expires_at=NOON))
        await store.apply([Add(records)])
        ended = Query(collection="episodes", expired_at=NOON + timedelta(days=150))
        monkeypatch.setattr(
            Query, "matches", lambda query, record: seen.append(record.id) or real(query, record)
        )
        names = [f"{user}{n}" for user in "abcd" for n in (0, 100)]
        assert [record.id for record in await store.find(ended)] == [*names, "e"]
        assert len(seen) == 9
        seen.clear()
        one = Query(collection="episodes", scope=Scope(user="e"), expired_at=NOON + timedelta(days=150))
        assert [record.id for record in await store.find(one)] == ["e"]
        assert seen == ["e"]
        await store.apply([Change(query=Query(collection="episodes", ids=("e",)), expires_at=None)])
        assert await store.apply([Remove(ended)]) == [8]
        assert await store.find(ended) == []
        assert await store.apply([Remove(Query(collection="episodes"))]) == [4001 - 8]
        assert not store._image.shelf("episodes")._endings
