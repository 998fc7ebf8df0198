"""Conversations: ChatGPT's export, Claude's export, and plain lines of roles and contents."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from octavo.chat.messages import Msg
from octavo.importers.json_items import find_files, items_of, lines_of, no_files, open_binary
from octavo.importers.sources import Source
from octavo.importers.values import (
    Item,
    Items,
    LeftOut,
    Owner,
    Times,
    Unreadable,
    make_message,
    message_record,
    moment,
    stable_id,
    tried,
)
from octavo.memory.messages import read_messages

_CONVERSATIONS = ("conversations.json", "conversations-*.json")
_OTHER_BRANCH = "messages of branches that were given up"
_EMPTY = "messages without a content"


async def read_chatgpt(source: Source, owner: Owner) -> Items:
    """ChatGPT's export: `conversations.json`, its folder or its zip. Of each tree, the branch that was shown last."""
    for item in _conversations(source, owner, _chatgpt_messages):
        yield item


async def read_claude(source: Source, owner: Owner) -> Items:
    """Claude's export: `conversations.json`, its folder or its zip."""
    for item in _conversations(source, owner, _claude_messages):
        yield item


def _conversations(source: Source, owner: Owner, read: Any) -> Iterator[Item]:
    files = find_files(source.file, *_CONVERSATIONS)
    if not files:
        raise no_files(source.file, *_CONVERSATIONS)
    for path, inside, shown in files:
        with open_binary(path, inside) as file:
            for place, conversation in items_of(file, shown):
                if isinstance(conversation, Unreadable):
                    yield conversation
                elif not isinstance(conversation, dict):
                    yield Unreadable(place, "it is no conversation")
                else:
                    yield from read(conversation, place, owner)


# --- ChatGPT


def _chatgpt_messages(told: dict[str, Any], place: str, owner: Owner) -> Iterator[Item]:
    mapping = told.get("mapping")
    session = told.get("conversation_id") or told.get("id")
    if not isinstance(mapping, dict) or not isinstance(session, str):
        yield Unreadable(place, "it has no `mapping` or no id, so it is no conversation of ChatGPT")
        return
    scope, times = owner.talk(session), Times(moment(told.get("create_time")))
    branch, at = [], told.get("current_node") or _last_node(mapping)
    seen: set[Any] = set()
    while isinstance(node := mapping.get(at), dict) and at not in seen:
        seen.add(at)
        branch.append(node)
        at = node.get("parent")
    for node in reversed(branch):
        said = node.get("message")
        if said is None:
            continue  # the root of every tree
        name = f"{place}, message {node.get('id')}"
        made = tried(name, _chatgpt_message, said, told)
        if isinstance(made, Msg):
            yield message_record(made, scope, times.next(moment(said.get("create_time"))))
        else:
            yield made
    for key, node in mapping.items():
        if key not in seen and isinstance(node, dict) and node.get("message") is not None:
            yield LeftOut(_OTHER_BRANCH)


def _last_node(mapping: Mapping[str, Any]) -> str | None:
    """The newest leaf of a tree that does not say which one was shown."""
    leaves = [key for key, node in mapping.items() if isinstance(node, dict) and not node.get("children")]
    return max(
        leaves, key=lambda key: (mapping[key].get("message") or {}).get("create_time") or 0, default=None
    )


def _chatgpt_message(said: dict[str, Any], conversation: dict[str, Any]) -> Msg | LeftOut:
    author, more = said["author"], said.get("metadata") or {}
    content = _chatgpt_content(said["content"])
    if not content:
        return LeftOut(_EMPTY)
    metadata = {"title": conversation.get("title"), "model": more.get("model_slug")}
    kept = {name: value for name, value in metadata.items() if value}
    return make_message(said["id"], author["role"], content, kept, author.get("name"))


