"""Generated programs give the same answers on this store as on the one that is right; and what they cannot see of writes and names."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from octavo.errors import Conflict, InvalidQuery
from octavo.kernel.codec import MAX_RECORD_BYTES, encode_record
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Head, NameCount, Op, Query, Record, Remove, Scope, ScopePart
from octavo.kernel.pages import walk
from octavo.kernel.ports import FindsWithin, ListsHeads, ListsNames, Store
from octavo.testing.strategies import Program, Write, programs, spell_code
from octavo.testing.subject import NOON, StoreUnderTest, count, ids, message, messages, on_a_store, refuses
from octavo.util.user_code import catch_error

MOST_BESIDE_BYTES = 8192  # names, marks and times that a store may keep in one text with the bodies


class Agreement(StoreUnderTest):
    """`OCTAVO_PROGRAMS` says how many programs are run."""

    def test_programs_agree(self) -> None:
        """Counts, records, their order and tallies are those of the reference store, whatever is written and asked."""
        run_on_a_store(self, programs(), self.compare)

    async def compare(self, store: Store, program: Program) -> None:
        """Take the steps on both stores and compare each answer, then everything that is left."""
        tenant = new_id()
        async with asyncio.timeout(self.seconds), self.reference() as right:
            for step in program.under(tenant):
                if isinstance(step, Write):
                    assert await outcome(store, step.ops) == await outcome(right, step.ops)
                else:
                    found = await assert_same(store, right, step.query)
                    if found:  # then from the middle of the answer, which is where pages are cut
                        middle = found[len(found) // 2].cursor
                        await assert_same(store, right, replace(step.query, after=middle))
                    await assert_same_names(store, right, step.query.collection, step.query.scope)
            for collection in {record.collection for record in added_records(program)}:
                for scope in (Scope(tenant=tenant), Scope(tenant=f"{tenant}2")):
                    await assert_same(store, right, Query(collection=collection, scope=scope))
                    await assert_same_names(store, right, collection, scope)


#: Names of users in the order of their characters, which is not that of any language.
USERS = ("10", "9", "A", "Z", "a", "a b", "ab", "lin", "z", "é", "小明", "ﬁ", "🎉")


class Naming(StoreUnderTest):
    """Which users, agents and sessions there are; run only for stores that are `octavo.kernel.ports.ListsNames`."""

    @on_a_store
    async def test_names_are_listed(self, store: Store, home: Scope) -> None:
        """Each has its count and its times; they come in one order everywhere, a page at a time."""
        listed = _require_names(store)
        for collection in ("profile", "observations", "messages"):
            kept = [
                Record(
                    collection=collection,
                    id=str(number),
                    scope=replace(home, user=USERS[number % len(USERS)], agent="one", session=session),
                    created_at=NOON + timedelta(seconds=number),
                )
                for number, session in enumerate(["x", "y", "y"] * 20)
            ]
            nobody = replace(kept[0], scope=home)
            stranger = replace(kept[0], scope=Scope(tenant=f"{home.tenant}2", user="stranger"))
            await store.apply([Add([*kept[::-1], nobody, stranger])])
            for part in get_args(ScopePart):
                expected = NameCount.of(part, [*kept, nobody])
                assert await listed.names(collection, part, home) == expected
                paged: list[NameCount] = []
                while page := await listed.names(
                    collection, part, home, after=paged[-1].name if paged else "", limit=2
                ):
                    assert len(page) <= 2
                    assert not paged or page[0].name > paged[-1].name, "a page begins where it was asked to"
                    paged += page
                assert paged == expected
        assert [one.name for one in await listed.names("profile", "user", home)] == list(USERS)
        assert await listed.names("profile", "user", home, limit=0) == []
        assert await listed.names("profile", "user", home, after="🎉") == []
        assert await listed.names("profile", "user", Scope(tenant=f"{home.tenant}3")) == []
        assert await listed.names("turns", "session", home) == []

    @on_a_store
    async def test_what_names_are_refused(self, store: Store, home: Scope) -> None:
        """A part that is none, a collection nobody knows, a limit below 0, a name that nobody can have."""
        listed = _require_names(store)
        await refuses(InvalidQuery, listed.names("profile", "tenant", home), "'tenant'")  # type: ignore[arg-type]
        await refuses(InvalidQuery, listed.names("nothing", "user", home), "'nothing'")
        await refuses(InvalidQuery, listed.names("profile", "user", home, limit=-1), "-1")
        await refuses(InvalidQuery, listed.names("profile", "user", home, after="a\0"), "nobody can have")
        assert await listed.names("profile", "user", Scope(tenant="\ud800")) == []


def _note(name: str, home: Scope, text: str = "") -> Record:
    return message(name, home, text=text, created_at=NOON, seq=1)


class Writes(StoreUnderTest):
    """What programs cannot see of writes: who wins a race, what is refused, ends that move, and volume."""

    @on_a_store
    async def test_what_is_expected(self, store: Store, home: Scope) -> None:
        """An op that meets another number of records than it expects is told so; one that expects no number is refused."""
        every = messages(home)
        await refuses(Conflict, store.apply([Add([], expect=1)]), "expected 1 record and met 0")
        unmet: list[Op] = [Add([_note("a", home)]), Remove(every, expect=2)]
        await refuses(Conflict, store.apply(unmet), "nothing of its batch was applied")
        assert await store.apply([Add([_note("a", home)]), Remove(every, expect=1)]) == [1, 1]
        for bad in (-1, "1", 1.5):
            await refuses(InvalidQuery, store.apply([Remove(every, expect=bad)]), "expect must be")  # type: ignore[arg-type]

    @on_a_store
    async def test_of_many_who_expect_the_same_one_wins(self, store: Store, home: Scope) -> None:
        """So a version can be changed once, however many try at the same moment."""
        query = Query(collection="messages", scope=home, ids=("memory",), marks=("v1",))
        await store.apply([Add([replace(_note("memory", home), marks=("v1",))])])

        async def change(number: int) -> int:
            ops: list[Op] = [
                Change(query=query, text=f"{number}", unmark=None, mark=("v2",), expect=1),
                Add([_note(f"log{number}", home)], expect=1),
            ]
            try:
                await store.apply(ops)
            except Conflict:
                return 0
            return 1

        assert sum(await asyncio.gather(*map(change, range(20)))) == 1
        found = {record.id: record for record in await store.find(Query(collection="messages", scope=home))}
        memory = found.pop("memory")
        assert memory.marks == ("v2",)
        assert list(found) == [f"log{memory.text}"]

    @on_a_store
    async def test_an_end_moves_with_its_record(self, store: Store, home: Scope) -> None:
        """A record that ends at another time, no longer, or is gone, is not found by the end it had."""
        every = Query(collection="profile", scope=home)

        async def ended(hours: int) -> list[str]:
            at = NOON + timedelta(hours=hours)
            return await ids(store, replace(every, expired_at=at))

        def one(id_: str) -> Query:
            return replace(every, ids=(id_,))

        await store.apply(
            [Add([Record(collection="profile", id=i, scope=home, expires_at=NOON) for i in "abcd"])]
        )
        await store.apply([Add([Record(collection="profile", id="e", scope=home)])])
        assert await ended(-1) == []
        assert await ended(0) == ["a", "b", "c", "d"]
        await store.apply([Change(query=one("a"), expires_at=NOON + timedelta(hours=5))])
        await store.apply([Change(query=one("b"), expires_at=None), Change(query=one("e"), expires_at=NOON)])
        await store.apply([Remove(one("c"))])
        assert await ended(4) == ["d", "e"]
        assert await ended(5) == ["a", "d", "e"]
        await store.apply([Change(query=one("a"), expires_at=NOON), Change(query=one("d"), kind="k")])
        assert await ended(0) == ["a", "d", "e"]
        await store.apply([Add([Record(collection="profile", id="c", scope=home)])])
        assert await ended(9) == ["a", "d", "e"]
        taken = Remove(replace(every, expired_at=NOON, limit=2))
        assert await store.apply([taken, taken]) == [2, 1]
        assert await ended(9) == []
        assert await ids(store, every) == ["b", "c"]

    @on_a_store
    async def test_forty_thousand_at_once(self, store: Store, home: Scope) -> None:
        """A batch of 40,000 records (`largest_batch`) is one call: kept whole, counted, paged, changed and removed."""
        many = self.largest_batch
        written = [
            Record(
                collection="events",
                id=f"e{number:05}",
                kind=("user", "tool")[number % 2],
                scope=Scope(tenant=home.tenant, session=f"s{number % 100}"),
                text=f"event number {number}",
                created_at=NOON + timedelta(microseconds=number),
                seq=number,
            )
            for number in range(many)
        ]
        query = Query(collection="events", scope=home)
        assert await count(store, Add(written)) == many
        assert await count(store, Add(written[: many // 2])) == 0
        tally = await store.tally(query)
        assert (tally.total, tally.by_kind) == (many, {"user": many // 2, "tool": many // 2})
        assert (tally.first, tally.last) == (written[0].created_at, written[-1].created_at)
        newest = await store.find(Query(collection="events", scope=home, limit=3))
        assert [record.id for record in newest] == [record.id for record in written[-3:]]
        session = Query(collection="events", scope=Scope(tenant=home.tenant, session="s7"), limit=2)
        assert await ids(store, session) == [record.id for record in written[7::100]][-2:]
        names = tuple(record.id for record in written)
        assert (await store.tally(Query(collection="events", scope=home, ids=names))).total == many
        pages: list[list[str]] = []
        size = many * 3 // 8
        async for page in walk(store, query, size):
            pages.append([record.id for record in page])
            assert len(pages) <= 3, "pages repeat"
        assert [len(page) for page in pages] == [size, size, many - 2 * size]
        assert [name for page in pages for name in page] == [record.id for record in written]
        assert await count(store, Change(query=query, kind="tool")) == many // 2
        assert (await store.tally(query)).by_kind == {"tool": many}
        assert await count(store, Remove(query)) == many
        assert (await store.tally(query)).total == 0

    @on_a_store
    async def test_the_largest_record(self, store: Store, home: Scope) -> None:
        """What the edge lets through is kept whole, one by one and side by side, and a word at its end is found."""
        text = "x" * (MAX_RECORD_BYTES - 11) + "the END"  # beside it stand the two empty bodies, {} and {}
        data = {"a": "y" * (MAX_RECORD_BYTES - 15) + "finis"}
        query = messages(home)
        assert await count(store, Add([message("a", home, text=text)])) == 1
        others = [message(name, home, data=data) for name in ("b", "c")]
        assert await count(store, Add(others)) == 2
        assert await count(store, Change(query=query, mark=("m",))) == 3
        found = await store.find(query)
        assert [record.id for record in found] == ["a", "b", "c"]
        assert [record.text == text for record in found] == [True, False, False]
        assert [record.data == data for record in found] == [False, True, True]
        assert await ids(store, messages(home, text="The End")) == ["a"]
        assert await ids(store, messages(home, text="FINIS")) == ["b", "c"]


def _require_names(store: Store) -> ListsNames:
    """The store as one that lists names, or a skip."""
    if not isinstance(store, ListsNames):
        pytest.skip("the store is not octavo.kernel.ports.ListsNames")
    return store


def run_on_a_store(
    subject: StoreUnderTest,
    strategy: SearchStrategy[Program],
    compare: Callable[[Store, Program], Coroutine[Any, Any, None]],
    share: int = 1,
) -> None:
    """Compare as many programs as the subject or `OCTAVO_PROGRAMS` says, or a share of them, on one store."""
    most = max(1, int(os.environ.get("OCTAVO_PROGRAMS", subject.programs)) // share)
    with asyncio.Runner() as runner:
        store = runner.run(subject.open())
        try:
            run_programs(
                strategy, lambda program: runner.run(compare(store, program)), most, subject.shrink_seconds
            )
        finally:
            runner.run(store.close())


_drawn: dict[tuple[str, int], list[Program]] = {}


def run_programs(
    strategy: SearchStrategy[Program], compare: Callable[[Program], None], most: int, shrink_seconds: float
) -> None:
    """Compare on so many programs; one that fails is made shorter for so long and then shown.

    They are drawn once in a process, for all stores: to draw one takes longer than to run it on most of them.
    """
    for program in _programs_of(strategy, most):
        error = _error_of(compare, program)
        if error is None:
            continue
        steps, at, ends_at = program.steps, 0, time.monotonic() + shrink_seconds
        while at < len(steps) and time.monotonic() < ends_at:
            shorter = [*steps[:at], *steps[at + 1 :]]
            if (same_error := _error_of(compare, Program(shorter))) is None:
                at += 1  # this step is needed
            else:
                steps, error = shorter, same_error
        error.add_note(f"The shortest program found that fails:\n{Program(steps)!r}")
        raise error


def _programs_of(strategy: SearchStrategy[Program], most: int) -> list[Program]:
    """So many programs; they are drawn by the first who asks."""

    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(program: Program) -> None:
        drawn.append(program)

    key = (repr(strategy), most)
    if (drawn := _drawn.get(key, [])) == []:
        draw()
        _drawn[key] = drawn
    return drawn


def _error_of(compare: Callable[[Program], None], program: Program) -> Exception | None:
    with catch_error() as outcome:
        compare(program)
    return outcome.error


def added_records(program: Program) -> list[Record]:
    """Every record a program tries to add."""
    ops = [op for step in program.steps if isinstance(step, Write) for op in step.ops]
    return [record for op in ops for record in getattr(op, "records", ())]


async def outcome(store: Store, ops: Sequence[Op]) -> list[int] | str:
    """What each of the ops touched, or that some expectation was not met."""
    try:
        return await store.apply(ops)
    except Conflict as conflict:
        return str(conflict)


async def assert_same(store: Store, right: Store, query: Query) -> list[Record]:
    """Both stores answer the query alike, down to the spelling of numbers and the order of keys."""
    found = await store.find(query)
    assert spelling(found) == spelling(await right.find(query)), spell_code(query)
    assert await store.tally(query) == await right.tally(query), spell_code(query)
    if isinstance(store, ListsHeads):
        known = await store.heads(query)
        meant = [Head.of(record) for record in found]
        assert [replace(head, size_bytes=0) for head in known] == [
            replace(head, size_bytes=0) for head in meant
        ], spell_code(query)
        for told, right_one in zip(known, meant, strict=True):
            # A store may count what it keeps beside them; a page that is cut by bytes must not grow past them.
            least = right_one.size_bytes
            assert least <= told.size_bytes <= 2 * least + MOST_BESIDE_BYTES, spell_code(query)
        unpaged = await store.heads(replace(query, limit=None, offset=0))
        # Of records that tie in time and seq, those beside the page may be counted in place of those on it.
        tied = len({(head.created_at, head.seq) for head in unpaged}) < len(unpaged)
        if isinstance(store, FindsWithin) and not tied:
            taken = sum(head.size_bytes for head in known)
            whole = await store.find_within(query, taken)
            assert whole is not None, spell_code(query)
            assert spelling(whole) == spelling(found), spell_code(query)
            least = sum(head.size_bytes for head in meant)
            assert not least or await store.find_within(query, least - 1) is None, spell_code(query)
    return found


async def assert_same_names(store: Store, right: Store, collection: str, scope: Scope) -> None:
    """The store lists the users, agents and sessions of a scope as they are in the records of the right one."""
    if isinstance(store, ListsNames):
        records = await right.find(Query(collection=collection, scope=scope))
        for part in get_args(ScopePart):
            assert await store.names(collection, part, scope) == NameCount.of(part, records), part


def spelling(records: list[Record]) -> list[str]:
    """Records as JSON: to Python, 1 == True == 1.0 and dicts have no order."""
    return [encode_record(record).decode() for record in records]
