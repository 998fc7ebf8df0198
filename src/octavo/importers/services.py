"""Whole databases of two programs that Octavo's service and layers descend from: mk2's and Z-Memory's."""

import msgspec

from octavo.importers.sources import Source
from octavo.importers.tables import Row, Tables, decoded, need, open_tables, rows
from octavo.importers.values import Item, Items, Owner, fact_records, moment, seq_of, tried
from octavo.kernel.codec import is_name
from octavo.kernel.ids import now
from octavo.kernel.model import Record, Scope
from octavo.layers import records as facts
from octavo.layers.values import ACTIONS, Layer
from octavo.service.records import TURNS, event_to_record
from octavo.service.vault.documents import DocumentRecords, compose
from octavo.service.vault.names import address_of

_LAYERS: dict[Layer, str] = {"profile": "profile_memories", "event": "event_memories"}


# --- mk2


async def read_mk2(source: Source, owner: Owner) -> Items:
    """mk2's database: events, turns, configs and knowledge."""
    async with open_tables(source.path, source.url) as tables:
        await need(tables, "events", "turns", what="mk2")
        async for row in rows(tables, "events", "ts", "event_id"):
            yield tried(f"events {row['event_id']}", _mk2_event, row, owner)
        async for row in rows(tables, "turns", "started_ts", "turn_id"):
            yield tried(f"turns {row['turn_id']}", _mk2_turn, row, owner)
        there = await tables.names()
        for table, key in (("configs", "config_key"), ("knowledge", "knowledge_key")):
            if table in there:
                async for row in rows(tables, table, key):
                    yield tried(f"{table} {row[key]}", _mk2_document, row, row[key], table, owner)


def _mk2_event(row: Row, owner: Owner) -> Record:
    obs = decoded(row["obs_json"])
    actor = obs.get("actor")
    named = actor.get("actor_id") if isinstance(actor, dict) else actor
    user = named if isinstance(named, str) and is_name(named) else None
    at = moment(row["ts"]) or moment(row["created_at"]) or now()
    scope = Scope(tenant=owner.tenant, user=user, session=row["session_key"])
    record = event_to_record(obs, scope, decoded(row["gate_json"]), decoded(row["meta_json"]), at)
    return msgspec.structs.replace(record, id=row["event_id"], seq=seq_of(at))


def _mk2_turn(row: Row, owner: Owner) -> Record:
    began = moment(row["started_ts"]) or moment(row["created_at"]) or now()
    finished = moment(row["finished_ts"])
    more = {name: decoded(row[f"{name}_json"]) for name in ("tool_calls", "tool_results")}
    return Record(
        collection=TURNS,
        id=row["turn_id"],
        kind=row["status"] or "running",
        scope=Scope(tenant=owner.tenant, session=row["session_key"]),
        data={
            "input_event_id": row["input_event_id"],
            "plan": decoded(row["plan_json"]),
            "final_output_obs_id": row["final_output_obs_id"],
            "error": row["error"],
            "finished_at": None if finished is None else finished.isoformat(),
        },
        metadata={
            **(decoded(row["meta_json"]) or {}),
            **{name: value for name, value in more.items() if value},
        },
        created_at=began,
        seq=seq_of(began),
    )


def _mk2_document(row: Row, key: str, table: str, owner: Owner) -> Record:
    address = address_of(key)
    if address.collection != table:  # the first part of a key decides where a document belongs
        address = address_of(f"facts/{key}")
    content = compose(row["content"] or "", decoded(row["frontmatter_json"]) or {})
    began = moment(row["created_at"]) or now()
    times = began, moment(row["updated_at"]) or began
    documents = DocumentRecords(Scope(tenant=owner.tenant))
    return documents.document(address, content, 1, times)


# --- Z-Memory


async def read_z_memory(source: Source, owner: Owner) -> Items:
    """Z-Memory's database: profile and event memories, and their log."""
    async with open_tables(source.path, source.url) as tables:
        await need(tables, *_LAYERS.values(), what="Z-Memory")
        owners: dict[str, facts.Owner] = {}
        for layer, table in _LAYERS.items():
            async for row in rows(tables, table, "created_at", "id"):
                owners[row["id"]] = facts.Owner(
                    "agent" if row["memory_type"] == "agent" else "user", row["entity_id"]
                )
                yield tried(f"{table} {row['id']}", _z_fact, row, layer, owner)
        if "memory_logs" in await tables.names():
            async for item in _z_log(tables, owners, owner):
                yield item


def _z_fact(row: Row, layer: Layer, owner: Owner) -> Item:
    ends = moment(row.get("expiry_date"))
    return fact_records(
        owner,
        row["id"],
        row["content"],
        moment(row["created_at"]),
        came_from="Z-Memory",
        layer=layer,
        metadata=decoded(row["metadata"]),
        updated_at=moment(row["updated_at"]),
        expires_at=ends,
        is_permanent=bool(row.get("is_permanent", layer == "profile")) and ends is None,
        **{row["memory_type"]: row["entity_id"]},
    )


async def _z_log(tables: Tables, owners: dict[str, facts.Owner], owner: Owner) -> Items:
    async for row in rows(tables, "memory_logs", "created_at", "id"):
        whose = owners.get(row["memory_id"]) or facts.Owner("user", owner.user)
        yield tried(f"memory_logs {row['id']}", _z_row, row, whose.scope(owner.tenant))


def _z_row(row: Row, scope: Scope) -> Record:
    """A row of its log, which tells what was done and why, but not what a memory said before."""
    layer: Layer = "profile" if row["memory_layer"] == "profile" else "event"
    if row["action"] not in ACTIONS:
        raise ValueError(f"unknown action {row['action']!r}")
    at = moment(row["created_at"]) or now()
    metadata = decoded(row["metadata"]) or {}
    told = facts.log_record(
        scope, row["memory_id"], layer, row["action"], row["reason"], at, metadata=metadata
    )
    return msgspec.structs.replace(told, id=row["id"], seq=seq_of(at))
