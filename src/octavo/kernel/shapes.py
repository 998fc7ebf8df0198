"""The documented physical spelling of each collection: table, column and JSON key names, and what is read by what."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec

from octavo.kernel.model import Record

#: The fields of a record as stored, with the names they have unless a shape gives another.
NAMES = MappingProxyType({
    "id": "id", "kind": "kind", "tenant": "tenant", "user": "user_id", "agent": "agent_id", "session": "session_id",
    "text": "text", "data": "data", "metadata": "metadata", "marks": "marks", "created_at": "created_at",
    "updated_at": "updated_at", "expires_at": "expires_at", "seq": "seq",
})  # fmt: skip


class Extra(msgspec.Struct, frozen=True):
    """A documented column that repeats what the record holds elsewhere, for people who read the table."""

    name: str
    type: str  # "name" (short text), "text" or "flag"
    value: Callable[[Any], Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How one collection is spelled, and the axes its readers ask by: each has an index, and counters unless told."""

    collection: str
    table: str
    names: dict[str, str] = {}
    axes: tuple[tuple[str, ...], ...] = ((),)  # () is the whole tenant, ("scope_key",) an exact scope
    uncounted: tuple[
        tuple[str, ...], ...
    ] = ()  # axes whose values are many and short: counting is as quick as looking up
    extras: tuple[Extra, ...] = ()
    marks_table: str = ""
    by_kind: bool = False  # whether those of one kind are read in order, however few they are
    expiry_index: str = ""  # where records end; elsewhere one is kept only where it costs nothing

    @property
    def counted(self) -> tuple[tuple[str, ...], ...]:
        return tuple(axis for axis in self.axes if axis not in self.uncounted)

    def name(self, field: str) -> str:
        """The documented name of a field."""
        return self.names.get(field) or NAMES[field]


def _data_reader(name: str) -> Callable[[Record], Any]:
    return lambda record: record.data.get(name)


def _is_permanent(record: Record) -> bool:
    return bool(record.data.get("is_permanent", record.expires_at is None))


_OWNER = (
    Extra("memory_type", "name", lambda r: "agent" if r.scope.agent and not r.scope.user else "user"),
    Extra("entity_id", "name", lambda r: r.scope.user or r.scope.agent or ""),
    Extra("embedding_id", "name", _data_reader("embedding_id")),
)

_ALL = (
    Shape(
        collection="events",
        table="agent_events",
        names={
            "id": "event_id", "agent": "agent_name", "kind": "event_type", "created_at": "timestamp",
        },
        axes=((), ("agent",), ("session",), ("user",)),
        uncounted=(("session",), ("user",)),
    ),
    Shape(
        collection="observations",
        table="events",
        names={"id": "event_id", "session": "session_key", "kind": "obs_type"},
        axes=((), ("session",), ("user",)),
        uncounted=(("session",), ("user",)),
    ),
    Shape(
        collection="turns",
        table="turns",
        names={"id": "turn_id", "session": "session_key", "kind": "status"},
        axes=((), ("session",), ("user",)),
        uncounted=(("session",), ("user",)),
        extras=(Extra("input_event_id", "name", _data_reader("input_event_id")),),
    ),
    Shape(
        collection="configs",
        table="configs",
        names={"id": "key", "kind": "config_type", "text": "content"},
        axes=((), ("user",)),
        uncounted=(("user",),),
    ),
    Shape(
        collection="knowledge",
        table="knowledge",
        names={"id": "key", "kind": "knowledge_type", "text": "content"},
        axes=((), ("user",)),
        uncounted=(("user",),),
    ),
    Shape(  # what a document said before: `session` is the document's key, `kind` why it gave way
        collection="versions",
        table="document_versions",
        names={"session": "document", "kind": "reason", "text": "content"},
        axes=((), ("session",), ("user",)),
        uncounted=(("session",), ("user",)),
    ),
    Shape(
        collection="messages",
        table="messages",
        names={"kind": "role", "text": "content"},
        axes=((), ("scope_key",), ("user",)),
        marks_table="message_marks",
    ),
    Shape(collection="summaries", table="summaries", axes=((), ("scope_key",), ("user",)), uncounted=(("user",),)),
    Shape(
        collection="entities",
        table="entities",
        names={"id": "name"},
        axes=((), ("scope_key",), ("user",)),
        uncounted=(("user",),),
    ),
    Shape(collection="exchanges", table="exchanges", axes=((), ("scope_key",), ("user",)), uncounted=(("user",),)),
    Shape(
        collection="profile",
        table="profile_memories",
        names={"kind": "category", "text": "content"},
        axes=((), ("user",), ("agent",)),
        extras=_OWNER,
        expiry_index="idx_profile_expiry",
    ),
    Shape(
        collection="episodes",
        table="event_memories",
        names={"kind": "category", "text": "content", "expires_at": "expiry_date"},
        axes=((), ("user",), ("agent",)),
        extras=(*_OWNER, Extra("is_permanent", "flag", _is_permanent)),
        expiry_index="idx_event_expiry",
    ),
    Shape(
        collection="log",
        table="memory_logs",
        names={"session": "memory_id", "kind": "action", "text": "reason"},
        axes=((), ("session",), ("user",), ("agent",)),
        uncounted=(("session",),),
        extras=(Extra("memory_layer", "name", _data_reader("memory_layer")),),
        by_kind=True,
    ),
    Shape(  # a knowledge graph: `text` is the name of an entity, `kind` its type
        collection="graph_nodes",
        table="graph_nodes",
        names={"kind": "entity_type", "text": "name"},
        axes=((), ("user",)),
        uncounted=(("user",),),
    ),
    Shape(
        collection="graph_edges",
        table="graph_edges",
        names={"kind": "relation_type"},
        axes=((), ("user",)),
        uncounted=(("user",),),
    ),
    Shape(  # values by namespace and key, for graphs: `session` is the namespace
        collection="items",
        table="octavo_items",
        names={"id": "key", "session": "namespace"},
        axes=((), ("session",), ("user",)),
        uncounted=(("session",), ("user",)),
        expiry_index="idx_items_expiry",
    ),
    Shape(  # states of graphs: `session` is the thread; `kind` is a checkpoint, or a write that waits at one
        collection="checkpoints",
        table="octavo_checkpoints",
        names={"session": "thread_id", "agent": "checkpoint_ns"},
        axes=((), ("scope_key",), ("session",), ("user",)),
        uncounted=(("scope_key",), ("session",), ("user",)),
    ),
    Shape(  # what is noted about the owner of facts: what he rejected, and a mark that each new fact renews
        collection="owners",
        table="memory_owners",
        axes=((), ("user",), ("agent",)),
        uncounted=(("user",), ("agent",)),
    ),
    Shape(  # who may call the server: `kind` is the strongest thing a key may do, `text` what it is for
        collection="keys",
        table="api_keys",
        names={"kind": "access", "text": "name"},
        uncounted=((),),
    ),
    Shape(collection="erasures", table="octavo_erasures", names={"kind": "scrub"}, uncounted=((),)),  # certificates
    # What is derived from the rest: an exact index's vectors (kind is their space), and what still has to be embedded.
    Shape(collection="vectors", table="octavo_vectors", names={"kind": "space"}, axes=((), ("scope_key",), ("user",), ("agent",))),
    Shape(collection="pending", table="octavo_pending", uncounted=((),)),
)  # fmt: skip

#: Every collection Octavo keeps, by name: table and column names come from here and from nowhere else.
SHAPES = MappingProxyType({shape.collection: shape for shape in _ALL})
