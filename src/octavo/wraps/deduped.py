"""A store that is not sent what it was just given: webhooks, retries and replays say many things twice."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import UNSET

from octavo.errors import ConfigError, Conflict, InvalidQuery, InvalidRecord
from octavo.kernel.codec import prepare
from octavo.kernel.model import Add, Change, Op, Record, Remove
from octavo.kernel.ports import Store
from octavo.util.cache import times_cleared
from octavo.wraps.wrap import Wrap

_Key: TypeAlias = tuple[str, str, str]  # collection, id and scope key


class Deduped(Wrap):
    """Records stored by this process within the last `seconds` are not sent again; the store leaves the others alone.

    The window is only a shortcut: what it does not know, the store's idempotent `Add` decides. It keeps the newest `window`
    ids. A removal, and a call that fails, empties it. A record that another process removed in the meantime is not put back by
    adding it again within the window.
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
        self._stored_at: OrderedDict[_Key, float] = OrderedDict()
        self._removals = 0  # calls under way that remove something
        self._emptied = 0  # how often the window was emptied
        self._not_before = 0.0  # nothing is remembered until then
        self._cleared = times_cleared()
        self.skipped = 0  # records that were not sent

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        ops = list(ops)
        if self._cleared != (cleared := times_cleared()):  # a stranger may come under the same names
            self._cleared = cleared
            self._forget_all()
        removing = any(map(_may_remove, ops))
        if removing:
            self._forget_all()
        # Who expects a number of new records has all of them counted by the store.
        sent = ops if any(op.expect is not None for op in ops) else self._drop_known(ops)
        if sent != ops and not any(not isinstance(op, Add) or op.records for op in sent):
            return [0] * len(ops)
        self._removals += removing
        emptied = self._emptied
        try:
            counts = await self.inner.apply(sent)
        except (Conflict, InvalidRecord, InvalidQuery):
            raise  # nothing has happened
        except BaseException:
            # It may yet be done, or the store may have lost what it had: only the store itself knows.
            self._forget_all()
            if removing:  # under way perhaps, and slower than what comes after it
                self._not_before = self._clock() + self._seconds
            raise
        finally:
            self._removals -= removing
        if removing:
            self._forget_all()
        elif not self._removals and emptied == self._emptied and self._clock() >= self._not_before:
            self._remember(record for op in sent if isinstance(op, Add) for record in op.records)
        return counts

    async def close(self) -> None:
        """Forget everything, and close the store inside if it is owned."""
        self._window = 0
        self._forget_all()
        await super().close()

    def _drop_known(self, ops: Sequence[Op]) -> list[Op]:
        """The ops without the records that are known to be stored."""
        sent: list[Op] = []
        known: list[Record] = []
        for op in ops:
            if not isinstance(op, Add):
                sent.append(op)
                continue
            found = [record for record in op.records if self._knows(record)]
            known += found
            sent.append(Add([record for record in op.records if not self._knows(record)]) if found else op)
        if known:
            prepare([Add(known)])  # a bad record under a known id is refused all the same
            self.skipped += len(known)
        return sent

    def _knows(self, record: Record) -> bool:
        if not self._stored_at:
            return False
        try:
            stored_at = self._stored_at.get(_key(record))
        except (TypeError, AttributeError, ValueError):  # no record at all: the store says so better
            return False
        return stored_at is not None and self._clock() - stored_at < self._seconds

    def _remember(self, records: Iterable[Record]) -> None:
        at = self._clock()
        for record in records:
            if record.expires_at is None:  # else its end takes it away, and nobody here is told
                self._stored_at[_key(record)] = at
                self._stored_at.move_to_end(_key(record))
        while len(self._stored_at) > self._window:
            self._stored_at.popitem(last=False)

    def _forget_all(self) -> None:
        self._emptied += 1
        self._stored_at.clear()


def _key(record: Record) -> _Key:
    return (record.collection, record.id, record.scope.key)


def _may_remove(op: Op) -> bool:
    """Whether a record may be gone after it, at once or at its end."""
    return isinstance(op, Remove) or (isinstance(op, Change) and op.expires_at is not UNSET)
