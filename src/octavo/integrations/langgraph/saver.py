"""LangGraph's checkpoints in any store: each is one record of its thread, and each write that waits at it is another."""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig  # type: ignore[import-not-found]
from langgraph.checkpoint.base import (  # type: ignore[import-not-found]
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    SerializerProtocol,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

from octavo.conversation.store_history import BoundStore, on_store_loop
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Change, Cursor, Head, Op, Query, Record, Remove, Scope
from octavo.kernel.pages import list_heads, walk
from octavo.kernel.ports import Store
from octavo.stores.base import BaseStore

_CHECKPOINTS = "checkpoints"
_CHECKPOINT, _WRITE = "checkpoint", "write"
_PAGE = 50
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)  # from which the time in an id is counted


class _Reading:
    """How far a list of checkpoints is read, and which of them are wanted."""

    def __init__(
        self, query: Query, wanted: dict[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> None:
        self.query, self._wanted, self._limit = query, wanted or {}, limit
        self._before = get_checkpoint_id(before) if before else None
        self.goes_on = limit is None or limit > 0

    def turn(self, page: Sequence[Record]) -> None:
        """Go to the next page."""
        following: Cursor | None = page[-1].cursor if len(page) == self.query.limit else None
        self.goes_on = following is not None
        self.query = msgspec.structs.replace(self.query, after=following)

    def takes(self, record: Record, metadata: Callable[[], dict[str, Any]]) -> bool:
        """Whether this one is wanted, and counted."""
        if self._limit == 0 or (self._before and record.id >= self._before):
            return False
        if self._wanted and not self._wanted.items() <= metadata().items():
            return False
        if self._limit is not None:
            self._limit -= 1
            self.goes_on = self.goes_on and self._limit > 0
        return True


class OctavoSaver(BoundStore, BaseCheckpointSaver[str]):  # type: ignore[misc] # its types are not there without LangGraph
    """Checkpoints in a store, which a URL names or is handed in; one handed in stays open.

    With a `user_id`, all threads are that user's, and are forgotten with him.
    """

    def __init__(
        self,
        url_or_store: str | Store,
        *,
        user_id: str = "",
        tenant: str = "",
        serde: SerializerProtocol | None = None,
    ) -> None:
        BoundStore.__init__(self, url_or_store, user_id, None, tenant)
        BaseCheckpointSaver.__init__(self, serde=serde)

    @on_store_loop
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - each checkpoint is kept whole
    ) -> RunnableConfig:
        """Keep a checkpoint, in place of one of the same id."""
        thread, namespace = _thread_of(config)
        told = get_checkpoint_metadata(config, metadata)
        run = told.get("run_id")
        record = Record(
            collection=_CHECKPOINTS,
            id=checkpoint["id"],
            kind=_CHECKPOINT,
            scope=self._scope_at(thread, namespace),
            text=f"{told.get('source', _CHECKPOINT)} {told.get('step', '')}",
            data={
                "checkpoint": self._dump(checkpoint),
                "metadata": self._dump(told),
                "parent": get_checkpoint_id(config),
            },
            metadata={"run_id": run} if isinstance(run, str) else {},
            created_at=_read_time(checkpoint["id"]),
        )
        # Nearly all are new, and then that is all there is to do; what a journal has queued is done later, and is not counted.
        if not isinstance(self._store, BaseStore) or not sum(await self._store.apply([Add([record])])):
            await self._store.apply(_put(record))
        return _config_of(thread, namespace, record.id)

    @on_store_loop
    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote at a checkpoint; a task that did so before is not asked again, but for errors and the like."""
        thread, namespace = _thread_of(config)
        scope = self._scope_at(thread, namespace, get_checkpoint_id(config))
        ops: list[Op] = []
        for number, (channel, value) in enumerate(writes):
            at = WRITES_IDX_MAP.get(channel, number)
            data = {
                "task": task_id,
                "at": at,
                "path": task_path,
                "channel": channel,
                "value": self._dump(value),
            }
            record = Record(
                collection=_CHECKPOINTS,
                id=f"{task_id}/{at}",
                kind=_WRITE,
                scope=scope,
                text=channel,
                data=data,
                created_at=_read_time(get_checkpoint_id(config)),
            )
            ops += _put(record) if at < 0 else [Add([record])]
        if ops:
            await self._store.apply(ops)

    @on_store_loop
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the last one of its thread; None when there is none."""
        thread, namespace = _thread_of(config)
        name = get_checkpoint_id(config)
        query = self._query(self._scope_at(thread, namespace), ids=(name,) if name else None, limit=1)
        found = await self._store.find(query)
        waiting = await self._writes(found)
        return self._tuple(found[0], waiting[found[0].key]) if found else None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first: of a thread, of one of its namespaces, or of all."""
        reading = _Reading(self._list_query(config), filter, before, limit)
        while reading.goes_on:
            for each in await self._read(reading):
                yield each

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """`alist`, for callers who block."""
        reading = _Reading(self._list_query(config), filter, before, limit)
        while reading.goes_on:
            yield from self._wait(self._read(reading))

    @on_store_loop
    async def adelete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints of a thread, and what waits at them."""
        scope = self._scope_at(str(thread_id), None)
        await self._store.apply([Remove(Query(collection=_CHECKPOINTS, scope=scope))])

    @on_store_loop
    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs made, and what waits at them."""
        for run in run_ids:
            query = self._query(self._scope_at(None, None), where={"run_id": str(run)}, newest_first=True)
            await self._remove(await list_heads(self._store, query))

    @on_store_loop
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread, and what waits at them, to another."""
        query = Query(collection=_CHECKPOINTS, scope=self._scope_at(str(source_thread_id), None))
        async for page in walk(self._store, query, _PAGE):
            copies = [
                msgspec.structs.replace(
                    record, scope=msgspec.structs.replace(record.scope, session=str(target_thread_id))
                )
                for record in page
            ]
            await self._store.apply([Add(copies)])

    @on_store_loop
    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the last checkpoint of each namespace, or none (`delete`).

        Where a channel keeps differences only, which are read back along all checkpoints before, all stay.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is keep_latest or delete; got {strategy!r}")
        for thread in thread_ids:
            query = self._query(self._scope_at(str(thread), None), newest_first=True)
            found = await list_heads(self._store, query)
            last = {head.scope.agent or "": head for head in reversed(found)} if strategy != "delete" else {}
            for namespace, head in list(last.items()):
                kept = await self.aget_tuple(_config_of(thread, namespace, head.id))
                if kept is not None and kept.metadata.get("counters_since_delta_snapshot"):
                    found = [each for each in found if (each.scope.agent or "") != namespace]
            latest = {(namespace, head.id) for namespace, head in last.items()}
            await self._remove([each for each in found if (each.scope.agent or "", each.id) not in latest])

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Numbers count up; so do texts, which the savers of databases make."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{uuid.uuid4().int % 10**16:016}"
        return super().get_next_version(current, channel)

    def _list_query(self, config: RunnableConfig | None) -> Query:
        if config is None:
            return self._query(self._scope_at(None, None), newest_first=True, limit=_PAGE)
        given, name = config["configurable"], get_checkpoint_id(config)
        scope = self._scope_at(str(given["thread_id"]), given.get("checkpoint_ns"))
        return self._query(scope, ids=(name,) if name else None, newest_first=True, limit=_PAGE)

    @on_store_loop
    async def _read(self, reading: _Reading) -> Sequence[CheckpointTuple]:
        page = await self._store.find(reading.query)
        reading.turn(page)
        taken = [
            record
            for record in page
            if reading.takes(record, lambda: self._load(record.data["metadata"]))  # noqa: B023 - called at once
        ]
        waiting = await self._writes(taken)
        return [self._tuple(record, waiting[record.key]) for record in taken]

    async def _writes(self, found: Sequence[Record]) -> dict[tuple[str, str], Sequence[Record]]:
        """What waits at each of these checkpoints, by their keys."""
        scopes = [self._scope_at(each.scope.session, each.scope.agent or "", each.id) for each in found]
        threads = {scope.session for scope in scopes}
        if len(found) > 1 and len(threads) == 1 and all(_is_timed(each.id) for each in found):
            # Writes have the time of their checkpoint, so that those of a page of checkpoints are one page too.
            times = [each.created_at for each in found]
            end = max(times) + timedelta(microseconds=1)
            scope = self._scope_at(threads.pop(), None)
            queries = [self._query(scope, (_WRITE,), since=min(times), until=end)]
        else:
            queries = [self._query(scope, (_WRITE,)) for scope in scopes]
        pages = await asyncio.gather(*map(self._store.find, queries))
        waiting: dict[tuple[str | None, str | None], list[Record]] = {}
        for write in (write for page in pages for write in page):
            waiting.setdefault((write.scope.session, write.scope.agent), []).append(write)
        return {
            each.key: waiting.get((scope.session, scope.agent), [])
            for each, scope in zip(found, scopes, strict=True)
        }

    def _tuple(self, record: Record, waiting: Sequence[Record]) -> CheckpointTuple:
        thread, namespace, data = record.scope.session or "", record.scope.agent or "", record.data
        writes = sorted(
            (write.data for write in waiting), key=lambda w: writes_sort_key(w["path"], w["task"], w["at"])
        )
        return CheckpointTuple(
            config=_config_of(thread, namespace, record.id),
            checkpoint=self._load(data["checkpoint"]),
            metadata=self._load(data["metadata"]),
            parent_config=_config_of(thread, namespace, data["parent"]) if data["parent"] else None,
            pending_writes=[
                (write["task"], write["channel"], self._load(write["value"])) for write in writes
            ],
        )

    async def _remove(self, found: Sequence[Head]) -> None:
        for head in found:
            thread, namespace = head.scope.session, head.scope.agent or ""
            await self._store.apply([
                Remove(self._query(self._scope_at(thread, namespace), ids=(head.id,))),
                Remove(Query(collection=_CHECKPOINTS, scope=self._scope_at(thread, namespace, head.id))),
            ])  # fmt: skip

    def _scope_at(self, thread: str | None, namespace: str | None, checkpoint: str | None = None) -> Scope:
        """Where the checkpoints of a namespace are, or the writes that wait at one of them; None is all threads."""
        return Scope(
            tenant=self._scope.tenant,
            user=self._scope.user,
            agent=namespace if checkpoint is None else f"{namespace}/{checkpoint}",
            session=thread,
        )

    def _query(self, scope: Scope, kinds: tuple[str, ...] = (_CHECKPOINT,), **clauses: Any) -> Query:
        return Query(collection=_CHECKPOINTS, kinds=kinds, scope=scope, **clauses)

    def _dump(self, value: Any) -> tuple[str, str]:
        kind, raw = self.serde.dumps_typed(value)
        return kind, base64.b64encode(raw).decode()

    def _load(self, dumped: Sequence[str]) -> Any:
        kind, raw = dumped
        return self.serde.loads_typed((kind, base64.b64decode(raw)))


def _thread_of(config: RunnableConfig) -> tuple[str, str]:
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns") or ""


def _config_of(thread: str, namespace: str, name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": name}}


def _put(record: Record) -> list[Op]:
    """Keep a record in place of the one of its id."""
    query = Query(collection=_CHECKPOINTS, ids=(record.id,), kinds=(record.kind,), scope=record.scope)
    return [Add([record]), Change(query=query, text=record.text, data=record.data, metadata=record.metadata)]


def _read_time(name: str) -> datetime:
    """When a checkpoint was made, as its id says: LangGraph's are UUIDs of version 6, which stand in the order of time."""
    if not _is_timed(name):
        return now()
    made = uuid.UUID(name)
    ticks = (made.int >> 80 << 12) | (made.int >> 64 & 0xFFF)  # of 100 nanoseconds
    return _EPOCH + timedelta(microseconds=ticks // 10)


def _is_timed(name: str) -> bool:
    """Whether the id of a checkpoint tells when it was made."""
    try:
        return uuid.UUID(name).version == 6
    except ValueError:
        return False
