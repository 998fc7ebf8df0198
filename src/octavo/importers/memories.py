"""Memories of other memory systems: mem0's export and history, and the graph of the official MCP memory server."""

from typing import Any
from urllib.parse import parse_qsl

from octavo.errors import ConfigError
from octavo.importers.json_items import find_files, items_of, lines_of, open_binary
from octavo.importers.sources import Source
from octavo.importers.tables import Row, Tables, is_sqlite, need, open_tables, rows
from octavo.importers.values import (
    Item,
    Items,
    LeftOut,
    Owner,
    Times,
    Unreadable,
    fact_records,
    make_message,
    message_record,
    moment,
    stable_id,
    tried,
)
from octavo.kernel.codec import is_name
from octavo.kernel.model import Record, Scope, exact_scope
from octavo.memory.searching import DEFAULT_SESSION

_LISTS = ("results", "memories", "data")


async def read_mem0(source: Source, owner: Owner) -> Items:
    """What `get_all` answers, as a JSON file; or mem0's history database, of which the last state of each memory counts."""
    if source.path is None or is_sqlite(source.path):
        async with open_tables(source.path, source.url) as tables:
            await need(tables, "history", what="mem0")
            async for item in _mem0_history(tables, owner):
                yield item
        return
    for path, inside, shown in find_files(source.path, "*.json"):
        with open_binary(path, inside) as file:
            for place, item in items_of(file, shown):
                for where, told in _listed(item, place):
                    bad = isinstance(told, Unreadable)
                    yield told if bad else tried(where, _mem0_fact, told, owner)


def _listed(item: Any, place: str) -> list[tuple[str, Any]]:
    """The memories in an item: itself, or those of a page."""
    for name in _LISTS:
        if isinstance(item, dict) and isinstance(item.get(name), list):
            return [(f"{place}, {name}[{number}]", each) for number, each in enumerate(item[name])]
    return [(place, item)]


def _mem0_fact(told: Any, owner: Owner) -> Item:
    text = told.get("memory") or told.get("text") or told.get("data")
    if not isinstance(text, str):
        raise TypeError("it has no `memory`, so it is no memory of mem0")
    names = {"agent_id": told.get("agent_id"), "session_id": told.get("run_id"), "app_id": told.get("app_id")}
    user, agent = told.get("user_id"), told.get("agent_id")
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


async def _mem0_history(tables: Tables, owner: Owner) -> Items:
    """The memories as their histories leave them. A history does not say whose they are."""
    held: list[Row] = []
    async for row in rows(tables, "history", "memory_id", "created_at", "updated_at"):
        if held and held[0]["memory_id"] != row["memory_id"]:
            yield tried(f"history of {held[0]['memory_id']}", _mem0_last, held, owner)
            held = []
        held.append(row)
    if held:
        yield tried(f"history of {held[0]['memory_id']}", _mem0_last, held, owner)
    if "messages" not in await tables.names():
        return
    times: dict[str, Times] = {}
    async for row in rows(tables, "messages", "session_scope", "created_at", "id"):
        clock = times.setdefault(row["session_scope"] or "", Times())
        yield tried(f"messages {row['id']}", _mem0_message, row, owner, clock)


def _mem0_message(row: Row, owner: Owner, clock: Times) -> Record:
    named = dict(parse_qsl(row["session_scope"] or ""))
    talk = owner.talk(named.get("run_id") or DEFAULT_SESSION, named.get("user_id"))
    message = make_message(row["id"], row["role"], row["content"], {}, row["name"])
    return message_record(message, talk, clock.next(moment(row["created_at"])))


def _mem0_last(history: list[Row], owner: Owner) -> Item:
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


async def read_mcp_memory(source: Source, owner: Owner) -> Items:
    """The graph of the official MCP memory server: JSON lines of entities and relations."""
    if source.file.is_dir():
        raise ConfigError(f"{source.file} is a folder; name the JSONL file of the memory server")
    scope = exact_scope(Scope(tenant=owner.tenant, user=owner.user))
    written = moment(source.file.stat().st_mtime)
    times = Times(written)
    with open_binary(source.file) as file:
        for place, _, line in lines_of(file, source.file.name):
            if isinstance(line, Unreadable):
                yield line
            else:
                yield tried(place, _graph_record, line, scope, times)


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
