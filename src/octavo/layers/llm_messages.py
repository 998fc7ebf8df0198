"""What a model is told, in the language of the text, and its answer read as facts, repaired where it is plain what was meant."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from octavo.errors import ModelError
from octavo.kernel.codec import EARLIEST
from octavo.kernel.model import to_utc
from octavo.kernel.terms.terms import terms
from octavo.kernel.text import fold
from octavo.layers.reasons import is_chinese
from octavo.layers.values import CATEGORIES, LAYERS, Known, Layer, OwnerType, Verdict

Language: TypeAlias = Literal["zh", "en"]

MOST_FACTS = 50  # of one answer
TEXT_CHARACTERS = 20_000  # of a text; the rules read no more of it either
SHOWN_CHARACTERS = 1000  # of a memory; enough to tell whether a fact repeats it
MOST_CHARACTERS = 2000  # of a fact; a statement is shorter
_LONGEST_REASON = 500
_LONGEST_ANSWER = 400_000
_MOST_STARTS = 200  # positions where JSON may begin; a hostile answer has one at every character

# What was begun and never closed goes to the end: looking for its end from each beginning would take for ever.
_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
_MARKS = re.compile(r"[\W_]+")
_OMITTED = re.compile(r"\.{3,}|…")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LAYER_OF: dict[str, Layer] = {category: layer for layer, names in CATEGORIES.items() for category in names}

_FACT: dict[str, Any] = {
    "action": {"type": "string", "enum": list(get_args(Verdict))},
    "layer": {"type": "string", "enum": list(CATEGORIES)},
    "category": {"type": "string", "enum": [each for names in CATEGORIES.values() for each in names]},
    "content": {"type": "string"},
    "quote": {"type": "string"},
    "reason": {"type": "string"},
    "target": {"type": ["string", "null"]},
    "happened_at": {"type": ["string", "null"]},
}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """A strict schema may leave no property out and allow no other; servers refuse it otherwise."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA = _object({"facts": {"type": "array", "items": _object(_FACT)}})

_OWNERS: dict[Language, dict[OwnerType, str]] = {
    "en": {"user": "user", "agent": "agent"},
    "zh": {"user": "用户", "agent": "智能体"},
}
_EXAMPLES: dict[Language, dict[str, Any]] = {
    "en": {
        "content": "The {owner} is a nurse",
        "quote": "I work as a nurse",
        "reason": "A career that was not known.",
    },
    "zh": {"content": "{owner}是一名护士", "quote": "我是护士", "reason": "新的职业信息。"},
}
_AGAIN: dict[Language, str] = {
    "en": "That answer cannot be used: {wrong}. Answer again, with the one JSON object and nothing else.",
    "zh": "这个回答无法使用：{wrong}。请重新回答，只写一个 JSON 对象。",
}
#: What stands in the log when the model gave no reason.
REASONS: dict[Language, dict[Verdict, str]] = {
    "en": {
        "insert": "The text states it, and it was not known.",
        "update": "The text changes what was known.",
        "ignore": "It is known already.",
    },
    "zh": {
        "insert": "文本中提到的新信息。",
        "update": "文本改变了已有的信息。",
        "ignore": "已有相同的记忆。",
    },
}


@cache
def _system(language: Language) -> str:
    """What a model is told before it sees any data."""
    folder = resources.files(__package__).joinpath("prompts")
    return folder.joinpath(f"extract_{language}.txt").read_text("utf-8").strip()


def language_of(text: str) -> Language:
    """The language to ask in, which is also that of the reasons."""
    return "zh" if is_chinese(text) else "en"


def nearest(text: str, known: Sequence[Known], most: int) -> list[Known]:
    """The memories that the text has most to do with, in the order they came in."""
    if len(known) <= most:
        return list(known)
    asked = set(terms(text[:TEXT_CHARACTERS]))
    alike = [len(asked.intersection(terms(each.content[:SHOWN_CHARACTERS]))) for each in known]
    best = sorted(range(len(known)), key=lambda at: (-alike[at], known[at].layer != "profile", at))[:most]
    return [known[at] for at in sorted(best)]


def question(
    text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime
) -> list[dict[str, str]]:
    """The messages that ask for the facts of a text."""
    language = language_of(text)
    owner = _OWNERS[language][owner_type]
    example = {
        "action": "insert",
        "layer": "profile",
        "category": "career",
        **{name: words.format(owner=owner) for name, words in _EXAMPLES[language].items()},
        "target": None,
        "happened_at": None,
    }
    system = _system(language).format(
        owner=owner,
        profile=", ".join(CATEGORIES["profile"]),
        event=", ".join(CATEGORIES["event"]),
        most=MOST_FACTS,
        example=json.dumps({"facts": [example]}, ensure_ascii=False),
    )
    fields = ("id", "layer", "category", "content")
    memories = [{name: getattr(each, name)[:SHOWN_CHARACTERS] for name in fields} for each in known]
    asked = text[:TEXT_CHARACTERS]
    data = json.dumps({"now": at.isoformat(), "memories": memories, "text": asked}, ensure_ascii=False)
    # No text can close the fence or open another: outside of this escape there is no < between the marks.
    data = data.replace("<", "\\u003c").replace(">", "\\u003e")
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": f"<data>\n{drop_surrogates(data)}\n</data>"},
    ]


