"""Histories of frameworks: LangChain's tables and files, AgentScope's tables and states, LightAgent's files and tables."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from octavo.chat.messages import SUMMARIES, SUMMARY, SUMMARY_ID, Msg, read_state
from octavo.conversation.messages import BaseMessage, message_from_dict
from octavo.conversation.store_history import to_record as conversation_record
from octavo.events.records import AgentEvent
from octavo.events.records import to_record as event_record
from octavo.importers.sources import ImportSource, Row, SourceTables, decode_json, open_tables
from octavo.importers.values import (
    DefaultOwner,
    Item,
    Items,
    LeftOut,
    Times,
    Unreadable,
    message_record,
    moment,
    seq_of,
    stable_id,
    try_make,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Record, Scope

# --- LangChain


async def read_langchain(source: ImportSource, owner: DefaultOwner) -> Items:
    """`SQLChatMessageHistory`'s table `message_store`, or the files of `FileChatMessageHistory`, each a session.

    LangChain keeps no times: messages have the order they were kept in.
    """
    if source.is_database:
        async with open_tables(source) as tables:
            await tables.require("LangChain", "message_store")
            clocks: dict[str, Times] = {}
            start = moment(source.path.stat().st_mtime) if source.path else now()
            async for row in tables.rows("message_store", "id"):
                session = str(row["session_id"])
                clock = clocks.setdefault(session, Times(start))
                told, id_ = row["message"], stable_id("langchain", session, row["id"])
                yield try_make(f"message_store {row['id']}", _langchain, told, owner, session, id_, clock)
        return
    for file in source.files("*.json"):
        session, clock = file.stem, Times(file.modified)
        for number, (position, item) in enumerate(file.items()):
            id_ = stable_id("langchain", session, number)
            yield try_make(position, _langchain, item, owner, session, id_, clock)


def _langchain(told: Any, owner: DefaultOwner, session: str, id_: str, clock: Times) -> Record:
    message: BaseMessage = message_from_dict(decode_json(told))
    at = clock.next(None)
    record = conversation_record(message, owner.talk(session))
    return msgspec.structs.replace(record, id=id_, created_at=at, seq=seq_of(at))


# --- AgentScope


async def read_agentscope(source: ImportSource, owner: DefaultOwner) -> Items:
    """`AsyncSQLAlchemyMemory`'s tables, or JSON files of `state_dict()` and of sessions, each a session."""
    if source.is_database:
        async with open_tables(source) as tables:
            async for item in _agentscope_tables(tables, owner):
                yield item
        return
    for file in source.files("*.json"):
        for position, state in file.items():
            found = [*_memories_in(state, ())]
            for name, memory in found:
                # Of a session with several agents, each memory is a session of its own.
                for item in _state_items(memory, owner.talk("-".join((file.stem, *name))), position):
                    yield item
            if not found:
                bad = isinstance(state, Unreadable)
                yield state if bad else Unreadable(position, "it holds no state of a memory")


async def _agentscope_tables(tables: SourceTables, owner: DefaultOwner) -> Items:
    await tables.require("AgentScope", "message", "session", "message_mark")
    users = {row["id"]: row["user_id"] async for row in tables.rows("session", "id")}
    marks: dict[str, list[str]] = {}
    async for row in tables.rows("message_mark", "msg_id", "mark"):
        marks.setdefault(row["msg_id"], []).append(row["mark"])
    clocks: dict[str, Times] = {}
    async for row in tables.rows("message", "session_id", "index"):
        clock = clocks.setdefault(row["session_id"], Times())
        scope = owner.talk(row["session_id"], users.get(row["session_id"]))
        found = marks.get(row["id"], ())
        yield try_make(f"message {row['id']}", _agentscope_message, row["msg"], scope, clock, found)


def _agentscope_message(told: Any, scope: Scope, clock: Times, marks: Any) -> Record:
    message = told if isinstance(told, Msg) else Msg.from_dict(decode_json(told))
    return message_record(message, scope, clock.next(_parse_local(message.timestamp)), marks, stamped=False)


def _parse_local(spelled: str | None) -> datetime | None:
    """A time of AgentScope, which writes local ones."""
    try:
        return datetime.fromisoformat(spelled).astimezone(UTC) if spelled else None
    except ValueError:
        return None


def _memories_in(state: Any, name: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The states of memories inside a state, and where they stand; `memory` itself is no name."""
    if not isinstance(state, dict):
        return
    if SUMMARY in state or (isinstance(content := state.get("content"), list) and _are_messages(content)):
        yield name, state
        return
    for key, inner in state.items():
        yield from _memories_in(inner, name if key == "memory" else (*name, key))


def _are_messages(content: list[Any]) -> bool:
    first = content[0][0] if content and isinstance(content[0], list) and content[0] else content[:1]
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "role" in first


def _state_items(state: Mapping[str, Any], scope: Scope, position: str) -> Iterator[Item]:
    parsed = try_make(position, lambda given: read_state(given, strict=False), state)
    if isinstance(parsed, Unreadable):
        yield parsed
        return
    summary, content = parsed
    clock = Times()
    for message, marks in content or ():
        yield try_make(f"{position}, message {message.id}", _agentscope_message, message, scope, clock, marks)
    if summary:
        yield Record(
            collection=SUMMARIES, id=SUMMARY_ID, scope=scope, text=summary, created_at=clock.next(None), seq=1
        )


# --- LightAgent


async def read_lightagent(source: ImportSource, owner: DefaultOwner) -> Items:
    """The files of its FileMemoryStore (`session_….jsonl`, `events.json`, archives), or its table of events."""
    if source.is_database:
        async with open_tables(source) as tables:
            name = "agent_events" if "agent_events" in await tables.names() else "events"
            await tables.require("LightAgent", name)
            async for row in tables.rows(name, "timestamp", "event_id"):
                told = {**row, "data": decode_json(row["data"]), "metadata": decode_json(row.get("metadata"))}
                yield try_make(f"{name} {row['event_id']}", _event, told, owner)
        return
    for file in source.files("session_*.json*", "events*.json*"):
        for position, item in file.items(lines=".jsonl" in file.path.suffixes):
            yield try_make(position, _event, item, owner)


def _event(told: Row, owner: DefaultOwner) -> Record | LeftOut:
    if not told.get("event_id"):
        raise KeyError("event_id")
    if told.get("timestamp") is not None:
        told = {**told, "timestamp": moment(told["timestamp"]) or told["timestamp"]}
    return event_record(AgentEvent.from_dict(told), owner.tenant)
