"""What the tests of substrings in SQLite share: nasty texts, and ways to ask whether the index is there and used."""

import asyncio
from datetime import UTC, datetime, timedelta

import apsw

from octavo import Query, Record, Scope, Tally
from octavo.stores.sql import substrings
from octavo.stores.sql.statements import Do, Fetch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVENTS = Query(collection="events")
NASTY = [
    "50% off_today", 'say "no" \'yes\'', "back\\slash", "line\nbreak\ttab", "人工智能平台很好用", "か゛き゛ ガ", "e\u0301te\u0301 été",
    "🎉🎊🎈 party 👩‍👩‍👧‍👦", "\U0001f600\U0001f601\U0001f602\U0001f603", "ＡＢＣ ﬁne ß İstanbul", "\ufffe\uffff\ufffd odd", "   ", "ab",
    "a", "", "AND OR NOT NEAR(", "col:umn ^x*", "aaaaaaaaaa", "\u0300\u0301\u0302", "x" * 5000 + "needle" + "y" * 5000,
    "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "\x01\x02\x03\x7f", "a" * 40 + "b",
]  # fmt: skip


def event(number, text, **more):
    given = {
        "collection": "events",
        "id": f"e{number}",
        "text": text,
        "seq": number,
        "kind": "kt"[number % 2],
    }
    scope = Scope(agent=f"a{number % 3}", session=f"s{number % 5}")
    return Record(**given | {"scope": scope, "created_at": NOON + timedelta(seconds=number // 2)} | more)


async def ask(store, sql, values=()):
    def script():
        return (yield Fetch(sql, values))

    return await store._driver.read(script)


async def do(store, sql, values=()):
    def script():
        yield Do(sql, values)

    await store._driver.write(script)


async def settled(store):
    """Wait until the index is filled; the test's own time limit ends a wait that is in vain."""
    table = await store._table("events")
    behind = f"SELECT COUNT(*) FROM agent_events WHERE rowno > {substrings.TrigramNames(table).upto}"
    while (await ask(store, behind))[0][0]:
        await store.find(Query(collection="events", text="whatever"))
        await asyncio.sleep(0.01)


async def nominates(store, **clauses):
    """Whether the index says which records are looked at."""
    query = Query(collection="events", **clauses)
    table = await store._table("events")
    nominated, _ = await store._driver.read(lambda: substrings._nominate(table, query))
    return nominated is not None


async def agrees(store, records, **clauses):
    """A find and a tally answer what `Query` itself says of the records."""
    query = Query(collection="events", **clauses)
    expected = [record.key for record in query.over(records)]
    assert [record.key for record in await store.find(query)] == expected
    assert await store.tally(query) == Tally.of(query, records)
    return expected


def indexed(path):
    """Every run of characters in the index with the number it stands for."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, agent_events_substrings, instance)"
    )
    found = {(term, doc) for term, doc in connection.execute("SELECT term, doc FROM temp.seen").fetchall()}
    rows = connection.execute("SELECT rowno, search FROM agent_events").fetchall()
    connection.close()
    # The tokenizer reads these two characters, which are no characters, as the one that stands for such.
    spelled = [(n, text.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")) for n, text in rows]
    return found, {(text[at : at + 3], n) for n, text in spelled for at in range(len(text) - 2)}