def ask_again(answer: str, wrong: str, text: str) -> list[dict[str, str]]:
    """The messages that go on after an answer of no use."""
    return [
        {"role": "assistant", "content": drop_surrogates(answer)},
        {"role": "user", "content": _AGAIN[language_of(text)].format(wrong=wrong)},
    ]


def drop_surrogates(text: str) -> str:
    """The text without halves of surrogate pairs, which neither HTTP nor any store takes."""
    return text.encode("utf-8", "replace").decode()


# --- answers


class ModelFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as far as the model said it; what is None it did not say, or nobody can tell what it meant."""

    content: str
    quote: str = ""
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
    if len(answer) > _LONGEST_ANSWER:
        raise ModelError("it is too long")
    spoken = _THINKING.sub("", answer)
    if not spoken.strip():
        raise ModelError("it is empty")
    # Commas before a closing bracket are forbidden in JSON, and models write them.
    listed = _find_list(spoken) or _find_list(_STRING_OR_COMMA.sub(lambda match: match[1] or "", spoken))
    if listed is None:
        raise ModelError('it has no JSON with a list "facts"')
    found = [fact for each in listed[: MOST_FACTS * 4] if (fact := _fact(each, at)) is not None]
    if listed and not found:
        raise ModelError('no entry of "facts" has a "content" that is text')
    return found[:MOST_FACTS], max(0, len(listed) - MOST_FACTS)


def keep_quoted(facts: Sequence[ModelFact], text: str) -> list[ModelFact]:
    """The facts whose quote stands in the text; ModelError when there are facts and none quotes anything.

    A model may make a fact up, or repeat the example of the prompt: what nobody wrote is not kept.
    """
    if facts and not any(fact.quote for fact in facts):
        raise ModelError('no entry of "facts" has a "quote" that is copied from the text')
    said = _letters(text[:TEXT_CHARACTERS])
    return [fact for fact in facts if _stands_in(fact.quote, said) and not _is_example(fact, said)]


def _stands_in(quote: str, said: str) -> bool:
    """Whether each part of a quote, between its dots of omission, stands in the text."""
    parts = [letters for part in _OMITTED.split(quote) if (letters := _letters(part))]
    return sum(map(len, parts)) > 1 and all(part in said for part in parts)


def _is_example(fact: ModelFact, said: str) -> bool:
    """Whether it is the example of the prompt, told of a text that does not speak of it."""
    content = _letters(fact.content)
    for language, example in _EXAMPLES.items():
        told = (example["content"].format(owner=owner) for owner in _OWNERS[language].values())
        if content in map(_letters, told) and not any(word in said for word in ("nurse", "护士")):
            return True
    return False


def _letters(text: str) -> str:
    """The letters and digits of a text, whatever its case, width and punctuation."""
    return _MARKS.sub("", fold(text))


def _find_list(spoken: str) -> list[Any] | None:
    """The list of facts, wherever in the answer it stands; or else the facts that stand there one by one."""
    loose: list[Any] = []
    for value, broken in _values(spoken):
        if isinstance(value, dict) and isinstance(facts := value.get("facts"), list):
            return facts
        if not broken:  # a fact inside of something cut short: those after it would be lost without a word
            loose += _facts_in(value)
    return loose or None


def _facts_in(value: Any) -> list[Any]:
    """A fact, or the list of facts under another name or none; a list of something else is a remark in brackets."""
    if isinstance(value, dict):
        if isinstance(value.get("content"), str):
            return [value]
        inner = [each for each in value.values() if isinstance(each, list | dict)]
        value = inner[0] if len(inner) == 1 else None
        if isinstance(value, dict):
            value = [value]
    return value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []


def _values(text: str) -> Iterator[tuple[Any, bool]]:
    """The JSON values that stand between other words, and whether something before them was begun and never ended."""
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


def _fact(given: Any, at: datetime) -> ModelFact | None:
    """One entry of the list, or None when it says nothing."""
    if not isinstance(given, Mapping) or not (content := _plain(given.get("content"), MOST_CHARACTERS)):
        return None
    category = _one_of(given.get("category"), list(_LAYER_OF))
    target = given.get("target")
    return ModelFact(
        content=content,
        quote=_plain(given.get("quote"), MOST_CHARACTERS),
        action=_one_of(given.get("action"), get_args(Verdict)),
        # A category is of one layer only, so it decides when both are said and do not fit.
        layer=_LAYER_OF[category] if category else _one_of(given.get("layer"), LAYERS),
        category=category,
        reason=_plain(given.get("reason"), _LONGEST_REASON),
        target=target.strip() if isinstance(target, str) else None,
        happened_at=_moment(given.get("happened_at"), at),
    )


def _one_of(value: Any, known: Sequence[Any]) -> Any:
    word = value.strip().lower() if isinstance(value, str) else None
    return word if word in known else None


def _plain(value: Any, most: int) -> str:
    """One line that any store takes and that is no longer than this."""
    if not isinstance(value, str):
        return ""
    line = drop_surrogates(" ".join(_CONTROL.sub(" ", value).split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _moment(value: Any, at: datetime) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        moment = to_utc(moment if moment.tzinfo is not None else moment.replace(tzinfo=at.tzinfo or UTC))
    except (ValueError, OverflowError):  # no time, or one that is before the first year in UTC
        return None
    return moment if moment >= EARLIEST else None  # no store keeps an earlier one
