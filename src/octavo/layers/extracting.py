"""From a text to memories: what is known is read, every fact is decided, and all of it is written in one go."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from octavo.errors import Conflict, ModelError
from octavo.kernel.model import Add, Op, Query, Record
from octavo.kernel.pages import find_within, list_heads
from octavo.kernel.terms.matching import FOUND_BY
from octavo.layers import checking, reasons
from octavo.layers.changes import ChangeStep, OwnerNotes, insert_step, next_version, remark_step, update_step
from octavo.layers.reading import read_heads
from octavo.layers.records import COLLECTIONS, LAYER_OF, Owner, happened_at_of, new_memory, topic_in
from octavo.layers.shared import Shared
from octavo.layers.topic import topic_of
from octavo.layers.values import (
    CATEGORIES,
    DEFAULTS,
    Decision,
    Extracted,
    Extractor,
    Known,
    Layer,
    Outcome,
    Status,
)
from octavo.search.recall import MOST_HITS

PROFILE, EVENTS = 500, 200  # of each layer, the newest are looked at, and what recall finds beside them
#: Of each layer, and of what recall finds, so many bytes are read. What is as large as this by itself is compared only if
#: recall finds it: of a long memory the rules read the beginning, and no more than fifty such in all.
_KNOWN_BYTES, _LARGE_BYTES = 2**20, 2**16
SOURCES = 100  # of a memory, the newest that it names
_ASKED = 2000  # characters of a text that recall is asked with; a book would be a question of a million terms
_QUOTED = 500  # characters of the sentence that a fact is found by, beside its own
ROUNDS = 12  # how often a fact is decided that others come before
_PAUSE_SECONDS = 0.02  # and the longest pause before the second time; later ones are longer


class TextExtraction:
    """One text of one owner on its way into memory."""

    def __init__(
        self,
        shared: Shared,
        extractor: Extractor,
        owner: Owner,
        source: Record,
        metadata: dict[str, Any],
        done: Sequence[Op] = (),
    ) -> None:
        self._shared = shared
        self._extractor = extractor
        self._owner = owner
        self._tenant = source.scope.tenant
        self._scope = owner.scope(self._tenant)
        self._text = source.text
        self._said_at = source.created_at
        self._source = source.id
        # It must not be new, or the text has been forgotten meanwhile, and nothing is to be found in it.
        named = Record(collection=source.collection, id=source.id, scope=source.scope)
        self._kept = Add([named], expect=0)
        self._metadata = metadata
        self._done = [ChangeStep(list(done), source, source, certain=True)] if done else []
        self._status: Status = "success"

    async def run(self) -> Extracted:
        """Decide about every fact of the text, and write what was decided."""
        text = self._text
        memories = await self._outcomes(text, ROUNDS)
        most: int | None = getattr(self._extractor, "most_characters", None)
        note = ""
        if most is not None and len(text) > most:
            note = (
                f"only the first {most:,} of {len(text):,} characters were read for facts; "
                f"the text is kept whole"
            )
        return Extracted(source_id=self._source, memories=memories, status=self._status, note=note)

    async def _outcomes(self, text: str, rounds: int, again: Decision | None = None) -> list[Outcome]:
        """What became of the facts of a text, in its order; a fact that others came before is decided `again` by itself."""
        if not rounds:
            raise Conflict(
                f"others changed the same memories {ROUNDS} times, so {text[:60]!r} and what follows it was not kept; "
                f"the text itself is kept as {self._source!r}"
            )
        if again is not None:  # to be out of step with others who add facts of the same owner
            await asyncio.sleep(random.random() * _PAUSE_SECONDS * (ROUNDS - rounds))  # noqa: S311
            try:
                await self._shared.store.apply([self._kept])
            except Conflict:
                return []
        # Before what is known: whoever adds a fact after this was read makes this text be decided again.
        self._noted = await OwnerNotes.read(self._shared.store, self._scope, self._shared.digest_key)
        known = await self._find_known(text)
        decisions = await self._decide(text, known)
        if not decisions and again is not None:
            decisions = [_correct(again, known)]
        steps = [self._step(decision, known) for decision in decisions]
        done, self._done = self._done, []
        if not steps and not done:
            return []
        kept = [msgspec.structs.replace(step, ops=[self._kept, *step.ops]) for step, _ in steps]
        status, won = await self._shared.take([*kept, *done])
        if status == "queued":
            self._status = "queued"
        found: list[Outcome] = []
        for decision, (_, outcome), written in zip(decisions, steps, won, strict=False):
            found += [outcome] if written else await self._outcomes(decision.content, rounds - 1, decision)
        return found

    async def _find_known(self, text: str) -> dict[str, Record]:
        """What there is to compare with, the nearest first."""
        at = self._shared.clock()
        recalled, profile, events = await asyncio.gather(
            self._shared.recall.recall(
                text[:_ASKED],
                self._scope,
                min(self._shared.known_memories, MOST_HITS),
                max_bytes=_KNOWN_BYTES,
                collections=tuple(COLLECTIONS.values()),
                rerank=False,
                other_words=False,  # the newest are looked at anyway
            ),
            self._newest("profile", PROFILE, at),
            self._newest("event", EVENTS, at),
        )
        records = [hit.record for hit in recalled] + profile + events
        return {record.id: record for record in records}

    async def _newest(self, layer: Layer, limit: int, at: datetime) -> list[Record]:
        """The newest of a layer that are not large, newest first, as far as they fit."""
        store = self._shared.store
        query = Query(
            collection=COLLECTIONS[layer], scope=self._scope, alive_at=at, limit=limit, newest_first=True
        )
        if (whole := await find_within(store, query, _KNOWN_BYTES)) is not None:
            return [record for record in whole if len(record.text) < _LARGE_BYTES]
        small = [head for head in await list_heads(store, query) if head.size_bytes < _LARGE_BYTES]
        return await read_heads(store, query, small, _KNOWN_BYTES)

    async def _decide(self, text: str, known: dict[str, Record]) -> list[Decision]:
        decisions = await self._extractor.decide(
            text,
            [_to_known(record) for record in known.values()],
            owner_type=self._owner.type,
            at=self._said_at,
        )
        return [_correct(decision, known) for decision in decisions if decision.content.strip()]

    def _step(self, decision: Decision, known: dict[str, Record]) -> tuple[ChangeStep, Outcome]:
        """What to write for a decision; `known` is brought up to what will be there afterwards."""
        target = known.get(decision.target or "")
        if decision.action != "ignore" and self._noted.rejects(decision.content, decision.happened_at):
            reason = reasons.say("rejected", decision.content)
            decision = msgspec.structs.replace(decision, action="ignore", reason=reason)
            # Without the fact: what is not to be learnt must not live on in the log.
            at, facts = self._shared.now_after(None), {"source_id": self._source, "rejected": True}
            step = remark_step(None, self._scope, decision.layer, reason, at, facts)
            return step, _outcome(decision, "ignore", None)
        if decision.action == "update" and target is not None:
            changed = self._update(decision, target)
            if _statement(changed) != _statement(target):
                known[target.id] = changed
                step = update_step(target, changed, decision.reason, self._facts(decision))
                return step, _outcome(decision, "update", changed, supersedes=target.text)
            decision = msgspec.structs.replace(decision, action="ignore")
        if decision.action == "ignore":
            at = self._shared.now_after(None if target is None else target.updated_at)
            facts = {**self._facts(decision), "content": decision.content}
            step = remark_step(target, self._scope, decision.layer, decision.reason, at, facts)
            return step, _outcome(decision, "ignore", target)
        record = self._insert(decision)
        known[record.id] = record
        step = insert_step(record, decision.reason, self._facts(decision))
        guarded = msgspec.structs.replace(step, ops=[self._noted.guard(), *step.ops])
        return guarded, _outcome(decision, "insert", record)

    def _insert(self, decision: Decision) -> Record:
        at = self._shared.clock()
        ending = checking.expiry(decision.layer, at, event_ttl=self._shared.event_ttl)
        data = {"is_permanent": ending.is_permanent, "sources": [self._source], **_describe(decision)}
        return new_memory(
            self._owner,
            self._tenant,
            decision.layer,
            at,
            category=decision.category,
            content=decision.content,
            metadata=self._metadata,
            expires_at=ending.expires_at,
            data=data,
            embeds=self._shared.embeds,
        )

    def _update(self, decision: Decision, target: Record) -> Record:
        # What changes every day must not grow every day; each row of the log names its own source.
        sources = [*dict.fromkeys([*(target.data.get("sources") or ()), self._source])][-SOURCES:]
        return next_version(
            target,
            self._shared.now_after(target.updated_at),
            {"sources": sources, **_describe(decision)},
            kind=decision.category,
            text=decision.content,
            metadata={**target.metadata, **self._metadata},
        )

    def _facts(self, decision: Decision) -> dict[str, Any]:
        """What a log row says beside the reason."""
        facts = {"source_id": self._source}
        return {**facts, "time_text": decision.time_text} if decision.time_text else facts


def _describe(decision: Decision) -> dict[str, Any]:
    """When an event happened, what a fact is about and the words that said it, as the data of a memory keeps them."""
    at = checking.moment("happened_at", decision.happened_at)
    told = {FOUND_BY: [decision.topic or topic_of(decision.content), decision.quote[:_QUOTED]]}
    return told if at is None else {**told, "happened_at": at.isoformat()}


def _to_known(record: Record) -> Known:
    return Known(
        id=record.id,
        layer=LAYER_OF[record.collection],
        category=record.kind,
        content=record.text,
        happened_at=happened_at_of(record),
    )


def _statement(record: Record) -> tuple[Any, ...]:
    """What a memory says; where it came from is no part of that."""
    return (record.text, record.kind, record.data.get("happened_at"))


def _correct(decision: Decision, known: dict[str, Record]) -> Decision:
    """The decision made good where an extractor does not know better: a target that is there, in its own layer."""
    if decision.layer not in CATEGORIES:
        raise ModelError(f"the extractor gave a fact to the layer {decision.layer!r}, which there is not")
    target = known.get(decision.target or "")
    layer = decision.layer if target is None else LAYER_OF[target.collection]
    category = decision.category
    if category not in CATEGORIES[layer]:
        category = DEFAULTS[layer] if target is None else target.kind
    action = "insert" if decision.action == "update" and target is None else decision.action
    reason = decision.reason.strip() or reasons.describe_insert(decision.content, layer, category)
    return msgspec.structs.replace(
        decision,
        layer=layer,
        category=category,
        action=action,
        reason=reason,
        target=None if target is None else target.id,
    )


def _outcome(
    decision: Decision, action: Any, record: Record | None, supersedes: str | None = None
) -> Outcome:
    return Outcome(
        id="" if record is None else record.id,
        action=action,
        layer=decision.layer,
        category=decision.category,
        content=decision.content,
        reason=decision.reason,
        happened_at=decision.happened_at,
        supersedes=supersedes,
        topic="" if record is None else topic_in(record.data),
    )
