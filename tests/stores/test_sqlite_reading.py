"""Records are read from SQLite as they were written, whatever they hold; a row that somebody else has changed is named."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from octavo import Add, Change, Query, Record, Remove, Scope, StoreError, open_store
from octavo.stores.sql import SQLAlchemyStore
from octavo.stores.sql.statements import Do
from octavo.testing.texts import NEEDLES

NASTY = [
    *(written for _, written, _ in NEEDLES[::6]),
    *(chr(n) for n in range(1, 32, 5)),
    "\x7f\u2028",
    "%s%d%%",
    '\\"',
    "{}",
]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCOPES = [
    Scope(tenant=tenant, user=user, agent=agent, session=session)
    for tenant in ("", 'the "tenant"')
    for user in (None, 'u"\\')
    for agent in (None, "代理")
    for session in (None, "s'%s{}")
]


@pytest.fixture(params=["apsw", "sqlalchemy"])
async def store(request, tmp_path):
    if request.param == "apsw":
        async with open_store(f"sqlite:///{tmp_path}/a.db") as opened:
            yield opened
    else:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/a.db")
        async with SQLAlchemyStore(engine) as opened:
            yield opened
        await engine.dispose()


def several():
    """Records with everything a record can have, and with nothing."""
    for number, scope in enumerate(SCOPES):
        yield Record(collection="messages", id=f"bare-{number}", scope=scope)
        for at, nasty in enumerate(NASTY):
            yield Record(
                collection="messages",
                id=f"{nasty[:40]}-{number}",
                kind=nasty[:40],
                scope=scope,
                text=nasty,
                data={"text": nasty, nasty: [1, 2.5, None, {"deep": True}]},
                metadata={"said": nasty, "n": at},
                marks=(nasty[:40], "seen") if at % 2 else (),
                created_at=NOON + timedelta(microseconds=at),
                expires_at=NOON + timedelta(days=at) if at % 3 else None,
            )


def long(length):
    return [
        Record(collection="events", id=str(n), text="x" * length, created_at=NOON, updated_at=NOON, seq=n)
        for n in range(9)
    ]


async def test_records_come_back_as_they_were(store):
    """Whatever a record holds and whatever parts of a scope are asked for."""
    await store.apply([Add(list(several()))])
    await store.apply([Change(query=Query(collection="messages", marks=("seen",)), merge={"seen": True})])
    kept = [
        record
        for tenant in {scope.tenant for scope in SCOPES}
        for record in await store.find(Query(collection="messages", scope=Scope(tenant=tenant)))
    ]
    given = {(record.id, record.scope): record for record in several()}
    assert {(record.id, record.scope) for record in kept} == given.keys()
    for record in kept:
        told = given[record.id, record.scope]
        changed = {"seen": True} if told.marks and not told.scope.tenant else {}
        assert (record.text, record.metadata, record.marks) == (told.text, told.metadata, told.marks)
        assert record.data == told.data | changed
    assert any(record.updated_at != record.created_at for record in kept)
    asked = {Scope(tenant=s.tenant, user=u, agent=a, session=e)
             for s in SCOPES for u in (s.user, "", None) for a in (s.agent, "", None) for e in (s.session, "", None)}  # fmt: skip
    for scope in asked:
        for more in (
            {"limit": 7},
            {"limit": 7, "newest_first": True},
            {"limit": 9, "offset": 3},
            {},
            {"ids": ("bare-0",)},
        ):
            query = Query(collection="messages", scope=scope, **more)
            assert await store.find(query) == query.over(kept)


async def test_the_newest_of_many_scopes(store):
    """The newest of a scope, asked for again with another limit and in the other direction."""
    records = [
        Record(collection="events", id=str(n), scope=Scope(session=str(n % 5)), seq=n) for n in range(100)
    ]
    await store.apply([Add(records)])
    for _ in range(2):
        for session in range(5):
            mine = [str(n) for n in range(100) if n % 5 == session]
            for limit in (1, 3, 50):
                for backwards in (False, True):
                    query = Query(
                        collection="events",
                        scope=Scope(session=str(session)),
                        limit=limit,
                        newest_first=backwards,
                    )
                    found = [record.id for record in await store.find(query)]
                    assert found == (mine[::-1][:limit] if backwards else mine[-limit:])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("data = '{\"a\": '", "JSON|truncated"),
        ("metadata = 'no JSON'", "JSON|malformed"),
        ("timestamp = 'yesterday'", "isoformat"),
        ("marks = '{}'", "array"),
    ],
)
async def test_a_row_that_somebody_else_has_changed(store, change, says):
    """It is named, however it is asked for, nobody waits for ever, and the others are still read."""
    records = [
        Record(collection="events", id=str(n), scope=Scope(session=str(n % 2)), seq=n) for n in range(6)
    ]
    await store.apply([Add(records)])
    await store._driver.write(lambda: iter_of(Do(f"UPDATE agent_events SET {change} WHERE event_id = '3'")))
    kinds = ("",)
    for query in (
        Query(collection="events", scope=Scope(session="1"), limit=5),  # straight off an index
        Query(collection="events", kinds=kinds, limit=5),
        Query(collection="events", kinds=kinds),
    ):
        with pytest.raises(StoreError, match=rf"record '3' in table agent_events.*({says}).*delete"):
            await asyncio.wait_for(store.find(query), 20)
    with pytest.raises(StoreError, match="record '3'"):
        await asyncio.wait_for(
            store.apply([Change(query=Query(collection="events"), kind="seen"), Add(records)]), 20
        )
    found = await asyncio.wait_for(
        store.find(Query(collection="events", scope=Scope(session="0"), kinds=kinds)), 20
    )
    assert [record.id for record in found] == ["0", "2", "4"]
    assert await store.apply([Add([Record(collection="events", id="new")])]) == [1]


def iter_of(statement):
    yield statement


async def test_whatever_goes_wrong_in_a_thread_is_told(tmp_path):
    """Whoever waits for it gets the error, and the thread goes on working."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add(long(1))])
        for work in (store._driver.read, store._driver.write):
            for _ in range(3):
                with pytest.raises(ZeroDivisionError):
                    await asyncio.wait_for(work(lambda: 1 / 0), 20)
        assert len(await asyncio.wait_for(store.find(Query(collection="events")), 20)) == 9
        assert await asyncio.wait_for(store.apply([Remove(Query(collection="events"))]), 20) == [9]
