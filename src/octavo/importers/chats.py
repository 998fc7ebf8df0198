"""Conversations: ChatGPT's export, Claude's, plain lines of roles and contents; and the histories of LangChain, AgentScope and LightAgent."""

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
    make_message,
    message_record,
    moment,
    seq_of,
    stable_id,
    try_make,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Record, Scope
from octavo.memory.messages import read_messages

_OTHER_BRANCH = "messages of branches that were given up"
_EMPTY = "messages without a content"
_OWN_FIELDS = ("id", "timestamp", "created_at")  # of a line: what a record has a place for


def read_chatgpt(source: ImportSource, owner: DefaultOwner) -> Items:
    """ChatGPT's export: `conversations.json`, its folder or its zip. Of each tree, the branch that was shown last."""
    return _conversations(source, owner, _chatgpt_messages)


def read_claude(source: ImportSource, owner: DefaultOwner) -> Items:
    """Claude's export: `conversations.json`, its folder or its zip."""
    return _conversations(source, owner, _claude_messages)


async def _conversations(source: ImportSource, owner: DefaultOwner, read: Any) -> Items:
    for file in source.files("conversations.json", "conversations-*.json"):
        for position, told in file.items():
            if isinstance(told, dict):
                for item in read(told, position, owner):
                    yield item
            else:
                yield told if isinstance(told, Unreadable) else Unreadable(position, "it is no conversation")


def _times_from(told: Any) -> Times:
    return Times(moment(told))


def _text_or_blocks(blocks: list[dict[str, Any]]) -> Any:
    """The content of a message: a single block of text is that text."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


# --- ChatGPT


def _chatgpt_messages(told: dict[str, Any], position: str, owner: DefaultOwner) -> Iterator[Item]:
    mapping = told.get("mapping")
    session = told.get("conversation_id") or told.get("id")
    if not isinstance(mapping, dict) or not isinstance(session, str):
        yield Unreadable(position, "it has no `mapping` or no id, so it is no conversation of ChatGPT")
        return
    if isinstance(times := try_make(position, _times_from, told.get("create_time")), Unreadable):
        yield times
        return
    scope = owner.talk(session)
    branch, at = [], told.get("current_node")
    if not isinstance(at, str) or at not in mapping:
        at = _last_node(mapping)
    seen: set[Any] = set()
    while isinstance(node := mapping.get(at), dict) and at not in seen:
        seen.add(at)
        branch.append(node)
        at = node.get("parent")
    for node in reversed(branch):
        if (said := node.get("message")) is not None:  # the root of every tree has none
            yield try_make(
                f"{position}, message {node.get('id')}",
                _chatgpt_message,
                said,
                told.get("title"),
                scope,
                times,
            )
    for key, node in mapping.items():
        if key not in seen and isinstance(node, dict) and node.get("message") is not None:
            yield LeftOut(_OTHER_BRANCH)


def _last_node(mapping: Mapping[str, Any]) -> str | None:
    """The newest leaf of a tree that does not say which one was shown, or names one that is not there."""
    leaves = [key for key, node in mapping.items() if isinstance(node, dict) and not node.get("children")]
    return max(leaves, key=lambda key: _said_at(mapping[key]), default=None)


def _said_at(node: Mapping[str, Any]) -> datetime:
    said = node.get("message")
    at = try_make("", moment, said.get("create_time")) if isinstance(said, dict) else None
    return at if isinstance(at, datetime) else datetime.min.replace(tzinfo=UTC)


def _chatgpt_message(said: dict[str, Any], title: Any, scope: Scope, times: Times) -> Record | LeftOut:
    author, more = said["author"], said.get("metadata") or {}
    content = _text_or_blocks(_chatgpt_blocks(said["content"]))
    if not content:
        return LeftOut(_EMPTY)
    metadata = {"title": title, "model": more.get("model_slug")}
    message = make_message(said["id"], author["role"], content, metadata, author.get("name"))
    return message_record(message, scope, times.next(moment(said.get("create_time"))))


def _chatgpt_blocks(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a message as blocks; nothing where nothing was said."""
    kind = content["content_type"]
    if kind in ("text", "multimodal_text"):
        return [block for part in content.get("parts") or () if (block := _chatgpt_part(part))]
    if kind == "thoughts":
        thoughts = content.get("thoughts") or ()
        texts = ["\n".join(filter(None, (each.get("summary"), each.get("content")))) for each in thoughts]
        return [{"type": "thinking", "thinking": text} for text in texts if text]
    if isinstance(text := content.get("text") or content.get("result") or content.get("content"), str):
        return [{"type": "text", "text": text}] if text.strip() else []
    rest = {name: value for name, value in content.items() if name != "content_type" and value}
    return [{"type": kind, **rest}] if rest else []


