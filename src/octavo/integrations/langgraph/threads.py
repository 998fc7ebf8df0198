"""Threads of checkpoints: what names one, how a list of them is read, and when each was made."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig  # type: ignore[import-not-found]
from langgraph.checkpoint.base import get_checkpoint_id  # type: ignore[import-not-found]

from octavo.kernel.ids import now
from octavo.kernel.model import Add, Change, Cursor, Op, Query, Record

CHECKPOINTS = "checkpoints"
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)  # from which the time in an id is counted


class Reading:
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


def place_of(config: RunnableConfig) -> tuple[str, str]:
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns") or ""


def config_of(thread: str, namespace: str, name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": name}}


def put(record: Record) -> list[Op]:
    """Keep a record in place of the one of its id."""
    query = Query(collection=CHECKPOINTS, ids=(record.id,), kinds=(record.kind,), scope=record.scope)
    return [Add([record]), Change(query=query, text=record.text, data=record.data, metadata=record.metadata)]


def made_at(name: str) -> datetime:
    """When a checkpoint was made, as its id says: LangGraph's are UUIDs of version 6, which stand in the order of time."""
    if not is_timed(name):
        return now()
    made = uuid.UUID(name)
    ticks = (made.int >> 80 << 12) | (made.int >> 64 & 0xFFF)  # of 100 nanoseconds
    return _EPOCH + timedelta(microseconds=ticks // 10)


def is_timed(name: str) -> bool:
    """Whether the id of a checkpoint tells when it was made."""
    try:
        return uuid.UUID(name).version == 6
    except ValueError:
        return False
