"""Fill a PostgreSQL from within: copies of the records it has, as those of other users, with their entries in the index of words.

Written one by one, ten million records take hours of the program that writes them, and what is measured is the database. A copy has
the words of its original, other names and a row of its own beside it, so that everybody's records are spread over the whole.
"""

import asyncpg

from octavo import Scope
from octavo.stores.sql.schema import counter_of

COLLECTION = "messages"
#: Columns that are not the same in a copy; `k` is the number of the copy, and 0 is the original. A scope's key and tags are
#: digests: one that ends otherwise is that of somebody else.
_OTHER = {
    "rowno": "rowno * {copies} + k",
    "id": "id || ending",
    "scope_key": "CASE k WHEN 0 THEN scope_key ELSE left(scope_key, -4) || code END",
    "user_id": "CASE WHEN {shared} THEN user_id ELSE user_id || ending END",
    "session_id": "session_id || ending",
    "created_at": "created_at + k * INTERVAL '1 second' / {copies}",
}
#: A table of the numbers of the copies and what they add to a name or put at the end of a digest.
_NUMBERS = (
    "SELECT k, CASE k WHEN 0 THEN '' ELSE '-' || k END AS ending, lpad(to_hex(k), 4, '0') AS code "
    "FROM generate_series(0, {copies} - 1) AS k"
)
#: The indexes that are not part of a constraint, and the statements that make them.
_INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('messages', 'messages_terms') "
    "AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = indexname)"
)
_USER_TAG, _SESSION_TAG = "split_part(tags, ' ', 2)", "split_part(tags, ' ', 4)"


async def copy_records(url: str, copies: int, shared: str) -> None:
    """Have so many of every record, the original among them; users whose name begins with `shared` keep theirs.

    Leaves the tables as autovacuum would after a while.
    """
    connection = await asyncpg.connect(url)
    try:
        if copies > 1:
            async with connection.transaction():
                # Indexes that are made of everything at once take a fraction of the time.
                indexes = await connection.fetch(_INDEXES)
                for name, _ in indexes:
                    await connection.execute(f"DROP INDEX {name}")
                for statement in _statements(copies, shared, await _columns(connection)):
                    await connection.execute(statement)
                for _, statement in indexes:
                    await connection.execute(statement)
                await _copy_counters(connection, copies, shared)
        for table in ("messages", "messages_terms", "messages_waiting", "octavo_counts"):
            await connection.execute(f"VACUUM ANALYZE {table}")
    finally:
        await connection.close()


async def _columns(connection: asyncpg.Connection) -> list[str]:
    sql = "SELECT attname FROM pg_attribute WHERE attrelid = 'messages'::regclass AND attnum > 0 ORDER BY attnum"
    return [row[0] for row in await connection.fetch(sql)]


def _statements(copies: int, shared: str, columns: list[str]) -> list[str]:
    keeps_name = f"k = 0 OR user_id LIKE '{shared}%'"
    numbers = _NUMBERS.format(copies=copies)
    picked = [_OTHER.get(name, name).format(copies=copies, shared=keeps_name) for name in columns]
    user = f"CASE WHEN {keeps_name} THEN {_USER_TAG} ELSE left({_USER_TAG}, -4) || code END"
    session = f"CASE k WHEN 0 THEN {_SESSION_TAG} ELSE left({_SESSION_TAG}, -4) || code END"
    tags = f"concat_ws(' ', split_part(tags, ' ', 1), {user}, split_part(tags, ' ', 3), {session})"
    lexemes = f"ts_delete(lexemes, ARRAY[{_USER_TAG}, {_SESSION_TAG}]) || array_to_tsvector(ARRAY[{user}, {session}])"
    return [
        "SET LOCAL maintenance_work_mem = '256MB'",
        "CREATE TEMP TABLE given ON COMMIT DROP AS SELECT * FROM messages",
        "CREATE TEMP TABLE entries ON COMMIT DROP AS SELECT t.*, user_id FROM messages_terms AS t JOIN messages ON rowno = number",
        "TRUNCATE messages, messages_terms",
        (
            f"INSERT INTO messages ({', '.join(columns)}) SELECT {', '.join(picked)} "
            f"FROM given, ({numbers}) AS numbers ORDER BY rowno, k"
        ),
        (
            "INSERT INTO messages_terms (number, length, bag, more, tags, lexemes) "
            f"SELECT number * {copies} + k, length, bag, more, {tags}, {lexemes} "
            f"FROM entries, ({numbers}) AS numbers ORDER BY number, k"
        ),
        "SELECT setval(pg_get_serial_sequence('messages', 'rowno'), (SELECT max(rowno) FROM messages))",
    ]


async def _copy_counters(connection: asyncpg.Connection, copies: int, shared: str) -> None:
    """Those of users who keep their name and of everybody count more; others are somebody else's now."""
    names = await connection.fetch(
        "SELECT DISTINCT user_id FROM messages WHERE user_id LIKE $1", f"{shared}%"
    )
    scopes = [Scope(user=row[0]) for row in names]
    more = [counter_of(COLLECTION, ("user",), scope, scope.key) for scope in scopes]
    more.append(counter_of(COLLECTION, (), Scope(), ""))
    await connection.execute(
        "INSERT INTO octavo_counts (counter, kind, slot, n) SELECT left(counter, -4) || code, kind, slot, n "
        f"FROM octavo_counts, ({_NUMBERS.format(copies=copies)}) AS numbers WHERE k > 0 AND counter <> ALL($1::text[])",
        more,
    )
    await connection.execute(
        f"UPDATE octavo_counts SET n = n * {int(copies)} WHERE counter = ANY($1::text[])", more
    )
