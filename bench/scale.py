"""`python -m bench --scale`: what writes and questions cost when little, much and very much is kept.

A few users are asked about, and have as many records at each size: what grows is what everybody else has. Whatever then takes
longer at a larger size grows with the whole.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.memories import drawn
from bench.places import ROOT, Places
from bench.recall import STORES
from bench.scale_copies import COLLECTION, copy_records
from bench.scale_servers import bytes_kept, named_url, pages_seen
from bench.subject import CROWD, LAST
from octavo import Add, Query, Record, Scope, open_store
from octavo.erasing import Subject, forget
from octavo.kernel.ports import Store
from octavo.measure.metrics import percentile
from octavo.search.recall import Recall
from octavo.util.secrets import DigestKey

ASKED = 10  # users who are asked about, with LAST records each
LARGE = 5  # users with much: a hundredth of all records each
MOST_USERS = 100_000
PER_USER = 10  # records, where there are fewer than MOST_USERS
BATCH = 5000  # records of one write while a store is filled
STEP = 50_000  # records that are written before they are indexed
WRITTEN = 50_000  # records of a PostgreSQL that are written; more are copies
NEW_BATCH = 1000  # records of one write when batches are timed
_BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
Say = Callable[[str], None]


class Effort(NamedTuple):
    """How much is measured at each size."""

    sizes: tuple[int, ...]
    seconds: float  # of appends
    batches: int
    questions: int  # of each kind
    forgotten: int  # users


FULL = Effort((1_000, 100_000, 1_000_000), seconds=5.0, batches=5, questions=60, forgotten=5)
QUICK = Effort((1_000, 2_000), seconds=0.05, batches=1, questions=3, forgotten=1)

#: Each row of the table: what it is called, and whether it is a rate, milliseconds or something else.
ROWS = {
    "append": ("append, awaited", "rate"),
    "crowd": (f"append, {CROWD} at once", "rate"),
    "batch": (f"append, batches of {NEW_BATCH:,}", "rate"),
    "index": ("index of words built", "rate"),
    "last": (f"last {LAST} of a session", "ms"),
    "five": ("recall within a user, five words", "ms"),
    "common": ("recall within a user, a common word", "ms"),
    "large": ("recall within a user who has a hundredth of all, five words", "ms"),
    "tally": ("tally of a user", "ms"),
    "tally all": ("tally of everything", "ms"),
    "forget": (f"forget a user with {LAST} records", "ms"),
    "open": ("start: open, and the last 50 of a session", "ms"),
    "open recall": ("the first recall after that", "ms"),
    "rss": ("memory of a process after that, MiB", "plain"),
    "bytes": ("bytes for each record, on disk or in Redis's memory", "plain"),
}


class Value(NamedTuple):
    """What was measured: a rate, or the median of some times in milliseconds; and the 95th percentile of those."""

    value: float
    p95: float | None = None
    pages: float | None = None  # that one question looked at, as PostgreSQL or MariaDB counted them


class Line(NamedTuple):
    """One store at one size."""

    store: str
    total: int
    users: int
    values: dict[str, Value]


# --- what is kept


class Memories:
    """So many records of so many users, each made when it is asked for, and the same one each time."""

    def __init__(self, total: int, copies: int = 1) -> None:
        self.total = total
        self.copies = copies  # of each record that is made here, itself among them
        self.written = total // copies
        self.users = min(MOST_USERS, total // PER_USER)
        self._apart = self.written // (ASKED * LAST)  # a record in so many is of a user who is asked about

    def record(self, number: int) -> Record:
        """The record of this number; those from `written` on are new ones, of anybody but the users who are asked about."""
        dice = random.Random(number)
        scope = self._scope(number, dice)
        text = f"{dice.choice(_halves()[0])} {dice.choice(_halves()[1])}"
        return Record(
            collection=COLLECTION,
            id=f"m{number:09d}",
            kind="user" if number % 2 else "assistant",
            scope=scope,
            text=text,
            created_at=_BIRTH + timedelta(seconds=number),
        )

    def _scope(self, number: int, dice: random.Random) -> Scope:
        turn, rest = divmod(number, self._apart)
        if not rest and turn < ASKED * LAST:
            return asked_scope(turn % ASKED)
        if dice.random() < LARGE / 100:
            return Scope(user=f"large-{dice.randrange(LARGE)}", session=f"session-{dice.randrange(100)}")
        # Some have more than others: the square of a fair die.
        user = int(self.users / self.copies * dice.random() ** 2)
        return Scope(user=f"user-{user}", session=f"session-{user}-{dice.randrange(3)}")

    def numbers(self, of: int) -> range:
        """The numbers of the records of a user who is asked about."""
        return range(of * self._apart, ASKED * LAST * self._apart, ASKED * self._apart)

    def question(self, kind: str, turn: int) -> tuple[Scope, str]:
        """A question and whose memory it is put to; each user is asked in turn, in words of one of the records."""
        dice = random.Random(turn)
        of = turn % ASKED
        whose = asked_scope(of).user
        if kind == "common":
            return Scope(user=whose), _common()
        text = self.record(dice.choice(self.numbers(of))).text
        words = sorted({word for word in text.split() if word.isascii()})
        if kind == "large":
            whose = f"large-{turn % LARGE}"
        return Scope(user=whose), " ".join(dice.sample(words, min(5, len(words))) or text[:5])


def asked_scope(number: int) -> Scope:
    """The session of one of the users who are asked about."""
    return Scope(user=f"asked-{number}", session=f"session of asked-{number}")


@cache
def _halves() -> tuple[list[str], list[str]]:
    """Beginnings and ends of sentences, whose words are as common and as rare as those of any language."""
    texts = [record.text for record in drawn(20_000, 1).records]
    cut = [text.split() if " " in text else [text[:20], text[20:]] for text in texts]
    return [" ".join(words[: len(words) // 2]) for words in cut], [
        " ".join(words[len(words) // 2 :]) for words in cut
    ]


@cache
def _common() -> str:
    """The word that is in every second sentence, more or less."""
    held = Counter(word for half in _halves() for text in half for word in set(text.split()))
    return min(held, key=lambda word: abs(held[word] - len(_halves()[0]) / 2))


# --- what is measured


async def measured(names: Sequence[str], places: Places, effort: Effort, say: Say) -> AsyncIterator[Line]:
    """Every store at every size, each in a database of its own."""
    for name in names:
        for total in effort.sizes:
            url = STORES[name].url(places)
            key = DigestKey(Path(f"{places.path()}.key"))
            yield await of_store(name, url, total, effort, key, say)


async def of_store(name: str, url: str, total: int, effort: Effort, key: DigestKey, say: Say) -> Line:
    """Fill the store at this URL, and measure it."""
    memories = Memories(total, max(1, total // WRITTEN) if name == "postgresql" else 1)
    told = f"{name}, {total:,}"
    empty = await bytes_kept(url)
    # Two, since a store that is searched indexes what it has written, in idle time: each is timed by itself.
    async with open_store(url) as writer, open_store(url) as reader:
        await _fill(writer, reader, memories, lambda text: say(f"{told}: {text}"))
        began = perf_counter()
        if name == "redis":  # which makes its index of somebody's words when that memory is first searched
            await reader.reindex(COLLECTION)
        indexed = Value(total / (perf_counter() - began))
    if name == "postgresql":
        say(f"{told}: {memories.copies - 1:,} copies of each")
        await copy_records(url, memories.copies, "large-")
    values: dict[str, Value] = {}
    if (size := await bytes_kept(url)) is not None and empty is not None:
        values["bytes"] = Value((size - empty) / total)
    say(f"{told}: start of another process")
    values |= await _started(url)
    say(f"{told}: questions")
    values |= await _asked(url, memories, effort)
    async with open_store(url) as writer, open_store(url) as reader:
        await _catch_up(reader)
        say(f"{told}: appends")
        values |= await _appended(writer, reader, memories, effort)
        if name == "redis":
            values["index"] = indexed
        say(f"{told}: forgetting")
        values["forget"] = await _forgotten(writer, effort, key)
    return Line(name, total, memories.users, values)


async def _fill(writer: Store, reader: Store, memories: Memories, say: Say) -> None:
    """Fill the store, and its index step by step."""
    await _catch_up(reader)  # what a process reads once, to split texts into words
    for start in range(0, memories.written, STEP):
        end = min(start + STEP, memories.written)
        spent = 0.0
        for first in range(start, end, BATCH):
            batch = [memories.record(number) for number in range(first, min(first + BATCH, end))]
            began = perf_counter()
            await writer.apply([Add(batch)])
            spent += perf_counter() - began
        began = perf_counter()
        await _catch_up(reader)
        indexed = (end - start) / (perf_counter() - began)
        say(f"{end:,} kept, {(end - start) / spent:,.0f}/s, indexed {indexed:,.0f}/s")


async def _catch_up(reader: Store) -> None:
    """Have everything indexed that waits: a search does not answer before."""
    await Recall(reader).recall("hello", Scope(user="nobody"), collections=(COLLECTION,))


async def _asked(url: str, memories: Memories, effort: Effort) -> dict[str, Value]:
    """Each kind of question, in a store that is opened for it; the first of a kind is for warming up."""
    values = {}
    for kind in ("last", "five", "common", "large", "tally", "tally all"):
        before = await pages_seen(url)
        times = []
        named = named_url(url)
        async with open_store(named) as store:
            for turn in range(effort.questions + 1):
                began = perf_counter()
                if not await _is_answered(store, memories, kind, turn):
                    raise AssertionError(f"{kind}: question {turn} was not answered")
                times.append(perf_counter() - began)
        after = await pages_seen(url)
        values[kind] = _spread(times[1:])
        if before is not None and after is not None:
            values[kind] = values[kind]._replace(pages=(after - before) / len(times))
    return values


async def _is_answered(store: Store, memories: Memories, kind: str, turn: int) -> bool:
    """Ask, and see whether the answer is right as far as is known."""
    if kind == "last":
        scope = asked_scope(turn % ASKED)
        query = Query(collection=COLLECTION, scope=scope, newest_first=True, limit=LAST)
        return len(await store.find(query)) == LAST
    if kind == "tally":
        query = Query(collection=COLLECTION, scope=Scope(user=f"asked-{turn % ASKED}"))
        return (await store.tally(query)).total == LAST
    if kind == "tally all":
        return (await store.tally(Query(collection=COLLECTION))).total == memories.total
    scope, text = memories.question(kind, turn)
    found = await Recall(store).recall(text, scope)
    return bool(found) or kind == "large"  # somebody with ten records may have none with such words


async def _appended(store: Store, reader: Store, memories: Memories, effort: Effort) -> dict[str, Value]:
    """Appends per second: one after the other, many at once, and in batches; and how fast they are indexed then."""
    following = memories.written
    values = {}
    for job, tasks in (("append", 1), ("crowd", CROWD)):
        began = perf_counter()
        first = following

        async def appender(began: float = began) -> None:
            nonlocal following
            while perf_counter() - began < effort.seconds:
                following += 1
                await store.apply([Add([memories.record(following)])])

        await asyncio.gather(*(appender() for _ in range(tasks)))
        values[job] = Value((following - first) / (perf_counter() - began))
    times = []
    for _ in range(effort.batches):
        batch = [memories.record(following + number) for number in range(1, NEW_BATCH + 1)]
        following += NEW_BATCH
        began = perf_counter()
        await store.apply([Add(batch)])
        times.append(perf_counter() - began)
    values["batch"] = Value(NEW_BATCH / median(times))
    began = perf_counter()
    await _catch_up(reader)
    values["index"] = Value((following - memories.written) / (perf_counter() - began))
    return values


async def _forgotten(store: Store, effort: Effort, key: DigestKey) -> Value:
    times = []
    for number in range(effort.forgotten + 1):  # the first makes the table of certificates
        began = perf_counter()
        done = await forget(store, Subject.of(user_id=f"asked-{number}"), key)
        times.append(perf_counter() - began)
        if done.total != LAST:
            raise AssertionError(f"{done.total} records forgotten instead of {LAST}")
    return _spread(times[1:])


async def _started(url: str) -> dict[str, Value]:
    """What a new process takes to open the store and to answer for the first time, and its memory after that."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.scale",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await child.communicate(url.encode())
    if child.returncode:
        raise RuntimeError(f"another process could not open the store: it ended with {child.returncode}")
    return {name: Value(value) for name, value in json.loads(said).items()}


