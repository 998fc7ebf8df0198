"""Whom an English clause speaks of: the owner of the memory, somebody else, or whoever was spoken of before."""

import re
from functools import lru_cache
from typing import NamedTuple

from octavo.layers.deciding import OwnerType
from octavo.layers.rules import lexicon_en as en
from octavo.layers.rules.telling import Telling
from octavo.layers.rules.times import times

_I = re.IGNORECASE
_FILLER = re.compile(rf"(?:{en.FILLERS})\b[,:]?\s+", _I)
ADVERB = re.compile(rf"(?:{en.ADVERBS})\b,?\s+", _I)
_OTHER_SUBJECT = re.compile(rf"(?:he|she|they|you|it|this|that|there|these|those|everyone|everybody|someone|nobody|people|who|his|her|their|your|its|him|an? (?:{en.RELATIONS})|(?:the )?(?:{en.RELATIONS}))\b", _I)  # fmt: skip
_NARRATOR = re.compile(r"(?:i|we|my|our)\b", _I)


class Subject(NamedTuple):
    """Who a clause speaks of (None: it does not say), and where that is written."""

    owner: bool | None
    start: int
    end: int
    possessive: bool = False


def fillers(clause: str) -> int:
    """Where a clause begins after the words that only lead to it."""
    at = 0
    while match := _FILLER.match(clause, at):
        at = match.end()
    return at


def skipped(clause: str, at: int, telling: Telling, *, leading: bool = False) -> int:
    """Where a clause goes on after the adverbs, and the times and fillers if they lead it, that stand at `at`."""
    spans = {when.start: when.end for when in times(clause, telling.at)} if leading else {}
    while at < len(clause):
        match = (_FILLER.match(clause, at) if leading else None) or ADVERB.match(clause, at)
        end = max(spans.get(at, at), match.end() if match else at)
        if end == at:
            return at
        at = end
        while at < len(clause) and clause[at] in " ,":
            at += 1
    return at


@lru_cache(maxsize=16)
def _owner(
    owner_type: OwnerType, narrated: bool, pronoun: bool
) -> tuple["re.Pattern[str]", "re.Pattern[str]"]:
    """The patterns of what is the owner's, and of the owner."""
    if owner_type == "agent":
        names, owns = (
            "i|we|you|the agent|the assistant|this agent|agent|assistant",
            "my|our|your|the agent's|the assistant's",
        )
    elif narrated:
        names, owns = "the user|this user|our user|user", "the user's|user's"
    else:
        names, owns = "i|we|the user", "my|our|the user's"
    if pronoun:
        # Of one user "they" may be said; where nobody was named, they are several.
        more = ("|they", "|their") if narrated else ("", "")
        names, owns = f"{names}|he|she{more[0]}", f"{owns}|his|her{more[1]}"
    return re.compile(rf"(?:{owns})(?= )", _I), re.compile(rf"(?:{names})(?= |$)", _I)


def subject(clause: str, telling: Telling) -> Subject:
    """Whom the clause speaks of."""
    at = skipped(clause, 0, telling, leading=True)
    # A pronoun is the owner unless the text says "I" for the owner, or has just spoken of somebody else.
    pronoun = telling.focus and not (telling.first_person and not telling.narrated)
    owned, owner = _owner(telling.owner_type, telling.narrated, pronoun)
    if match := owned.match(clause, at):
        return Subject(True, at, match.end(), possessive=True)
    if match := owner.match(clause, at):
        return Subject(True, at, match.end())
    if match := _OTHER_SUBJECT.match(clause, at) or (
        _NARRATOR.match(clause, at) if telling.narrated else None
    ):
        return Subject(False, at, match.end())
    return Subject(None, at, at)
