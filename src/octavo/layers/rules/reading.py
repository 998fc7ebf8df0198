"""The facts of a text about its owner, in Chinese or English, sentence by sentence."""

import re
from collections.abc import Generator
from datetime import datetime

from octavo.layers.rules.chinese import read_chinese
from octavo.layers.rules.context import Context
from octavo.layers.rules.english import read_english
from octavo.layers.rules.facts import Fact, has_han
from octavo.layers.rules.sentences import MOST_CHARACTERS, Sentence, own_words, sentences
from octavo.layers.values import OwnerType
from octavo.util.turns import at_once

MOST_FACTS = 200  # of one text; a text with more is a list of something else
MOST_SENTENCES = 2000  # of one text; in 20,000 characters there are more only if nobody wrote them
_EMPTY_LINES = re.compile(r"\n\s*\n")
_FORMER = re.compile(
    r"以前|曾经|曾(?=是|在|做|当|任)|从前|过去是|原来是|\b(?:used to|formerly|previously|was an?|were an?)\b",
    re.IGNORECASE,
)
_PART = re.compile("[^，,]+[，,]?")
_LATER_EN = re.compile(r"\s*(?:and |but )?(?:i|i'm|i've|my|we)\s[^\u3400-\u9fff]+$", re.IGNORECASE)
_FORMERLY_MANY = ("like:", "is:", "has:", "can:", "habit:")
_FORMERLY = ("occupation", "employer", "residence", "workplace", "work", "leads")


def read(text: str, owner_type: OwnerType, at: datetime) -> list[Fact]:
    """What the text says of its owner that is worth keeping, in the order of the text."""
    return at_once(reading(text, owner_type, at))


def reading(text: str, owner_type: OwnerType, at: datetime) -> Generator[None, None, list[Fact]]:
    """`read` in steps: about a sentence each."""
    text = own_words(_EMPTY_LINES.sub("\n\n", text[:MOST_CHARACTERS]), owner_type)
    yield
    context = Context.of(text, owner_type, at)
    found: list[Fact] = []
    for number, whole in enumerate(sentences(text)):
        yield
        if number >= MOST_SENTENCES or len(found) >= MOST_FACTS:
            break
        for sentence in _by_language(whole):
            read_one = read_chinese if has_han(sentence.text) else read_english
            found += read_one(sentence, context)
    return [_as_former(fact) for fact in found[:MOST_FACTS] if fact.content]


def _by_language(sentence: Sentence) -> list[Sentence]:
    """The sentence in parts of one language each: 我叫Tom，I'm from London."""
    parts = _PART.findall(sentence.text) if has_han(sentence.text) else [sentence.text]
    joined: list[str] = []
    for part in parts:
        if joined and (_LATER_EN.match(part) is None) == (_LATER_EN.match(joined[-1]) is None):
            joined[-1] += part
        else:
            joined.append(part)
    return [Sentence(part.strip(" ，,"), sentence.asks and part is joined[-1]) for part in joined]


def _as_former(fact: Fact) -> Fact:
    """What was so once is not what is so now: it must not supersede it."""
    if not fact.slots or not _FORMER.search(fact.content):
        return fact
    return fact._replace(slots=dict(_former_slot(key, value) for key, value in fact.slots.items()))


def _former_slot(key: str, value: str) -> tuple[str, str]:
    if key in _FORMERLY:
        return f"former {key}:{value}", "yes"
    return (f"former {key}", value) if key.startswith(_FORMERLY_MANY) else (key, value)
