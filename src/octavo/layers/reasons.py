"""Why something was done, for callers who do not say: a sentence in the language of the content."""

import re
from datetime import datetime

from octavo.kernel.text import lazy_pattern, spell
from octavo.layers.values import Layer, State

_HAN = lazy_pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_LATIN = re.compile(r"[A-Za-z]")
_LAYERS = {"profile": "画像", "event": "事件"}
_CATEGORIES = {
    "preference": "偏好", "ability": "能力", "career": "职业", "education": "教育", "personality": "性格", "value": "价值观",
    "conversation": "对话", "meeting": "会议", "action": "行为", "decision": "决策", "event": "事件", "other": "其他",
}  # fmt: skip
#: Why a fact of a text was kept, changed something or was left out, by what it is beside the memory nearest to it.
_COMPARED = {
    "zh": {
        "first": "新的{kind}信息“{new}”，此前没有任何记忆。",
        "new": "新的{kind}信息“{new}”，与已有的{compared}条记忆比较后没有相同的内容。",
        "same": "“{new}”与已有记忆“{old}”说的是同一件事。",
        "vaguer": "已有记忆“{old}”比“{new}”更具体，无需更改。",
        "finer": "“{new}”比已有记忆“{old}”更具体，以新的为准。",
        "denied": "“{new}”与已有记忆“{old}”相反，以新的说法为准。",
        "changed": "{kind}信息有变化：已有记忆为“{old}”，现在为“{new}”。",
        "ended": "“{new}”，所以已有记忆“{old}”不再成立。",
    },
    "en": {
        "first": 'New {kind}: "{new}"; there were no memories yet.',
        "new": 'New {kind}: "{new}"; memories compared: {compared}, none says it.',
        "same": '"{new}" says the same as the memory "{old}".',
        "vaguer": 'The memory "{old}" says more than "{new}", so nothing changes.',
        "finer": '"{new}" says more than the memory "{old}" and takes its place.',
        "denied": '"{new}" is the opposite of the memory "{old}"; what was said last counts.',
        "changed": 'The {kind} changed: the memory was "{old}", now it is "{new}".',
        "ended": '"{new}", so the memory "{old}" no longer holds.',
    },
}
#: Why a memory was changed by hand, or was not.
_SENTENCES = {
    "inserted": ("直接存入{layer}层，类别为“{category}”。", "Stored directly in the {layer} layer as {category}."),
    "repeated": ("与现有记忆相同，无需更改。", "The memory already says so; nothing changed."),
    "deleted": ("应要求删除。", "Removed on request."),
    "rejected": ("该信息此前已被拒绝，不再记录。", "This was rejected, and is not learnt again."),  # without the fact
    "expired": ("已于{when}过期。", "Expired at {when}."),
    "undone insert": ("撤销此前的新增（{reason}）", "Undid the addition: {reason}"),
    "undone update": ("撤销此前的更改（{reason}）", "Undid the change: {reason}"),
    "undone delete": ("撤销此前的删除（{reason}）", "Undid the removal: {reason}"),
    "undone expire": ("撤销此前的过期（{reason}）", "Undid the expiry: {reason}"),
}  # fmt: skip
_QUOTED = 60  # characters of a content that are quoted
_QUOTED_BESIDE = 80  # the same, of two contents that were compared
_READ = 1000  # characters by which the language of a content is known


def is_chinese(text: str) -> bool:
    """Whether a text is Chinese rather than a Western language with a Chinese name in it, by how it begins."""
    text = text[:_READ]
    return len(_HAN.findall(text)) * 3 >= max(len(_LATIN.findall(text)), 1)


def say(what: str, content: str, **words: str) -> str:
    """One of the sentences, about a memory that has this content."""
    return _SENTENCES[what][0 if is_chinese(content) else 1].format(**words)


def describe_insert(content: str, layer: Layer, category: str) -> str:
    """Why there is a new memory that nobody gave a reason for."""
    zh = is_chinese(content)
    return say("inserted", content, layer=_LAYERS[layer] if zh else layer, category=_category(category, zh))


def describe_update(before: State, after: State) -> str:
    """What a change changed."""
    zh = is_chinese(after.content)
    changes = []
    if before.content != after.content:
        old, new = _quote(before.content), _quote(after.content)
        changes.append(f"内容由“{old}”改为“{new}”" if zh else f'the content changed from "{old}" to "{new}"')
    if before.category != after.category:
        old, new = _category(before.category, zh), _category(after.category, zh)
        changes.append(f"类别由“{old}”改为“{new}”" if zh else f"the category changed from {old} to {new}")
    if spell(before.metadata) != spell(after.metadata):  # to Python, 1 == True
        changes.append("元数据已更改" if zh else "the metadata changed")
    if (before.expires_at, _is_permanent(before)) != (after.expires_at, _is_permanent(after)):
        changes.append(_describe_ending(after, zh))
    if not changes:
        return "记忆已更改。" if zh else "The memory changed."
    if zh:
        return "；".join(changes) + "。"
    sentence = "; ".join(changes)
    return f"{sentence[0].upper()}{sentence[1:]}."


def describe_expiry(content: str, at: datetime) -> str:
    """Why a memory is over."""
    return say("expired", content, when=_moment(at))


def describe_undo(content: str, action: str, reason: str) -> str:
    """Why a change was taken back."""
    return say(f"undone {action}", content, reason=_quote(reason))


def _moment(at: datetime) -> str:
    return at.isoformat(sep=" ", timespec="seconds")


def _is_permanent(state: State) -> bool:
    return bool(state.data.get("is_permanent"))


def _describe_ending(state: State, zh: bool) -> str:
    if state.expires_at is not None:
        when = _moment(state.expires_at)
        return f"改为于{when}过期" if zh else f"it now expires at {when}"
    if _is_permanent(state):
        return "改为永久保存" if zh else "it is now kept for ever"
    return "不再有过期时间" if zh else "it no longer has a date of expiry"


def _category(name: str, zh: bool) -> str:
    return _CATEGORIES.get(name, name) if zh else name


def describe_comparison(kind: str, new: str, old: str, likeness: str, known: int, *, zh: bool) -> str:
    """Why a fact of this category was decided so, after it was compared with `known` memories."""
    sentence = _COMPARED["zh" if zh else "en"]["first" if likeness == "new" and not known else likeness]
    new, old = (_quote(" ".join(text.split()), _QUOTED_BESIDE) for text in (new, old))
    return sentence.format(kind=_category(kind, zh), new=new, old=old, compared=known)


def _quote(text: str, most: int = _QUOTED) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
