"""What a model answered, read as facts: repaired where it is plain what was meant."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

import msgspec

from octavo.errors import ModelError
from octavo.kernel.codec import EARLIEST
from octavo.kernel.model import utc
from octavo.layers.deciding import CATEGORIES, Layer, Verdict
from octavo.layers.llm_extractor_prompts import MOST_FACTS, sound

MOST_CHARACTERS = 2000  # of a fact; a statement is shorter
_LONGEST_REASON = 500
_LONGEST_ANSWER = 400_000
_MOST_FENCES = 20
_MOST_STARTS = 200  # places where JSON may begin; a hostile answer has one at every character

# What was begun and never closed goes to the end: looking for its end from each beginning would take for ever.
_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_NAMES = {
    "action": ("action", "operation", "decision", "操作", "动作"),
    "layer": ("layer", "memory_layer", "层"),
    "category": ("category", "type", "kind", "分类", "类别"),
    "content": ("content", "fact", "memory", "text", "statement", "内容", "事实"),
    "reason": ("reason", "why", "explanation", "原因", "理由"),
    "target": ("target", "target_id", "memory_id", "id", "目标"),
    "happened_at": ("happened_at", "time", "date", "when", "时间"),
}
_ACTIONS: dict[str, Verdict] = {
    **dict.fromkeys(("insert", "add", "create", "new", "store", "新增", "插入", "添加"), "insert"),
    **dict.fromkeys(("update", "modify", "change", "replace", "supersede", "merge", "更新", "修改"), "update"),
    **dict.fromkeys(("ignore", "skip", "none", "noop", "duplicate", "known", "忽略", "跳过"), "ignore"),
}  # fmt: skip
_CATEGORIES = {
    **{name: name for names in CATEGORIES.values() for name in names},
    **dict.fromkeys(("preferences", "like", "likes", "hobby", "hobbies", "interest", "interests", "偏好", "爱好", "兴趣"), "preference"),
    **dict.fromkeys(("abilities", "skill", "skills", "language", "能力", "技能"), "ability"),
    **dict.fromkeys(("job", "work", "occupation", "profession", "职业", "工作"), "career"),
    **dict.fromkeys(("school", "degree", "study", "academic", "教育", "学历"), "education"),
    **dict.fromkeys(("character", "trait", "traits", "temperament", "性格"), "personality"),
    **dict.fromkeys(("values", "belief", "beliefs", "价值观"), "value"),
    **dict.fromkeys(("chat", "discussion", "dialogue", "talk", "对话", "讨论"), "conversation"),
    **dict.fromkeys(("meetings", "appointment", "会议"), "meeting"),
    **dict.fromkeys(("actions", "activity", "behavior", "behaviour", "行为", "行动"), "action"),
    **dict.fromkeys(("decisions", "choice", "plan", "决策", "决定"), "decision"),
    **dict.fromkeys(("events", "事件", "活动"), "event"),
    **dict.fromkeys(("others", "misc", "其他", "其它"), "other"),
}  # fmt: skip
_LAYERS: dict[str, Layer] = {
    **dict.fromkeys(("profile", "profiles", "profile_memory", "画像", "画像层"), "profile"),
    **dict.fromkeys(("event", "events", "episode", "episodes", "event_memory", "事件", "事件层"), "event"),
}  # fmt: skip


class ModelFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as far as the model said it; what is None it did not say, or nobody can tell what it meant."""

    content: str
    action: Verdict | None = None
    layer: Layer | None = None
    category: str | None = None
    reason: str = ""
    target: str | None = None
    happened_at: datetime | None = None


def facts_of(answer: str, at: datetime) -> tuple[list[ModelFact], int]:
    """The facts of an answer and how many were too many, or ModelError that says what is wrong with it.

    Times without a zone are of the zone of `at`.
    """
    listed = _listed(answer)
    found = [fact for each in listed[: MOST_FACTS * 4] if (fact := _fact(each, at)) is not None]
    if listed and not found:
        raise ModelError('no entry of "facts" has a "content" that is text')
    return found[:MOST_FACTS], max(0, len(listed) - MOST_FACTS)


