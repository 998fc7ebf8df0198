"""How records are kept: the form that stores are given, and how each collection is spelled: table, column and JSON key names."""

from collections.abc import Callable, Generator
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from octavo.kernel.model import Head, Rank, Record, Scope
from octavo.kernel.text import content, fold, fold_in_steps, spell

_SOON_FOLDED = 8192  # characters
_decode = msgspec.json.Decoder(dict[str, Any]).decode

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


class StoredRecord(msgspec.Struct, eq=False, gc=False):
    """A checked record in the form stores keep: JSON bodies as text, times in UTC.

    It answers to the same names as Record (bodies are decoded afresh on each access, so nobody shares them). It can be part
    of no reference cycle, so the collector need not look at millions of them.
    """

    collection: str
    id: str
    kind: str
    scope: Scope
    scope_key: str
    text: str
    data_json: str
    metadata_json: str
    marks: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    seq: int
    rank: Rank
    facts: int = -1  # how many entries the metadata has, if they are all plain strings and whole numbers
    folded: str | None = None  # from the first time it is asked for: folding takes far longer than looking

    @property
    def key(self) -> tuple[str, str]:
        return (self.id, self.scope_key)

    @property
    def data(self) -> dict[str, Any]:
        return _decode(self.data_json)

    @property
    def metadata(self) -> dict[str, Any]:
        return _decode(self.metadata_json) if self.metadata_json != "{}" else {}

    @property
    def metadata_lines(self) -> str:
        r"""Metadata as JSON with each entry between newlines, so that `\n"key":value\n` finds an entry and nothing else.

        JSON strings hold no raw newline, and JSON allows one between tokens: the text stays valid for every reader.
        """
        spelled = self.metadata_json
        if spelled == "{}":
            return spelled
        # Inside a JSON string a quote has a backslash before it, so `,"` is the beginning of an entry or the end of a string
        # that ends in a comma; no more of them than there are gaps between entries means that each is such a gap.
        if self.facts > 0 and len(entries := spelled[1:-1].split(',"')) == self.facts:
            return "{\n" + '\n,\n"'.join(entries) + "\n}"
        # Decoded first: of 1 and "1" the last stays, as it does for whoever reads the text.
        entries = [f"\n{encode_entry(name, spell(value))}\n" for name, value in _decode(spelled).items()]
        return "{" + ",".join(entries) + "}"

    @property
    def search(self) -> str:
        """The folded text a substring search looks through."""
        folded = self.folded
        if folded is None:
            folded = self._keep_folded(fold(content(self.text, None if self.text else self.data)))
        return folded

    @property
    def slow_to_fold(self) -> bool:
        """Whether others would notice that `search` is made."""
        said = self.text or self.data_json
        return self.folded is None and len(said) > _SOON_FOLDED and not said.isascii()

    def fold_in_steps(self) -> Generator[None, None, str]:
        """Make `search` in steps, so that other tasks need not wait for all of it."""
        folded = yield from fold_in_steps(content(self.text, None if self.text else self.data))
        return self._keep_folded(folded)

    def _keep_folded(self, folded: str) -> str:
        self.folded = folded = self.text if folded == self.text else folded  # one object for both
        return folded

    @property
    def head(self) -> Head:
        """All but the text and the bodies."""
        texts = (self.text, self.data_json, self.metadata_json)
        return Head(
            id=self.id, kind=self.kind, scope=self.scope, created_at=self.created_at, updated_at=self.updated_at,
            seq=self.seq, size_bytes=sum([len(text) if text.isascii() else len(text.encode()) for text in texts]),
        )  # fmt: skip

    @property
    def record(self) -> Record:
        """A fresh Record, sharing nothing mutable with the store."""
        return Record(
            collection=self.collection, id=self.id, kind=self.kind, scope=self.scope, text=self.text,
            data=self.data, metadata=self.metadata, marks=self.marks, created_at=self.created_at,
            updated_at=self.updated_at, expires_at=self.expires_at, seq=self.seq,
        )  # fmt: skip


def encode_entry(name: str, spelled: str) -> str:
    """One metadata entry as it stands in the stored JSON; `spelled` is its value as JSON."""
    return f"{spell(str(name))}:{spelled}"
