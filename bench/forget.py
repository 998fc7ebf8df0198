"""Forgetting: the time it takes to erase one user of many, without the scrub, and what overwriting removed bytes costs appends."""

from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import apsw

from bench.places import Places
from octavo import Add, Record, Scope, open_store
from octavo.erasing import Subject, forget, scrub
from octavo.util.secrets import DigestKey

GOAL_SECONDS = 1.0
_AT_ONCE = 5000


class Size(NamedTuple):
    """How much is measured."""

    users: int
    memories: int  # of each
    forgotten: int


FULL = Size(10_000, 100, 5)
QUICK = Size(100, 10, 2)


def memory(user: int, number: int) -> Record:
    """One memory, in one of ten sessions of its user."""
    scope = Scope(user=f"user {user}", session=f"s{user}-{number % 10}")
    text = f"user {user} said, number {number}, that chair {user * 31 + number} is green"
    return Record(collection="messages", kind="user", scope=scope, text=text)


async def measured(places: Places, size: Size) -> str:
    """The times on SQLite and PostgreSQL, and of appends with and without `secure_delete`."""
    urls = {"sqlite": f"sqlite:///{places.path('.db')}", "postgresql": places.database("postgres")}
    key = DigestKey(Path(f"{places.path()}.key"))
    lines = [f"{size.users:,} users x {size.memories} memories; the goal is {GOAL_SECONDS:g} s"]
    for name, url in urls.items():
        async with open_store(url) as store:
            batch: list[Record] = []
            for user in range(size.users):
                batch += [memory(user, number) for number in range(size.memories)]
                if len(batch) >= _AT_ONCE or user == size.users - 1:
                    await store.apply([Add(batch)])
                    batch = []
            times = []
            for user in range(size.forgotten):
                began = perf_counter()
                told = await forget(store, Subject.of(user_id=f"user {user}"), key)
                times.append(perf_counter() - began)
                assert told.total == size.memories
            began = perf_counter()
            await scrub(store, key)
            lines.append(
                f"{name}: forget {median(times):.3f} s, the longest {max(times):.3f} s; "
                f"scrub {perf_counter() - began:.1f} s"
            )
    rates = [[appended(places, size, each) for each in ("OFF", "ON")] for _ in range(3)]
    plain, secure = (median(each) for each in zip(*rates, strict=True))
    lines.append(
        f"SQLite appends per second of CPU: {plain:,.0f} without secure_delete, {secure:,.0f} with it"
    )
    return "\n".join(lines)


def appended(places: Places, size: Size, secure: str) -> float:
    """Rows per second of CPU, since a disk is never twice the same, in transactions of ten, with the index that a record has."""
    db = apsw.Connection(str(places.path(".db")))
    db.execute(
        f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = {secure}"
    ).fetchall()
    db.execute(
        "CREATE TABLE t (n INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT); CREATE INDEX i ON t (text)"
    )
    count = 10 * size.users
    began = process_time()
    for start in range(0, count, 10):
        db.execute("BEGIN")
        rows = [(f"{(start + n) * 2654435761 % 2**32:08x}", f"said {start + n} " * 8) for n in range(10)]
        db.executemany("INSERT INTO t (id, text) VALUES (?, ?)", rows)
        db.execute("COMMIT")
    rate = count / (process_time() - began)
    db.close()
    return rate