async def _start(url: str) -> dict[str, float]:
    """Be that process."""
    began = perf_counter()
    async with open_store(url) as store:
        scope = asked_scope(0)
        await store.find(Query(collection=COLLECTION, scope=scope, newest_first=True, limit=LAST))
        opened = perf_counter()
        await Recall(store).recall("What did we say about it?", Scope(user=scope.user))
        answered = perf_counter()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        kib = int(status.partition("VmRSS:")[2].split()[0])
    return {"open": (opened - began) * 1000, "open recall": (answered - opened) * 1000, "rss": kib / 1024}


def _spread(seconds: list[float]) -> Value:
    times = [each * 1000 for each in seconds]
    return Value(percentile(0.5, times), percentile(0.95, times))


# --- the table


def table(lines: Sequence[Line]) -> str:
    """For each store a table as Markdown, with what each row costs at the largest size in times of the smallest."""
    told = []
    for store in dict.fromkeys(line.store for line in lines):
        of = [line for line in lines if line.store == store]
        told += [
            f"| {store} | {' | '.join(f'{line.total:,}' for line in of)} | grows |",
            f"|---|{'---|' * len(of)}---|",
            f"| users | {' | '.join(f'{line.users:,}' for line in of)} | |",
        ]
        for name, (label, unit) in ROWS.items():
            if all(name in line.values for line in of):
                values = [line.values[name] for line in of]
                cells = " | ".join(_cell(value, unit) for value in values)
                told.append(f"| {label} | {cells} | {_growth(values, unit)} |")
        told.append("")
    return "\n".join(told).rstrip()


def _growth(values: list[Value], unit: str) -> str:
    """The time, or the room, of one at the largest size over that at the smallest; and so of pages."""
    first, last = values[0], values[-1]
    grown = first.value / last.value if unit == "rate" else last.value / first.value
    return f"{grown:.1f}" + (f", pages {last.pages / first.pages:.1f}" if first.pages and last.pages else "")


def _cell(value: Value, unit: str) -> str:
    if unit == "rate":
        return f"{value.value:,.0f}/s"
    if unit == "plain":
        return f"{value.value:,.0f}"
    times = [f"{each:.1f}" for each in value[:2] if each is not None]
    return " / ".join(times) + " ms" + ("" if value.pages is None else f", {value.pages:,.0f} pages")


async def show(names: Sequence[str], places: Places, effort: Effort) -> None:
    """Measure, tell on the standard error what is being done, and print the table; also of what was not finished."""
    began = perf_counter()

    def say(text: str) -> None:
        print(f"[{perf_counter() - began:5.0f} s] {text}", file=sys.stderr, flush=True)

    lines: list[Line] = []
    try:
        async with aclosing(measured(names, places, effort, say)) as found:
            async for line in found:
                lines.append(line)
    finally:
        print(table(lines))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_start(sys.stdin.read()))))
