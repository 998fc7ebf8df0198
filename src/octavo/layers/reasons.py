"""Why something was done, for callers who do not say: a sentence in the language of the content."""

import re
from datetime import datetime

from octavo.kernel.text import spell
from octavo.layers.deciding import Layer
from octavo.layers.values import State

_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_LATIN = re.compile(r"[A-Za-z]")
_LAYERS = {"profile": "画像", "event": "事件"}
_CATEGORIES = {
    "preference": "偏好", "ability": "能力", "career": "职业", "education": "教育", "personality": "性格", "value": "价值观",
    "conversation": "对话", "meeting": "会议", "action": "行为", "decision": "决策", "event": "事件", "other": "其他",
}  # fmt: skip
_SHOWN = 60  # characters of a content that are quoted
_TOLD = 1000  # characters that tell the language of a content


def chinese(text: str) -> bool:
    """Whether a text is Chinese rather than a Western language with a Chinese name in it, by how it begins."""
    text = text[:_TOLD]
    return len(_HAN.findall(text)) * 3 >= max(len(_LATIN.findall(text)), 1)


def inserted(content: str, layer: Layer, category: str) -> str:
    """Why there is a new memory that nobody gave a reason for."""
    if chinese(content):
        return f"直接存入{_LAYERS[layer]}层，类别为“{_CATEGORIES[category]}”。"
    return f"Stored directly in the {layer} layer as {category}."


def updated(before: State, after: State) -> str:
    """What a change changed."""
    zh = chinese(after.content)
    said = []
    if before.content != after.content:
        old, new = _quoted(before.content), _quoted(after.content)
        said.append(f"内容由“{old}”改为“{new}”" if zh else f'the content changed from "{old}" to "{new}"')
    if before.category != after.category:
        old, new = _category(before.category, zh), _category(after.category, zh)
        said.append(f"类别由“{old}”改为“{new}”" if zh else f"the category changed from {old} to {new}")
    if spell(before.metadata) != spell(after.metadata):  # to Python, 1 == True
        said.append("元数据已更改" if zh else "the metadata changed")
    if (before.expires_at, _permanent(before)) != (after.expires_at, _permanent(after)):
        said.append(_kept(after, zh))
    if not said:
        return "记忆已更改。" if zh else "The memory changed."
    if zh:
        return "；".join(said) + "。"
    sentence = "; ".join(said)
    return f"{sentence[0].upper()}{sentence[1:]}."


def repeated(content: str) -> str:
    """Why a change was none."""
    return (
        "与现有记忆相同，无需更改。" if chinese(content) else "The memory already says so; nothing changed."
    )


def deleted(content: str) -> str:
    """Why a memory was forgotten."""
    return "应要求删除。" if chinese(content) else "Removed on request."


def expired(content: str, at: datetime) -> str:
    """Why a memory is over."""
    when = at.isoformat(sep=" ", timespec="seconds")
    return f"已于{when}过期。" if chinese(content) else f"Expired at {when}."


def undone(content: str, action: str, reason: str) -> str:
    """Why a change was taken back."""
    if chinese(content):
        words = {"insert": "新增", "update": "更改", "delete": "删除", "expire": "过期"}
        return f"撤销此前的{words[action]}（{_quoted(reason)}）"
    words = {"insert": "addition", "update": "change", "delete": "removal", "expire": "expiry"}
    return f"Undid the {words[action]}: {_quoted(reason)}"


def _permanent(state: State) -> bool:
    return bool(state.data.get("is_permanent"))


def _kept(state: State, zh: bool) -> str:
    if state.expires_at is not None:
        when = state.expires_at.isoformat(sep=" ", timespec="seconds")
        return f"改为于{when}过期" if zh else f"it now expires at {when}"
    if _permanent(state):
        return "改为永久保存" if zh else "it is now kept for ever"
    return "不再有过期时间" if zh else "it no longer has a date of expiry"


def _category(name: str, zh: bool) -> str:
    return _CATEGORIES.get(name, name) if zh else name


def _quoted(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
