"""A store that is not sent what it was just given: webhooks, retries and replays say many things twice."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import UNSET

from octavo.errors import ConfigError, InvalidQuery, InvalidRecord
from octavo.kernel.codec import prepare
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove
from octavo.kernel.ports import Store
from octavo.wraps.wrap import Wrap

_Key: TypeAlias = tuple[str, str, str]  # collection, id and place
_Shelf: TypeAlias = tuple[str, str]  # collection and tenant


class Deduped(Wrap):
    """Records stored by this process within the last `seconds` are not sent again; the store leaves the others alone.

    The window is only a shortcut: what it does not know, the store's idempotent `Add` decides. It keeps the newest `window`
    ids, and forgets those that a removal could have touched, and all of them when a call fails. A record that another process
    removed in the meantime is not put back by adding it again within the window.
    """

    def __init__(
        self,
        store: Store,
        window: int = 10_000,
        seconds: float = 60.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        owned: bool = True,
    ) -> None:
        super().__init__(store, owned=owned)
        if window < 0 or seconds < 0:
            raise ConfigError(
                f"window and seconds must be 0 or more (0 remembers nothing); got {window} and {seconds}"
            )
        self._window = window
        self._seconds = seconds
        self._clock = clock
        self._recent: OrderedDict[_Key, tuple[float, int]] = OrderedDict()  # when, and the shelf's age then
        self._ages: Counter[_Shelf] = Counter()  # how often a removal went through a shelf
        self._removals = 0  # calls under way that remove something
        self._era = 0  # counts every beginning of such a call, and every failure
        self._not_before = 0.0  # nothing is remembered until then
        self.skipped = 0  # records that were not sent

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        ops = list(ops)
        sent = self._unknown(ops)
        if not any(not isinstance(op, Add) or op.records for op in sent) and any(_sizes(ops)):
            return [0] * len(ops)
        removing = any(map(_removes, ops))
        self._removals += removing
        self._era += removing
        era = self._era
        try:
            counts = await self.inner.apply(sent)
        except (InvalidRecord, InvalidQuery):
            raise  # nothing has happened
        except BaseException:
            # It may yet be done, or the store may have lost what it had: only the store itself knows.
            self._forget_all()
            if removing:  # under way perhaps, and slower than what comes after it
                self._not_before = self._clock() + self._seconds
            raise
        finally:
            self._removals -= removing
        if removing or self._removals or era != self._era:
            for op in ops:
                self._forget(op)
        elif self._window and self._clock() >= self._not_before:
            self._remember(record for op in sent if isinstance(op, Add) for record in op.records)
        return counts

    async def close(self) -> None:
        """Forget everything, and close the store inside if it is owned."""
        self._window = 0
        self._forget_all()
        await super().close()

    def _unknown(self, ops: Sequence[Op]) -> list[Op]:
        """The ops without the records that are known to be stored."""
        sent: list[Op] = []
        known: list[Record] = []
        for op in ops:
            if not isinstance(op, Add):
                self._forget(op)
                sent.append(op)
                continue
            new = [record for record in op.records if not self._knows(record)]
            if len(new) < len(op.records):
                known += [record for record in op.records if self._knows(record)]
                op = Add(new)  # noqa: PLW2901 - the same op with less in it
            sent.append(op)
        if known:
            prepare([Add(known)])  # a bad record under a known id is refused all the same
            self.skipped += len(known)
        return sent

    def _knows(self, record: Record) -> bool:
        if not self._recent:
            return False
        try:
            key, shelf = _key(record), (record.collection, record.scope.tenant)
            found = self._recent.get(key)
        except (TypeError, AttributeError, ValueError):  # no record at all: the store says so better
            return False
        return (
            found is not None and found[1] == self._ages[shelf] and self._clock() - found[0] < self._seconds
        )

    def _remember(self, records: Iterable[Record]) -> None:
        at = self._clock()
        for record in records:
            if record.expires_at is not None:  # its end takes it away, and nobody here is told
                continue
            key = _key(record)
            self._recent[key] = (at, self._ages[record.collection, record.scope.tenant])
            self._recent.move_to_end(key)
        while len(self._recent) > self._window:
            self._recent.popitem(last=False)

    def _forget(self, op: Op) -> None:
        if isinstance(op, Add):
            for record in op.records:
                self._recent.pop(_key(record), None)
        elif _removes(op):
            query: Query = op.query
            if query.ids is not None and query.scope.exact:
                for id_ in query.ids:
                    self._recent.pop((query.collection, id_, query.scope.place), None)
            elif len(self._ages) > self._window:  # a service with very many tenants
                self._forget_all()
            else:
                self._ages[query.collection, query.scope.tenant] += 1

    def _forget_all(self) -> None:
        self._era += 1
        self._recent.clear()
        self._ages.clear()


def _key(record: Record) -> _Key:
    return (record.collection, record.id, record.scope.place)


def _removes(op: Op) -> bool:
    """Whether a record may be gone after it, at once or at its end."""
    return isinstance(op, Remove) or (isinstance(op, Change) and op.expires_at is not UNSET)


def _sizes(ops: Sequence[Op]) -> list[int]:
    return [len(op.records) for op in ops if isinstance(op, Add)]
