"""What is noted about the owner of facts: which facts he has rejected for good, and whether anything was added since one looked.

An owner has one record, whose only mark is replaced whenever a fact is added by an extraction or one is rejected. An extraction
expects the mark that it has read, so that of two processes that find the same new fact at once only one can add it: the
other has changed nothing, looks again, and finds it known. What was rejected is kept as keyed digests. The key is not in the
store: whoever has the store alone can neither read them nor try what they might say.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Op, Query, Record, Scope, exact_scope
from octavo.kernel.ports import Store
from octavo.layers import checking
from octavo.layers.records import owner_of
from octavo.layers.values import OwnerType
from octavo.util.secrets import DigestKey
from octavo.util.sync import at_once

OWNERS, _NAME = "owners", "owner"
_READ = 4000  # characters of a fact by which it is known again
_log = logging.getLogger("octavo.layers")


class OwnerNotes:
    """What is noted about one owner, as it was read; each write that is guarded by it renews it."""

    def __init__(self, scope: Scope, key: DigestKey, record: Record | None) -> None:
        self._scope = scope
        self._key = key
        self._mark = record.marks[0] if record is not None else None
        data = {} if record is None else record.data
        self.rejected: dict[str, list[str]] = (
            data.get("rejected") or {}
        )  # digests, by the memory that said it
        self._made_with: str = data.get("key") or ""

    @classmethod
    async def read(cls, store: Store, scope: Scope, key: DigestKey) -> "OwnerNotes":
        """What is noted about the owner of that scope."""
        query = Query(collection=OWNERS, ids=(_NAME,), scope=exact_scope(scope), limit=1)
        return cls(scope, key, next(iter(await store.find(query)), None))

    def guard(self, rejected: dict[str, list[str]] | None = None) -> Op:
        """What lets a write through only if nobody has renewed the mark since; `rejected` takes the place of what is noted."""
        data = {"rejected": self.rejected if rejected is None else rejected, "key": self._made_with}
        before, self._mark = self._mark, new_id("m")
        if before is None:
            owner = owner_of(self._scope)
            record = Record(
                collection=OWNERS, id=_NAME, kind=owner.type, scope=exact_scope(self._scope), data=data,
                marks=(self._mark,),
            )  # fmt: skip
            return Add([record], expect=1)
        query = Query(collection=OWNERS, ids=(_NAME,), scope=exact_scope(self._scope), marks=(before,))
        return Change(query=query, data=data, mark=(self._mark,), unmark=(before,), expect=1)

    def rejecting(self, memory: Record) -> Op:
        """The write that rejects what a memory says."""
        self._made_with = self._key_name()
        digests = self._digests(memory.text, str(memory.data.get("happened_at") or ""))
        return self.guard({**self.rejected, memory.id: sorted(digests)})

    def allowing(self, memory_id: str) -> Op:
        """The write that lifts the rejection of what a memory said."""
        return self.guard({name: told for name, told in self.rejected.items() if name != memory_id})

    def rejects(self, content: str, happened_at: datetime | None) -> bool:
        """Whether a fact says what was rejected."""
        if not self.rejected:
            return False
        if self._made_with != self._key_name():
            _log.warning("what %s rejected was noted with another key, and is not heeded", self._scope.place)
            return False
        at = checking.moment("happened_at", happened_at)
        when = "" if at is None else at.isoformat()
        known = {digest for digests in self.rejected.values() for digest in digests}
        return not known.isdisjoint(self._digests(content, when))

    def _key_name(self) -> str:
        return self._key.digest("key")

    def _digests(self, content: str, happened_at: str) -> set[str]:
        owner = owner_of(self._scope)
        place = exact_scope(self._scope).place
        told = signatures(content, owner.type, happened_at[:10])
        return {self._key.digest(place, *signature) for signature in told}


def signatures(content: str, owner_type: OwnerType, day: str = "") -> Iterable[Sequence[str]]:
    """What a fact is known again by: each thing that it says as the rules see it, and its words without those that carry none.

    What it says is the slots and their plain values, such as residence and berlin, in whichever language it is told; of what
    happened, the words and the day.
    """
    from octavo.layers.rules.facts import COMMON, words
    from octavo.layers.rules.reading import facts_of

    text = content[:_READ]
    negated = "not" if COMMON.NEGATED.search(text) else ""
    yield "words", negated, day, *sorted(words(text))
    for fact in at_once(facts_of(text, owner_type)):
        if fact.slots:
            yield "slots", *(part for slot in sorted(fact.slots.items()) for part in slot)
