"""Histories of frameworks: LangChain's tables and files, AgentScope's tables and states, LightAgent's files and tables."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from octavo.chat.messages import SUMMARIES, SUMMARY, SUMMARY_ID, Msg, read_state
from octavo.conversation.messages import BaseMessage, message_from_dict
from octavo.conversation.store_history import to_record as conversation_record
from octavo.events.records import AgentEvent
from octavo.events.records import to_record as event_record
from octavo.importers.json_items import find_files, items_of, lines_of, no_files, open_binary
from octavo.importers.sources import Source
from octavo.importers.tables import Row, decoded, is_sqlite, need, open_tables, rows
from octavo.importers.values import (
    Item,
    Items,
    LeftOut,
    Owner,
    Times,
    Unreadable,
    message_record,
    moment,
    seq_of,
    stable_id,
    tried,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Record, Scope


def _is_database(source: Source) -> bool:
    return source.path is None or is_sqlite(source.path)


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


# --- LangChain


async def read_langchain(source: Source, owner: Owner) -> Items:
    """`SQLChatMessageHistory`'s table `message_store`, or the files of `FileChatMessageHistory`, each a session.

    LangChain keeps no times: messages have the order they were kept in.
    """
    if _is_database(source):
        async with open_tables(source.path, source.url) as tables:
            await need(tables, "message_store", what="LangChain")
            clocks: dict[str, Times] = {}
            start = _modified(source.path) if source.path else now()
            async for row in rows(tables, "message_store", "id"):
                session = str(row["session_id"])
                clock = clocks.setdefault(session, Times(start))
                id_ = stable_id("langchain", session, row["id"])
                yield tried(
                    f"message_store {row['id']}", _langchain, row["message"], owner, session, id_, clock
                )
        return
    files = find_files(source.file, "*.json")
    if not files:
        raise no_files(source.file, "*.json")
    for path, inside, shown in files:
        session, clock = Path(inside or path).stem, Times(_modified(path))
        with open_binary(path, inside) as file:
            for number, (place, item) in enumerate(items_of(file, shown)):
                if isinstance(item, Unreadable):
                    yield item
                else:
                    id_ = stable_id("langchain", session, number)
                    yield tried(place, _langchain, item, owner, session, id_, clock)


def _langchain(told: Any, owner: Owner, session: str, id_: str, clock: Times) -> Record:
    message: BaseMessage = message_from_dict(decoded(told))
    at = clock.next(None)
    record = conversation_record(message, owner.talk(session))
    return msgspec.structs.replace(record, id=id_, created_at=at, seq=seq_of(at))


# --- AgentScope


async def read_agentscope(source: Source, owner: Owner) -> Items:
    """`AsyncSQLAlchemyMemory`'s tables, or JSON files of `state_dict()` and of sessions, each a session."""
    if _is_database(source):
        async for item in _agentscope_tables(source, owner):
            yield item
        return
    files = find_files(source.file, "*.json")
    if not files:
        raise no_files(source.file, "*.json")
    for path, inside, shown in files:
        with open_binary(path, inside) as file:
            for place, state in items_of(file, shown):
                if isinstance(state, Unreadable):
                    yield state
                    continue
                found = False
                for name, memory in _memories_in(state, ()):
                    found = True
                    # Of a session with several agents, each memory is a session of its own.
                    session = "-".join((Path(inside or path).stem, *name))
                    for item in _state_items(memory, owner.talk(session), place):
                        yield item
                if not found:
                    yield Unreadable(place, "it holds no state of a memory")


async def _agentscope_tables(source: Source, owner: Owner) -> Items:
    async with open_tables(source.path, source.url) as tables:
        await need(tables, "message", "session", "message_mark", what="AgentScope")
        users = {row["id"]: row["user_id"] async for row in rows(tables, "session", "id")}
        marks: dict[str, list[str]] = {}
        async for row in rows(tables, "message_mark", "msg_id", "mark"):
            marks.setdefault(row["msg_id"], []).append(row["mark"])
        clocks: dict[str, Times] = {}
        async for row in rows(tables, "message", "session_id", "index"):
            clock = clocks.setdefault(row["session_id"], Times())
            scope = owner.talk(row["session_id"], users.get(row["session_id"]))
            found = marks.get(row["id"], ())
            yield tried(f"message {row['id']}", _agentscope_message, row["msg"], scope, clock, found)


def _agentscope_message(told: Any, scope: Scope, clock: Times, marks: Any) -> Record:
    message = Msg.from_dict(decoded(told))
    return message_record(message, scope, clock.next(_local(message.timestamp)), marks, stamped=False)


def _local(spelled: str | None) -> datetime | None:
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


def _state_items(state: Mapping[str, Any], scope: Scope, place: str) -> Iterator[Item]:
    parsed = tried(place, lambda: read_state(state, strict=False))
    if isinstance(parsed, Unreadable):
        yield parsed
        return
    summary, content = parsed
    clock = Times()
    for message, marks in content or ():
        at = clock.next(_local(message.timestamp))
        yield tried(
            f"{place}, message {message.id}",
            lambda m, a, k: message_record(m, scope, a, k, stamped=False),
            message,
            at,
            marks,
        )
    if summary:
        yield Record(
            collection=SUMMARIES, id=SUMMARY_ID, scope=scope, text=summary, created_at=clock.next(None), seq=1
        )


# --- LightAgent


async def read_lightagent(source: Source, owner: Owner) -> Items:
    """The files of its FileMemoryStore (`session_….jsonl`, `events.json`, archives), or its table of events."""
    if _is_database(source):
        async with open_tables(source.path, source.url) as tables:
            name = "agent_events" if "agent_events" in await tables.names() else "events"
            await need(tables, name, what="LightAgent")
            async for row in rows(tables, name, "timestamp", "event_id"):
                told = {**row, "data": decoded(row["data"]), "metadata": decoded(row.get("metadata"))}
                yield tried(f"{name} {row['event_id']}", _event, told, owner)
        return
    files = find_files(source.file, "session_*.json*", "events*.json*")
    if not files:
        raise no_files(source.file, "session_*.jsonl", "events.jsonl")
    for path, inside, shown in files:
        with open_binary(path, inside) as file:
            if ".jsonl" in path.suffixes:
                found = ((place, item) for place, _, item in lines_of(file, shown))
            else:
                found = ((place, item) for place, item in items_of(file, shown))
            for place, item in found:
                yield item if isinstance(item, Unreadable) else tried(place, _event, item, owner)


def _event(told: Row, owner: Owner) -> Record | LeftOut:
    if not told.get("event_id"):
        raise KeyError("event_id")
    if told.get("timestamp") is not None:
        told = {**told, "timestamp": moment(told["timestamp"]) or told["timestamp"]}
    return event_record(AgentEvent.from_dict(told), owner.tenant)
