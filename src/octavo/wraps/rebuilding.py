"""Filling a space with the vectors of all records, in steps that can be interrupted at any moment."""

from collections.abc import AsyncGenerator

from octavo.errors import OctavoError
from octavo.kernel.model import Add
from octavo.kernel.ports import EntryKey, Store
from octavo.wraps.comparing import Comparison, Reach
from octavo.wraps.embedding import Outcome, Target, freshen
from octavo.wraps.marking import Key, markers

_BATCH = 128
_PASSES = 2


class Rebuild:
    """Compares a space with the records and embeds what differs; then compares once more.

    The second pass is for what a process that does not know of this space did meanwhile. What is already embedded is
    never embedded again, so that an interrupted rebuild goes on where it was.
    """

    def __init__(self, store: Store, target: Target, reach: Reach, total: int | None = None) -> None:
        self._store = store
        self._target = target
        self._reach = reach
        self._comparison: Comparison | None = None
        self._steps: AsyncGenerator[None, None] | None = None
        self._passes = 0
        self._left = 0  # differences of this pass
        self._mended = False  # whether there were any
        self.embedded = 0
        #: How many records are known to have their vectors, and how many there are, if that is known.
        self.progress: tuple[int, int | None] = (0, total)

    @property
    def target(self) -> Target:
        return self._target

    async def step(self) -> Outcome | None:
        """Do a little of it; None when all is done."""
        if self._comparison is None:
            self._comparison = Comparison(self._store, self._target, self._reach)
            self._steps = self._comparison.steps()
            self._mended = False
        if self._steps is not None:
            await self._compare(self._comparison, self._steps)
            return Outcome()
        if rows := self._comparison.outdated(_BATCH):
            return await self._mend(self._comparison, [key for key, _, _ in rows])
        if strays := self._comparison.strays(_BATCH):
            alive = {key.entry for key in await self._comparison.living(strays)}
            gone = [key for key in strays if key not in alive]
            await self._target.index.drop(self._target.space, gone)
            # A record added under such a key while we dropped it would be left without its vector.
            outcome = await freshen(self._store, [self._target], await self._comparison.living(gone))
            outcome.dropped += len(gone)
            self._settled(self._comparison, strays, outcome)
            return outcome
        self._passes += 1
        again = self._mended and self._passes < _PASSES
        await self.close()
        return Outcome() if again else None

    async def _compare(self, comparison: Comparison, steps: AsyncGenerator[None, None]) -> None:
        try:
            await anext(steps)
        except StopAsyncIteration:
            self._steps = None
            self._left = comparison.left
            self._tell(comparison)
        except OctavoError:
            await self.close()  # what was read is of an unknown moment by now
            raise

    async def _mend(self, comparison: Comparison, keys: list[Key]) -> Outcome:
        outcome = await freshen(self._store, [self._target], keys)
        if outcome.failed:
            # Left to those who take care of markers: a text the model refuses must not hold up all others.
            await self._store.apply([Add(markers(outcome.failed))])
        self._settled(comparison, [key.entry for key in keys], outcome)
        return outcome

    def _settled(self, comparison: Comparison, keys: list[EntryKey], outcome: Outcome) -> None:
        comparison.settled(keys)
        self._left -= len(keys)
        self._mended = True
        self.embedded += outcome.embedded
        self._tell(comparison)

    def _tell(self, comparison: Comparison) -> None:
        # Strays are differences too, but no records: with many of them there would be less than nothing done.
        self.progress = (max(0, comparison.records - self._left), comparison.records)

    async def close(self) -> None:
        """Let go of the temporary file; the next step begins a new pass."""
        if self._steps is not None:
            await self._steps.aclose()
            self._steps = None
        if self._comparison is not None:
            self._comparison.close()
            self._comparison = None