def _chatgpt_part(part: Any) -> dict[str, Any] | None:
    part = {"text": part} if isinstance(part, str) else part
    if not isinstance(part, dict):
        return None
    if isinstance(text := part.get("text"), str):
        return {"type": "text", "text": text} if text.strip() else None
    if isinstance(pointer := part.get("asset_pointer"), str):
        return {"type": "image", "source": {"type": "url", "url": pointer}}
    return {"type": str(part.get("content_type") or "unknown"), "part": part}


# --- Claude


def _claude_messages(told: dict[str, Any], position: str, owner: DefaultOwner) -> Iterator[Item]:
    messages, session = told.get("chat_messages"), told.get("uuid")
    if not isinstance(messages, list) or not isinstance(session, str):
        yield Unreadable(
            position, "it has no `chat_messages` or no `uuid`, so it is no conversation of Claude"
        )
        return
    if isinstance(times := try_make(position, _times_from, told.get("created_at")), Unreadable):
        yield times
        return
    scope = owner.talk(session)
    for number, said in enumerate(messages, 1):
        yield try_make(f"{position}, message {number}", _claude_message, said, told.get("name"), scope, times)


def _claude_message(said: dict[str, Any], title: Any, scope: Scope, times: Times) -> Record | LeftOut:
    role = {"human": "user"}.get(said["sender"], said["sender"])
    blocks = [_claude_block(block) for block in said.get("content") or ()]
    blocks = [block for block in blocks if block.get("text", True)]
    if not any(block["type"] == "text" for block in blocks) and said.get("text"):
        blocks.append({"type": "text", "text": said["text"]})
    attached = [each for name in ("attachments", "files") for each in said.get(name) or ()]
    if not blocks and not attached:
        return LeftOut(_EMPTY)
    metadata = {"title": title, "attachments": attached}
    message = make_message(said["uuid"], role, _text_or_blocks(blocks), metadata)
    return message_record(message, scope, times.next(moment(said.get("created_at"))))


def _claude_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block as the chat face has it."""
    kind = block["type"]
    if kind in ("text", "thinking"):
        return {"type": kind, kind: block.get(kind) or ""}
    if kind == "tool_use":
        told = {name: block.get(name) or "" for name in ("id", "name")}
        return {"type": kind, **told, "input": block.get("input") or {}}
    if kind == "tool_result":
        output = block.get("content")
        if not isinstance(output, str):
            output = [each for each in output or () if isinstance(each, dict)]
        told = {"id": block.get("tool_use_id") or "", "name": block.get("name") or ""}
        return {"type": kind, **told, "output": output}
    return dict(block)


# --- lines


async def read_chat_jsonl(source: ImportSource, owner: DefaultOwner) -> Items:
    """Lines of `{"role", "content"}`; each file is a session. Times and ids are read if there are any."""
    for file in source.files("*.jsonl", "*.jsonl.gz"):
        told = (try_make("", _line_time, line) for _, line in file.items(lines=True))
        first = next((at for at in told if isinstance(at, datetime)), file.modified)
        scope, times = owner.talk(file.stem), Times(first)
        for number, (position, line) in enumerate(file.items(lines=True), 1):
            # What it says is part of it: another file may have the same name, and a history may lose its first lines.
            id_ = stable_id("chat-jsonl", file.stem, number, line)
            yield try_make(position, _line_message, line, id_, scope, times)


def _line_time(line: Any) -> datetime | None:
    return moment(line.get("timestamp") or line.get("created_at"))


def _line_message(line: Any, id_: str, scope: Scope, times: Times) -> Record:
    if not isinstance(line, dict):
        raise TypeError('it is no message such as {"role": "user", "content": "hello"}')
    told = {name: value for name, value in line.items() if name not in _OWN_FIELDS}
    [message] = read_messages([told], speaker="user", metadata=None)
    given = line.get("id")
    message.id = given if isinstance(given, str) and given else id_
    return message_record(message, scope, times.next(_line_time(line)))


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
                told, id_ = row["message"], stable_id("langchain", session, row["id"], row["message"])
                yield try_make(f"message_store {row['id']}", _langchain, told, owner, session, id_, clock)
        return
    for file in source.files("*.json"):
        session, clock = file.stem, Times(file.modified)
        for number, (position, item) in enumerate(file.items()):
            id_ = stable_id("langchain", session, number, item)
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
    return datetime.fromisoformat(spelled).astimezone(UTC) if spelled else None


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
    fields = {name: told[name] for name in AgentEvent.__dataclass_fields__ if name in told}
    return event_record(AgentEvent.from_dict(fields), owner.tenant)
