"""Layered memory: what is known about users and agents, what happened to them, and a log of every change."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

from msgspec import UNSET, UnsetType

from octavo.assemble import Assembled, assemble
from octavo.config import Settings
from octavo.errors import ConfigError, Conflict, InvalidRecord, NotFound, StoreUnavailable
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Add, Op, Query, Record, Scope, check_count
from octavo.kernel.ports import Embedder, Store
from octavo.layers import checking, reasons
from octavo.layers.changes import ChangeStep, OwnerNotes, insert_step, remove_step, revise_step, undo_step
from octavo.layers.extracting import TextExtraction
from octavo.layers.reading import LayerReading
from octavo.layers.records import (
    LOG,
    entry_of,
    log_id,
    memory_of,
    new_memory,
    owner_of,
    source_record,
    version_of,
)
from octavo.layers.shared import MOST_OWNERS, TRIES, Shared, check_one_owner
from octavo.layers.values import DEFAULTS, Extracted, Extractor, Fact, Layer, LogEntry
from octavo.stores import to_store
from octavo.util.secrets import KEY_FILE, DigestKey
from octavo.util.sync import import_aside
from octavo.util.user_code import Fixed

_LONGEST_TTL = timedelta(days=36_500)


class LayeredMemory(LayerReading):
    """Remembers for users and agents: the profile is who they are, events are what happened.

    Every change is written together with its log row, in one go. A store or extractor that is handed in stays open;
    `close`, or the end of `async with`, closes what this opened.
    """

    tenant: Fixed[str] = Fixed("of(tenant) is the memory of another tenant")

    def __init__(
        self,
        store: Store | str,
        *,
        tenant: str = "",
        extractor: Extractor | None = None,
        event_ttl: timedelta | None = None,
        sweep_seconds: float | None = None,
        known_memories: int = 50,
        clock: Callable[[], datetime] = now,
        digest_key: str | Path = "",
    ) -> None:
        if not isinstance(event_ttl, timedelta | None):
            raise ConfigError(f"event_ttl is a timedelta, such as timedelta(days=30); got {event_ttl!r}")
        if event_ttl is not None and event_ttl <= timedelta():
            raise ConfigError(f"event_ttl must be more than 0, or None for never; got {event_ttl}")
        if event_ttl is not None and event_ttl > _LONGEST_TTL:
            raise ConfigError(f"event_ttl is more than a hundred years, {event_ttl}; None is never")
        if not isinstance(sweep_seconds, int | float | None) or not (sweep_seconds or 0) >= 0:
            raise ConfigError(
                f"sweep_seconds must be 0 or more (0 and None are never); got {sweep_seconds!r}"
            )
        if extractor is not None and not hasattr(extractor, "decide"):
            raise TypeError(f"an extractor has a method `decide`; got {extractor!r}"[:200])
        check_count(known_memories, "known_memories must be a number, 0 or more", ConfigError)
        self.tenant = _tenant(tenant)
        self._shared = Shared(
            to_store(store),
            extractor,
            event_ttl=event_ttl,
            sweep_seconds=sweep_seconds,
            known_memories=known_memories,
            clock=clock,
            digest_key=digest_key,
        )
        if isinstance(store, str):
            self._shared.closing.append(self._shared.store)
        self._shared.tenants.add(tenant)
        self._first = True

    @classmethod
    def from_settings(
        cls, settings: Settings, *, extractor: Extractor | None = None, embedder: Embedder | None = None
    ) -> Self:
        """A memory as the settings say, with all its parts, which it closes with itself.

        An extractor or embedder that is handed in is used in place of the one that the settings name.
        """
        assembled = assemble(settings, embedder)
        memory = cls.from_assembled(assembled, extractor)
        memory._shared.closing.append(assembled)  # noqa: SLF001 - its own
        return memory

    @classmethod
    def from_assembled(cls, assembled: Assembled, extractor: Extractor | None = None) -> Self:
        """A memory over what was put together already, and stays open for others."""
        settings = assembled.settings
        days = settings.layers.event_ttl_days
        memory = cls(
            assembled.store,
            tenant=settings.service.tenant,
            extractor=extractor,
            event_ttl=None if days is None else timedelta(days=days),
            sweep_seconds=settings.layers.sweep_seconds or None,
            known_memories=settings.extraction.known_memories,
            digest_key=settings.privacy.digest_key or Path(settings.failure_queue.directory, KEY_FILE.name),
        )
        if settings.extraction.model and extractor is None:
            memory._shared.use_model(settings)
        return memory

    def of(self, tenant: str) -> "LayeredMemory":
        """The same memory for another tenant; it shares everything, and is closed with this one."""
        other: LayeredMemory = object.__new__(LayeredMemory)
        other.tenant = _tenant(tenant)
        other._shared = self._shared
        other._first = False
        self._shared.tenants.add(tenant)
        return other

    @property
    def digest_key(self) -> DigestKey:
        """The key of digests of what was rejected or erased."""
        return self._shared.digest_key

    @property
    def store(self) -> Store:
        """Where everything is kept."""
        return self._shared.store

    # --- remembering

    async def remember(
        self,
        content: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer = "event",
        category: str | None = None,
        metadata: dict[str, Any] | None = None,
        is_permanent: bool | None = None,
        expiry_date: datetime | None = None,
        ttl_seconds: float | None = None,
        reason: str | None = None,
        sources: Sequence[str] = (),
    ) -> Fact:
        """Keep one memory as it is said; its status is "queued" when the store is down and a Journal stands in for it."""
        shared = self._begin()
        at = shared.clock()
        owner = checking.owner(user_id, agent_id, InvalidRecord)
        of = checking.layer(layer, InvalidRecord)
        text = checking.content(content)
        kind = (
            await _categorise(text, of)
            if category is None
            else checking.category(category, of, InvalidRecord)
        )
        ending = checking.expiry(
            of,
            at,
            is_permanent=is_permanent,
            expiry_date=UNSET if expiry_date is None else expiry_date,
            ttl_seconds=ttl_seconds,
            event_ttl=shared.event_ttl,
        )
        record = new_memory(
            owner,
            self.tenant,
            of,
            at,
            category=kind,
            content=text,
            metadata=checking.metadata(metadata),
            expires_at=ending.expires_at,
            data={"is_permanent": ending.is_permanent, "sources": checking.sources(sources)},
            embeds=shared.embeds,
        )
        await asyncio.sleep(0)  # what is long to check is long to write: others have their turn in between
        why = checking.reason(reason) or reasons.describe_insert(text, of, kind)
        status, [added] = await shared.take([insert_step(record, why)])
        if not added:  # a chance in a million million, within one microsecond: but then nothing was kept
            raise Conflict(f"the id {record.id!r} was taken by another memory at this very moment; try again")
        return memory_of(record, status)

    async def extract(
        self,
        text: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Extracted:
        """Find the single facts of a text, and insert, update or ignore each; the text itself is kept first."""
        shared = self._begin()
        owner = checking.owner(user_id, agent_id, InvalidRecord)
        content, facts = checking.content(text), checking.metadata(metadata)
        source = source_record(owner, self.tenant, content, facts, shared.clock(), new_id())
        await shared.write([Add([source])])
        return await self.extract_from(source, user_id=user_id, agent_id=agent_id, metadata=metadata)

    async def extract_from(
        self,
        source: Record,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        done: Sequence[Op] = (),
    ) -> Extracted:
        """The same for a text that a record keeps already, such as a message; `done` is written together with the facts."""
        shared = self._begin()
        owner = checking.owner(user_id, agent_id, InvalidRecord)
        told = checking.metadata(metadata)
        extraction = TextExtraction(shared, await shared.extractor(), owner, source, told, done)
        # One after the other: of two equal texts at once, the second must find what the first has made.
        async with shared.lock(self.tenant, owner):
            try:
                return await extraction.run()
            except StoreUnavailable as error:
                raise StoreUnavailable(
                    f"the text is kept as {source.id!r}, but its facts could not be written: {error}"
                ) from error

    async def revise(
        self,
        memory_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        content: str | UnsetType = UNSET,
        metadata: dict[str, Any] | UnsetType | None = UNSET,
        category: str | UnsetType = UNSET,
        is_permanent: bool | UnsetType = UNSET,
        expiry_date: datetime | UnsetType | None = UNSET,
        reason: str | None = None,
    ) -> Fact:
        """Change what is given and leave the rest; a change to what is there already is logged as ignored."""
        shared = self._begin()
        given = {
            "content": content,
            "metadata": metadata,
            "category": category,
            "is_permanent": is_permanent,
            "expiry_date": expiry_date,
        }
        changes = {name: value for name, value in given.items() if value is not UNSET}
        if not changes:
            raise InvalidRecord(
                "nothing to revise: give content, metadata, category, is_permanent or expiry_date"
            )
        if "content" in changes:
            checking.content(content)
        if "metadata" in changes:
            changes["metadata"] = checking.metadata(metadata)
        why = checking.reason(reason)

        async def attempt() -> ChangeStep:
            before = await self._find(memory_id, user_id, agent_id, layer)
            return revise_step(before, changes, shared.now_after(before.updated_at), why, shared.event_ttl)

        return memory_of((await shared.change(self.tenant, memory_id, attempt)).memory)

    async def forget(
        self,
        memory_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        reason: str | None = None,
        forever: bool = False,
    ) -> Fact:
        """Remove a memory, and answer what it was; its log stays.

        What is removed `forever` is not learnt again from any text, until it is allowed again or the removal is undone.
        """
        shared = self._begin()
        why = checking.reason(reason)
        checking.flag("forever", forever)

        async def attempt() -> ChangeStep:
            before = await self._find(memory_id, user_id, agent_id, layer)
            at = shared.now_after(before.updated_at)
            said = why or reasons.say("deleted", before.text)
            step = remove_step(before, "delete", said, at, {"rejected": True} if forever else None)
            if forever:
                step.ops.append((await self._read_notes(before.scope)).reject_op(before))
            return step

        return memory_of((await shared.change(self.tenant, memory_id, attempt)).memory)

    async def allow(self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None) -> None:
        """Let what a memory said be learnt again, after it was removed forever; the owner is named where no log tells him."""
        shared = self._begin()
        scope = self._scope(user_id, agent_id)
        if scope == Scope(tenant=self.tenant):
            await shared.check_log(checking.name("memory_id", memory_id), self.tenant)
            last = await shared.last_change(memory_id, scope)
            if last is None:
                raise NotFound(f"there is no memory {memory_id!r}, and there was none")
            scope = last.scope
        for _ in range(TRIES):
            noted = await self._read_notes(scope)
            if memory_id not in noted.rejected:
                raise NotFound(f"nothing was rejected with the memory {memory_id!r}")
            with suppress(Conflict):
                await shared.write([noted.allow_op(memory_id)])
                return
        raise Conflict(f"others changed what is noted of the owner of {memory_id!r}; try again")

    async def _read_notes(self, scope: Scope) -> OwnerNotes:
        owner = owner_of(scope).scope(scope.tenant)
        return await OwnerNotes.read(self._shared.store, owner, self._shared.digest_key)

    async def undo(
        self,
        log_id: str,
        reason: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> LogEntry:
        """Take back the last change of a memory, which is a change itself; Conflict when it is not the last.

        With an owner, only of a memory of theirs. What is brought back has its old end, unless that has passed: then it has none.
        """
        self._begin()
        why = checking.reason(reason)
        name = checking.name("log_id", log_id)
        query = Query(collection=LOG, ids=(name,), scope=self._scope(user_id, agent_id), limit=MOST_OWNERS)
        found = await self.store.find(query)
        if not found:
            raise NotFound(f"there is no log row {log_id!r}")
        check_one_owner(log_id, found)
        entry = entry_of(found[0])
        if entry.version is None:
            raise Conflict(f"there is nothing to undo: {log_id!r} says that nothing was changed")

        return await self._undo([entry], owner_of(found[0].scope).scope(self.tenant), why)

    async def undo_together(
        self,
        entries: Sequence[LogEntry],
        name: str,
        reason: str | None = None,
        *,
        dry_run: bool = False,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> LogEntry:
        """Bring one memory back to what it was before these changes of it, which must be its last ones.

        The row of it has `name` in its metadata, as `undo`; a dry run answers the last of the changes, and writes nothing.
        """
        shared, scope = self._begin(), self._scope(user_id, agent_id)
        if scope == Scope(tenant=self.tenant):
            await shared.check_log(entries[0].memory_id, self.tenant)
        return await self._undo(entries, scope, checking.reason(reason), {"undo": name}, dry_run=dry_run)

    async def _undo(
        self,
        entries: Sequence[LogEntry],
        scope: Scope,
        why: str | None,
        metadata: dict[str, Any] | None = None,
        *,
        dry_run: bool = False,
    ) -> LogEntry:
        shared, memory_id = self._shared, entries[0].memory_id
        by_version = {entry.version: entry for entry in entries}

        async def attempt() -> ChangeStep:
            newest = await shared.last_change(memory_id, scope)
            if newest is None or (last := entry_of(newest)).version not in by_version:
                later = "" if newest is None else f": {newest.id!r} is newer ({newest.kind})"
                raise Conflict(f"only the last change of a memory can be undone{later}")
            first = last
            while (first.version or 0) - 1 in by_version:
                first = by_version[(first.version or 0) - 1]
            present = None if last.after is None else await self._find_version(last, scope)
            at = shared.now_after(last.created_at)
            step = undo_step(first, last, newest.scope, present, why, at, metadata)
            return await self._lift_rejection(step, last)

        if dry_run:
            await attempt()
            return entries[-1]
        return entry_of((await shared.change(self.tenant, memory_id, attempt)).log)

    async def _lift_rejection(self, step: ChangeStep, undone: LogEntry) -> ChangeStep:
        """The step that also lifts the rejection which the undone change was."""
        if undone.metadata.get("rejected"):
            noted = await self._read_notes(step.log.scope)
            if undone.memory_id in noted.rejected:
                step.ops.append(noted.allow_op(undone.memory_id))
        return step

    async def _find_version(self, entry: LogEntry, scope: Scope) -> Record:
        """The memory at the version that the change made; the row alone may be older than what is there by now."""
        try:
            record = await self._shared.find(entry.memory_id, scope, entry.memory_layer)
        except NotFound:
            raise Conflict(f"the memory {entry.memory_id!r} was removed meanwhile") from None
        if version_of(record) != entry.version:
            newer = log_id(entry.memory_id, version_of(record))
            raise Conflict(f"only the last change of a memory can be undone: {newer!r} is newer")
        return record

    async def sweep(self) -> int:
        """Remove and log what has expired, of all tenants of the store; answer how many memories that were."""
        return await self._begin().sweep()

    # --- opening and closing

    async def start(self) -> None:
        """Begin to sweep in the background, if that was asked for; the first use of the memory does so too."""
        self._begin()

    async def close(self) -> None:
        """End the sweeping, and close what this opened; a second call does nothing."""
        if self._first:
            await self._shared.close()

    async def __aenter__(self) -> Self:
        await self._begin().store.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _tenant(name: str) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"tenant must be a name; got {name!r}")
    return name


async def _categorise(text: str, layer: Layer) -> str:
    """The category that the rules see in a text, or the one for what they see nothing in."""
    await import_aside("octavo.layers.rules")
    from octavo.layers.rules import find_category

    return await find_category(text, layer) or DEFAULTS[layer]
