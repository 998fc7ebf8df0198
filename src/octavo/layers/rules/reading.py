"""The facts of a text about its owner, in Chinese or English, sentence by sentence."""

import re
from datetime import datetime

from octavo.layers.deciding import OwnerType
from octavo.layers.rules.facts import Fact, has_han
from octavo.layers.rules.reading_en import read_en
from octavo.layers.rules.reading_zh import read_zh
from octavo.layers.rules.splitting import sentences
from octavo.layers.rules.telling import Telling

MOST_FACTS = 200  # of one text; a text with more is a list of something else
_FORMER = re.compile(
    r"以前|曾经|曾(?=是|在|做|当|任)|从前|过去是|原来是|\b(?:used to|formerly|previously|was an?|were an?)\b",
    re.IGNORECASE,
)
_FORMERLY = ("occupation", "employer", "residence", "workplace", "work", "leads")


def read(text: str, owner_type: OwnerType, at: datetime) -> list[Fact]:
    """What the text says of its owner that is worth keeping, in the order of the text."""
    telling = Telling.of(text, owner_type, at)
    found: list[Fact] = []
    for sentence in sentences(text):
        found += read_zh(sentence, telling) if has_han(sentence.text) else read_en(sentence, telling)
        if len(found) >= MOST_FACTS:
            break
    return [_formerly(fact) for fact in found[:MOST_FACTS] if fact.content]


def _formerly(fact: Fact) -> Fact:
    """What was so once is not what is so now: it must not supersede it."""
    if not fact.slots or not _FORMER.search(fact.content):
        return fact
    slots = {(f"former {key}:{value}" if key in _FORMERLY else key): ("yes" if key in _FORMERLY else value) for key, value in fact.slots.items()}  # fmt: skip
    return fact._replace(slots=slots)
