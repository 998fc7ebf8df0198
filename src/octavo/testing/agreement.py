"""Generated programs give the same answers on this store as on the one that is right."""

import asyncio
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import get_args

import msgspec
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

from octavo.errors import Conflict
from octavo.kernel.codec import encode_record
from octavo.kernel.ids import new_id
from octavo.kernel.model import Head, NameCount, Op, Query, Record, Scope, ScopePart
from octavo.kernel.ports import ListsHeads, ListsNames, Store
from octavo.testing.strategies import Program, Write, programs, spelled
from octavo.testing.subject import Subject

MOST_BESIDE_BYTES = 8192  # names, marks and times that a store may keep in one text with the bodies


class Agreement(Subject):
    """`OCTAVO_PROGRAMS` says how many programs are run."""

    def test_programs_agree(self) -> None:
        """Counts, records, their order and tallies are those of the reference store, whatever is written and asked."""
        with asyncio.Runner() as runner:
            store = runner.run(self.open())
            try:
                run_programs(
                    programs(),
                    lambda program: runner.run(self.compare(store, program)),
                    int(os.environ.get("OCTAVO_PROGRAMS", self.programs)),
                    self.shrink_seconds,
                )
            finally:
                runner.run(store.close())

    async def compare(self, store: Store, program: Program) -> None:
        """Take the steps on both stores and compare each answer, then everything that is left."""
        tenant = new_id()
        async with asyncio.timeout(self.seconds), self.reference() as right:
            for step in program.under(tenant):
                if isinstance(step, Write):
                    assert await outcome(store, step.ops) == await outcome(right, step.ops)
                else:
                    found = await same(store, right, step.query)
                    if found:  # then from the middle of the answer, which is where pages are cut
                        middle = found[len(found) // 2].cursor
                        await same(store, right, msgspec.structs.replace(step.query, after=middle))
            for collection in {record.collection for record in written(program)}:
                for suffix in ("", "2"):
                    query = Query(collection=collection, scope=Scope(tenant=tenant + suffix))
                    left = await same(store, right, query)
                    if isinstance(store, ListsNames):
                        for part in get_args(ScopePart):
                            counted = await store.names(collection, part, query.scope)
                            assert counted == NameCount.of(part, left), part


class _Drawn(msgspec.Struct, frozen=True):
    """Programs, and the seed they come from."""

    seed: int
    programs: list[Program]


_drawn: dict[tuple[str, int], _Drawn] = {}


def run_programs(
    strategy: SearchStrategy[Program], compare: Callable[[Program], None], most: int, shrink_seconds: float
) -> None:
    """Compare on so many programs; one that fails is made shorter for so long and then shown.

    They are drawn once in a process, for all stores: to draw one takes longer than to run it on most of them.
    """
    key = (repr(strategy), most)
    if key not in _drawn:
        # A generator of its own: hypothesis seeds the global one, and every run would draw the same programs.
        number = 0 if settings().derandomize else random.SystemRandom().getrandbits(32)
        programs: list[Program] = []
        _generate(strategy, programs.append, most, number)
        _drawn[key] = _Drawn(number, programs)
    for program in _drawn[key].programs:
        try:
            compare(program)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            _shorten(strategy, compare, most, shrink_seconds, _drawn[key].seed)
            error.add_note(f"A program failed once and then passed:\n{program!r}")
            raise


def _generate(
    strategy: SearchStrategy[Program], use: Callable[[Program], None], most: int, number: int
) -> None:
    """Programs from a seed: the same ones each time."""

    @seed(number)
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def agree(program: Program) -> None:
        use(program)

    agree()


def _shorten(
    strategy: SearchStrategy[Program],
    compare: Callable[[Program], None],
    most: int,
    shrink_seconds: float,
    number: int,
) -> None:
    """Run them again in hypothesis, which can only shorten what it saw fail."""
    failed: list[Program] = []
    ends_at = math.inf

    def use(program: Program) -> None:
        nonlocal ends_at
        if time.monotonic() > ends_at:
            raise ShortEnough
        try:
            compare(program)
        except BaseException:
            failed.append(program)
            ends_at = min(ends_at, time.monotonic() + shrink_seconds)
            raise

    try:
        _generate(strategy, use, most, number)
    except ShortEnough:
        program = min(failed, key=lambda program: len(repr(program)))
        try:
            compare(program)
        except BaseException as error:
            error.add_note(f"The shortest program found that fails:\n{program!r}")
            raise


class ShortEnough(BaseException):
    """Ends the shrinking of a failing program; hypothesis lets it through, since it is no Exception."""


def written(program: Program) -> list[Record]:
    """Every record a program tries to add."""
    ops = [op for step in program.steps if isinstance(step, Write) for op in step.ops]
    return [record for op in ops for record in getattr(op, "records", ())]


async def outcome(store: Store, ops: Sequence[Op]) -> list[int] | str:
    """What each of the ops touched, or that some expectation was not met."""
    try:
        return await store.apply(ops)
    except Conflict as conflict:
        return str(conflict)


async def same(store: Store, right: Store, query: Query) -> list[Record]:
    """Both stores answer the query alike, down to the spelling of numbers and the order of keys."""
    found = await store.find(query)
    assert spelling(found) == spelling(await right.find(query)), spelled(query)
    assert await store.tally(query) == await right.tally(query), spelled(query)
    if isinstance(store, ListsHeads):
        known = await store.heads(query)
        meant = [Head.of(record) for record in found]
        assert [msgspec.structs.replace(head, size_bytes=0) for head in known] == [
            msgspec.structs.replace(head, size_bytes=0) for head in meant
        ], spelled(query)
        for told, right_one in zip(known, meant, strict=True):
            # A store may count what it keeps beside them; a page that is cut by bytes must not grow past them.
            least = right_one.size_bytes
            assert least <= told.size_bytes <= 2 * least + MOST_BESIDE_BYTES, spelled(query)
    return found


def spelling(records: list[Record]) -> list[str]:
    """Records as JSON: to Python, 1 == True == 1.0 and dicts have no order."""
    return [encode_record(record).decode() for record in records]