def layer_of(category: str) -> Layer:
    """The layer of a category; no category is in both."""
    return next(layer for layer, names in CATEGORIES.items() if category in names)


def _listed(answer: str) -> list[Any]:
    """The list of facts, wherever in the answer it stands."""
    if len(answer) > _LONGEST_ANSWER:
        raise ModelError("it is too long")
    spoken = _THINKING.sub("", answer)
    if not spoken.strip():
        raise ModelError("it is empty")
    wrong = "it is no JSON"
    for value in _whole(spoken):
        if (facts := _facts_in(value)) is not None:
            return facts
        wrong = 'it has no list "facts"'
    loose: list[Any] = []
    for value, broken in _inside(_without_trailing_commas(spoken)):
        if isinstance(value, dict) and isinstance(facts := value.get("facts"), list):
            return facts
        if broken:  # a fact inside of something cut short: those after it would be lost without a word
            continue
        loose += _facts_in(value) or []
    if loose:
        return loose
    raise ModelError(wrong)


def _facts_in(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        # A list of something else, such as a remark in brackets, is no answer; an empty one says that there is nothing.
        return value if all(isinstance(each, dict) for each in value) else None
    if not isinstance(value, dict):
        return None
    facts = value.get("facts")
    if isinstance(facts, list):
        return facts
    if isinstance(facts, dict):
        return [facts]
    if isinstance(_field(value, "content"), str):
        return [value]
    lists = [each for each in value.values() if isinstance(each, list)]
    return lists[0] if len(lists) == 1 and all(isinstance(each, dict) for each in lists[0]) else None


def _whole(spoken: str) -> Iterator[Any]:
    """What the answer says as a whole, or in a fence."""
    fenced = (match[1] for match in islice(_FENCED.finditer(spoken), _MOST_FENCES))
    for text in chain((spoken,), fenced):
        for spelling in (text, _without_trailing_commas(text)):
            try:
                yield json.loads(spelling, strict=False)
                break
            except (ValueError, RecursionError):
                continue


def _inside(text: str) -> Iterator[tuple[Any, bool]]:
    """Values that stand between other words, and whether something before them was begun and never came to an end."""
    decoder = json.JSONDecoder(strict=False)
    at, broken = 0, False
    for _ in range(_MOST_STARTS):
        start = min((found for mark in "{[" if (found := text.find(mark, at)) >= 0), default=-1)
        if start < 0:
            return
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at, broken = start + 1, True
        else:
            yield value, broken


def _without_trailing_commas(text: str) -> str:
    """The text without commas before a closing bracket, which JSON forbids and models write."""
    return _STRING_OR_COMMA.sub(lambda match: match[1] or "", text)


def _fact(given: Any, at: datetime) -> ModelFact | None:
    if isinstance(given, str):
        given = {"content": given}
    if not isinstance(given, Mapping):
        return None
    content = _plain(_field(given, "content"), MOST_CHARACTERS)
    if not content:
        return None
    target = _field(given, "target")
    return ModelFact(
        content=content,
        action=_ACTIONS.get(_word(_field(given, "action"))),
        layer=_LAYERS.get(_word(_field(given, "layer"))),
        category=_CATEGORIES.get(_word(_field(given, "category"))),
        reason=_plain(_field(given, "reason"), _LONGEST_REASON),
        target=target.strip() if isinstance(target, str) else None,
        happened_at=_moment(_field(given, "happened_at"), at),
    )


def _field(given: Mapping[str, Any], name: str) -> Any:
    return next((given[each] for each in _NAMES[name] if given.get(each) is not None), None)


def _word(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _plain(value: Any, most: int) -> str:
    """One line that any store takes and that is no longer than this."""
    if not isinstance(value, str):
        return ""
    line = sound(" ".join(_CONTROL.sub(" ", value).split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _moment(value: Any, at: datetime) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        moment = utc(moment if moment.tzinfo is not None else moment.replace(tzinfo=at.tzinfo or UTC))
    except (ValueError, OverflowError):  # no time, or one that is before the first year in UTC
        return None
    return moment if moment >= EARLIEST else None  # no store keeps an earlier one