def _chatgpt_content(content: dict[str, Any]) -> Any:
    """The content of a message: a text, or blocks; nothing where nothing was said."""
    kind = content["content_type"]
    if kind in ("text", "multimodal_text"):
        blocks = [block for part in content.get("parts") or () if (block := _chatgpt_part(part))]
    elif kind == "thoughts":
        thoughts = content.get("thoughts") or ()
        texts = ["\n".join(filter(None, (each.get("summary"), each.get("content")))) for each in thoughts]
        blocks = [{"type": "thinking", "thinking": text} for text in texts if text]
    elif isinstance(text := content.get("text") or content.get("result") or content.get("content"), str):
        blocks = [{"type": "text", "text": text}] if text.strip() else []
    else:
        rest = {name: value for name, value in content.items() if name != "content_type" and value}
        blocks = [{"type": kind, **rest}] if rest else []
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _chatgpt_part(part: Any) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part} if part.strip() else None
    if not isinstance(part, dict):
        return None
    if isinstance(text := part.get("text"), str):
        return {"type": "text", "text": text} if text.strip() else None
    if isinstance(pointer := part.get("asset_pointer"), str):
        return {"type": "image", "source": {"type": "url", "url": pointer}}
    return {"type": str(part.get("content_type") or "unknown"), "part": part}


# --- Claude


def _claude_messages(told: dict[str, Any], place: str, owner: Owner) -> Iterator[Item]:
    messages, session = told.get("chat_messages"), told.get("uuid")
    if not isinstance(messages, list) or not isinstance(session, str):
        yield Unreadable(place, "it has no `chat_messages` or no `uuid`, so it is no conversation of Claude")
        return
    scope, times = owner.talk(session), Times(moment(told.get("created_at")))
    for number, said in enumerate(messages, 1):
        made = tried(f"{place}, message {number}", _claude_message, said, told)
        if isinstance(made, Msg):
            yield message_record(made, scope, times.next(moment(said.get("created_at"))))
        else:
            yield made


def _claude_message(said: dict[str, Any], conversation: dict[str, Any]) -> Msg | LeftOut:
    role = {"human": "user"}.get(said["sender"], said["sender"])
    blocks = [_claude_block(block) for block in said.get("content") or ()]
    blocks = [block for block in blocks if block.get("text", True)]
    if not any(block["type"] == "text" for block in blocks) and said.get("text"):
        blocks.append({"type": "text", "text": said["text"]})
    attached = [each for name in ("attachments", "files") for each in said.get(name) or ()]
    if not blocks and not attached:
        return LeftOut(_EMPTY)
    metadata = {"title": conversation.get("name"), "attachments": attached}
    kept = {name: value for name, value in metadata.items() if value}
    content = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
    return make_message(said["uuid"], role, content, kept)


def _claude_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block as the chat face has it."""
    if block["type"] == "text":
        return {"type": "text", "text": block.get("text") or ""}
    if block["type"] == "thinking":
        return {"type": "thinking", "thinking": block.get("thinking") or ""}
    if block["type"] == "tool_use":
        told = {name: block.get(name) or "" for name in ("id", "name")}
        return {"type": "tool_use", **told, "input": block.get("input") or {}}
    if block["type"] == "tool_result":
        output = block.get("content")
        return {
            "type": "tool_result",
            "id": block.get("tool_use_id") or "",
            "name": block.get("name") or "",
            "output": output
            if isinstance(output, str)
            else [each for each in output or () if isinstance(each, dict)],
        }
    return dict(block)


# --- lines


async def read_chat_jsonl(source: Source, owner: Owner) -> Items:
    """Lines of `{"role", "content"}`; each file is a session. Times and ids are read if there are any."""
    files = find_files(source.file, "*.jsonl", "*.jsonl.gz")
    if not files:
        raise no_files(source.file, "*.jsonl")
    for path, inside, shown in files:
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        session = PurePosixPath(inside or shown).name.partition(".")[0]
        scope, times = owner.talk(session), Times()
        with open_binary(path, inside) as file:
            for place, number, line in lines_of(file, shown):
                if isinstance(line, Unreadable):
                    yield line
                    continue
                made = tried(place, _line_message, line, session, number)
                if isinstance(made, Msg):
                    given = moment(line.get("timestamp", line.get("created_at")))
                    yield message_record(made, scope, times.next(given or written))
                else:
                    yield made


def _line_message(line: Any, session: str, number: int) -> Msg:
    if not isinstance(line, dict):
        raise TypeError('it is no message such as {"role": "user", "content": "hello"}')
    [message] = read_messages([line], speaker="user", metadata=None)
    known = (
        "role",
        "content",
        "name",
        "id",
        "timestamp",
        "created_at",
        "tool_calls",
        "tool_call_id",
        "metadata",
    )
    metadata = line.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    message.metadata = {**own, **{name: value for name, value in line.items() if name not in known}}
    given = line.get("id")
    message.id = given if isinstance(given, str) and given else stable_id("chat-jsonl", session, number)
    return message
