"""Memories of other memory systems: mem0, the official MCP memory server, and two programs that Octavo descends from, mk2 and Z-Memory."""

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from octavo.errors import ConfigError
from octavo.importers.sources import ImportSource, Row, SourceTables, decode_json, open_tables
from octavo.importers.values import (
    DefaultOwner,
    Item,
    Items,
    LeftOut,
    Times,
    fact_records,
    make_message,
    message_record,
    moment,
    seq_of,
    stable_id,
    try_make,
)
from octavo.kernel.codec import is_name
from octavo.kernel.ids import now
from octavo.kernel.model import Record, Scope, exact_scope
from octavo.layers import records as facts
from octavo.layers.values import ACTIONS, Layer
from octavo.memory.searching import DEFAULT_SESSION
from octavo.service.records import TURNS, event_to_record
from octavo.service.vault.documents import DocumentRecords, compose
from octavo.service.vault.names import address_of

_LISTS = ("results", "memories", "data")
_LAYERS: dict[Layer, str] = {"profile": "profile_memories", "event": "event_memories"}


# --- mem0


async def read_mem0(source: ImportSource, owner: DefaultOwner) -> Items:
    """What `get_all` answers, as a JSON file; or mem0's history database, of which the last state of each memory counts."""
    if source.is_database:
        async with open_tables(source) as tables:
            await tables.require("mem0", "history")
            async for item in _mem0_history(tables, owner):
                yield item
        return
    for file in source.files("*.json"):
        for position, item in file.items():
            for where, told in _list_memories(item, position):
                yield try_make(where, _mem0_fact, told, owner)


def _list_memories(item: Any, position: str) -> list[tuple[str, Any]]:
    """The memories in an item: itself, or those of a page."""
    for name in _LISTS:
        if isinstance(item, dict) and isinstance(item.get(name), list):
            return [(f"{position}, {name}[{number}]", each) for number, each in enumerate(item[name])]
    return [(position, item)]


def _mem0_fact(told: Any, owner: DefaultOwner) -> Item:
    told = told if isinstance(told, dict) else {}
    text = told.get("memory") or told.get("text") or told.get("data")
    if not isinstance(text, str):
        raise TypeError("it has no `memory`, so it is no memory of mem0")
    names = {"agent_id": told.get("agent_id"), "session_id": told.get("run_id"), "app_id": told.get("app_id")}
    user, agent = (str(name) if (name := told.get(whose)) else None for whose in ("user_id", "agent_id"))
    if not user and agent:
        del names["agent_id"]
    more = {"categories": told.get("categories"), "actor_id": told.get("actor_id"), "role": told.get("role")}
    given = told.get("metadata") or {}
    metadata = {**given, **{name: value for name, value in {**more, **names}.items() if value}}
    return fact_records(
        owner,
        str(told.get("id") or stable_id("mem0", user, agent, text)),
        text,
        moment(told.get("created_at")),
        came_from="mem0",
        user=user,
        agent=agent,
        metadata=metadata,
        updated_at=moment(told.get("updated_at")),
        expires_at=moment(told.get("expiration_date")),
    )


async def _mem0_history(tables: SourceTables, owner: DefaultOwner) -> Items:
    """The memories as their histories leave them. A history does not say whose they are."""
    held: list[Row] = []
    async for row in tables.rows("history", "memory_id", "created_at", "updated_at"):
        if held and held[0]["memory_id"] != row["memory_id"]:
            yield try_make(f"history of {held[0]['memory_id']}", _mem0_last, held, owner)
            held = []
        held.append(row)
    if held:
        yield try_make(f"history of {held[0]['memory_id']}", _mem0_last, held, owner)
    if "messages" not in await tables.names():
        return
    times: dict[str, Times] = {}
    async for row in tables.rows("messages", "session_scope", "created_at", "id"):
        clock = times.setdefault(row["session_scope"] or "", Times())
        yield try_make(f"messages {row['id']}", _mem0_message, row, owner, clock)


def _mem0_message(row: Row, owner: DefaultOwner, clock: Times) -> Record:
    named = dict(parse_qsl(row["session_scope"] or ""))
    talk = owner.talk(named.get("run_id") or DEFAULT_SESSION, named.get("user_id"))
    message = make_message(row["id"], row["role"], row["content"], {}, row["name"])
    return message_record(message, talk, clock.next(moment(row["created_at"])))


def _mem0_last(history: list[Row], owner: DefaultOwner) -> Item:
    last = history[-1]
    if last["is_deleted"] or last["event"] == "DELETE":
        return LeftOut("memories that were deleted")
    began = moment(history[0]["created_at"]) or moment(last["created_at"])
    metadata = {name: last[name] for name in ("actor_id", "role") if last.get(name)}
    return fact_records(
        owner,
        last["memory_id"],
        last["new_memory"],
        began,
        came_from="mem0",
        metadata=metadata,
        updated_at=moment(last["updated_at"]),
    )


# --- the official MCP memory server


async def read_mcp_memory(source: ImportSource, owner: DefaultOwner) -> Items:
    """The graph of the official MCP memory server: JSON lines of entities and relations."""
    if source.file.is_dir():
        raise ConfigError(f"{source.file} is a folder; name the JSONL file of the memory server")
    scope = exact_scope(Scope(tenant=owner.tenant, user=owner.user))
    for file in source.files("*"):
        times = Times(file.modified)
        for position, line in file.items(lines=True):
            yield try_make(position, _graph_record, line, scope, times)


