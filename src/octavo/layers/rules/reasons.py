"""Why a fact was kept, changed something or was left out, in a sentence of the fact's language."""

from octavo.layers.rules.comparing import Match
from octavo.layers.rules.facts import Fact, has_han

_CATEGORIES_ZH = {
    "preference": "偏好", "ability": "能力", "career": "职业", "education": "教育", "personality": "性格", "value": "价值观",
    "conversation": "对话", "meeting": "会议", "action": "行为", "decision": "决策", "event": "事件", "other": "其他",
}  # fmt: skip
_LONGEST = 80  # characters of a memory that a reason quotes


def reason(fact: Fact, match: Match, compared: int) -> str:
    """The sentence for the log: what was compared, and what came of it."""
    old = _quoted(match.known.content) if match.known else ""
    new = _quoted(fact.content)
    if has_han(fact.content):
        return _chinese(fact, match, old, new, compared)
    return _english(fact, match, old, new, compared)


def _quoted(content: str) -> str:
    content = " ".join(content.split())
    return content if len(content) <= _LONGEST else content[:_LONGEST] + "…"


def _chinese(fact: Fact, match: Match, old: str, new: str, compared: int) -> str:
    kind = _CATEGORIES_ZH[fact.category]
    if match.likeness == "new":
        beside = f"与已有的{compared}条记忆比较后没有相同的内容" if compared else "此前没有任何记忆"
        return f"新的{kind}信息“{new}”，{beside}。"
    if match.likeness == "same":
        return f"“{new}”与已有记忆“{old}”说的是同一件事。"
    if match.likeness == "vaguer":
        return f"已有记忆“{old}”比“{new}”更具体，无需更改。"
    if match.likeness == "finer":
        return f"“{new}”比已有记忆“{old}”更具体，以新的为准。"
    if match.likeness == "denied":
        return f"“{new}”与已有记忆“{old}”相反，以新的说法为准。"
    return f"{kind}信息有变化：已有记忆为“{old}”，现在为“{new}”。"


def _english(fact: Fact, match: Match, old: str, new: str, compared: int) -> str:
    kind = fact.category
    if match.likeness == "new":
        beside = (
            f"none of the {compared} memories compared says it" if compared else "there were no memories yet"
        )
        return f'New {kind}: "{new}"; {beside}.'
    if match.likeness == "same":
        return f'"{new}" says the same as the memory "{old}".'
    if match.likeness == "vaguer":
        return f'The memory "{old}" says more than "{new}", so nothing changes.'
    if match.likeness == "finer":
        return f'"{new}" says more than the memory "{old}" and takes its place.'
    if match.likeness == "denied":
        return f'"{new}" is the opposite of the memory "{old}"; what was said last counts.'
    return f'The {kind} changed: the memory was "{old}", now it is "{new}".'