def _graph_record(line: Any, scope: Scope, times: Times) -> Record:
    """An entity or a relation as `octavo mcp --toolset graph` keeps it."""
    kind = line.get("type") if isinstance(line, dict) else None
    if kind == "entity":
        name, type_ = line["name"], line["entityType"]
        told = {"entity_type": type_, "observations": [str(each) for each in line["observations"]]}
        id_, collection, text, metadata = stable_id(name), "graph_nodes", name, {"version": 1}
    elif kind == "relation":
        type_ = line["relationType"]
        told = {"from": line["from"], "to": line["to"], "relation_type": type_}
        id_, collection, text, metadata = stable_id(line["from"], line["to"], type_), "graph_edges", "", {}
    else:
        raise ValueError(f"its type is entity or relation; got {kind!r}")
    return Record(
        collection=collection,
        id=id_,
        kind=type_ if is_name(type_) else "",
        scope=scope,
        text=text,
        data=told,
        metadata=metadata,
        created_at=times.next(None),
    )


# --- mk2


async def read_mk2(source: ImportSource, owner: DefaultOwner) -> Items:
    """mk2's database: events, turns, configs and knowledge."""
    async with open_tables(source) as tables:
        await tables.require("mk2", "events", "turns")
        async for row in tables.rows("events", "ts", "event_id"):
            yield try_make(f"events {row['event_id']}", _mk2_event, row, owner)
        async for row in tables.rows("turns", "started_ts", "turn_id"):
            yield try_make(f"turns {row['turn_id']}", _mk2_turn, row, owner)
        there = await tables.names()
        for table, key in (("configs", "config_key"), ("knowledge", "knowledge_key")):
            if table in there:
                async for row in tables.rows(table, key):
                    yield try_make(f"{table} {row[key]}", _mk2_document, row, row[key], table, owner)


def _mk2_event(row: Row, owner: DefaultOwner) -> Record:
    obs = decode_json(row["obs_json"])
    actor = obs.get("actor")
    named = actor.get("actor_id") if isinstance(actor, dict) else actor
    user = named if isinstance(named, str) and is_name(named) else None
    at = moment(row["ts"]) or moment(row["created_at"]) or now()
    scope = Scope(tenant=owner.tenant, user=user, session=row["session_key"])
    record = event_to_record(obs, scope, decode_json(row["gate_json"]), decode_json(row["meta_json"]), at)
    return msgspec.structs.replace(record, id=row["event_id"], seq=seq_of(at))


def _mk2_turn(row: Row, owner: DefaultOwner) -> Record:
    began = moment(row["started_ts"]) or moment(row["created_at"]) or now()
    finished = moment(row["finished_ts"])
    more = {name: decode_json(row[f"{name}_json"]) for name in ("tool_calls", "tool_results")}
    return Record(
        collection=TURNS,
        id=row["turn_id"],
        kind=row["status"] or "running",
        scope=Scope(tenant=owner.tenant, session=row["session_key"]),
        data={
            "input_event_id": row["input_event_id"],
            "plan": decode_json(row["plan_json"]),
            "final_output_obs_id": row["final_output_obs_id"],
            "error": row["error"],
            "finished_at": None if finished is None else finished.isoformat(),
        },
        metadata={
            **(decode_json(row["meta_json"]) or {}),
            **{name: value for name, value in more.items() if value},
        },
        created_at=began,
        seq=seq_of(began),
    )


def _mk2_document(row: Row, key: str, table: str, owner: DefaultOwner) -> Record:
    address = address_of(key)
    if address.collection != table:  # the first part of a key decides where a document belongs
        address = address_of(f"facts/{key}")
    content = compose(row["content"] or "", decode_json(row["frontmatter_json"]) or {})
    began = moment(row["created_at"]) or now()
    times = began, moment(row["updated_at"]) or began
    documents = DocumentRecords(Scope(tenant=owner.tenant))
    return documents.document(address, content, 1, times)


# --- Z-Memory


async def read_z_memory(source: ImportSource, owner: DefaultOwner) -> Items:
    """Z-Memory's database: profile and event memories, and their log."""
    async with open_tables(source) as tables:
        await tables.require("Z-Memory", *_LAYERS.values())
        owners: dict[str, facts.Owner] = {}
        for layer, table in _LAYERS.items():
            async for row in tables.rows(table, "created_at", "id"):
                owners[row["id"]] = facts.Owner(
                    "agent" if row["memory_type"] == "agent" else "user", row["entity_id"]
                )
                yield try_make(f"{table} {row['id']}", _z_fact, row, layer, owner)
        if "memory_logs" in await tables.names():
            async for row in tables.rows("memory_logs", "created_at", "id"):
                whose = owners.get(row["memory_id"]) or facts.Owner("user", owner.user)
                yield try_make(f"memory_logs {row['id']}", _z_row, row, whose.scope(owner.tenant))


def _z_fact(row: Row, layer: Layer, owner: DefaultOwner) -> Item:
    ends = moment(row.get("expiry_date"))
    return fact_records(
        owner,
        row["id"],
        row["content"],
        moment(row["created_at"]),
        came_from="Z-Memory",
        layer=layer,
        metadata=decode_json(row["metadata"]),
        updated_at=moment(row["updated_at"]),
        expires_at=ends,
        is_permanent=bool(row.get("is_permanent", layer == "profile")) and ends is None,
        **{row["memory_type"]: row["entity_id"]},
    )


def _z_row(row: Row, scope: Scope) -> Record:
    """A row of its log, which tells what was done and why, but not what a memory said before."""
    layer: Layer = "profile" if row["memory_layer"] == "profile" else "event"
    if row["action"] not in ACTIONS:
        raise ValueError(f"unknown action {row['action']!r}")
    at = moment(row["created_at"]) or now()
    metadata = decode_json(row["metadata"]) or {}
    told = facts.log_record(
        scope, row["memory_id"], layer, row["action"], row["reason"], at, metadata=metadata
    )
    return msgspec.structs.replace(told, id=row["id"], seq=seq_of(at))
