"""What is over, or otherwise from now on: who sold the Golf no longer drives it, and a rent that went up was lower."""

import re
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from octavo.kernel.terms.english import STOP_WORDS, stem
from octavo.kernel.terms.terms import simplify, terms
from octavo.kernel.terms.topics import topics
from octavo.layers.rules.facts import CHINESE, COMMON, ENGLISH, StatedFact, has_han, words
from octavo.layers.rules.reading import KnownFact, KnownFacts

_OPPOSITES = ENGLISH.pairs("OPPOSITES") | CHINESE.pairs("OPPOSITES")
_CAPITALISED = re.compile(r"\b[A-Z][\w'-]*")
_SUBJECT = re.compile("^(?:The user |用户(?!的)：?)")
#: What may stand behind the word for a thing; before any other word it only says what kind of thing that is.
_FOLLOWING = STOP_WORDS | {".", "every", "each", "called", "named", "once", "twice", "daily", "now", "again"}
_HOW = ("PARTED", "ENDED", "SHIFTED", "RENEWED", "GROWN", "INSTEAD", "SWITCHED")
#: How a memory begins that one of these takes the place of.
_BEGINS = {
    "RENEWED": r"(?:The user's |用户的?)(?:\w+ )?{}(?: is| are|是|叫)",
    "GROWN": r"(?:The user's |用户的?){}(?: is)? ?(?:about |今年|已经|快)*{COUNT}",
    "INSTEAD": r"(?:The user |用户){}",
}


class _Ending(NamedTuple):
    how: str  # the pattern that says so, one of _HOW
    what: str  # the words for what is over, or otherwise


def find_ended(fact: StatedFact, memories: KnownFacts, at: datetime) -> KnownFact | None:
    """What is known of something that a fact says is over, or has changed; of several the one that says least besides."""
    ending = _read_ending(fact.content)
    if ending is None:
        return None
    found = [entry for entry in memories.lasting(at) if _is_ended(entry.fact.content, ending)]
    return min(
        found, key=lambda entry: (entry.known.layer != "profile", len(entry.fact.content)), default=None
    )


def describe_ended(fact: StatedFact, known: str) -> str:
    """What a memory says from now on: that it is over, and what was so, by which it is still found."""
    begin, end, comma = ("（此前：", "）", "，") if has_han(fact.content) else (" (before: ", ")", ", ")
    before = _SUBJECT.sub("", known.partition(begin)[0])
    for bracket, other in (("（", comma), (" (", comma), ("）", ""), (")", "")):
        before = before.replace(bracket, other)
    return f"{fact.content}{begin}{before}{end}"


def _read_ending(content: str) -> _Ending | None:
    said = COMMON.ASIDE.sub("", simplify(content)).replace("用户：", "用户")
    table = CHINESE if has_han(said) else ENGLISH
    for how in _HOW:
        if match := getattr(table, how).search(said):
            return _Ending(how, next(filter(None, match.groups()), ""))
    own = not said.startswith(("The user's", "用户的"))
    opposite = next((old for new, old in _OPPOSITES.items() if own and new in said), "")
    return _Ending("ENDED", opposite) if opposite else None


def _is_ended(content: str, ending: _Ending) -> bool:
    """Whether a memory tells what is over now; one of which that was known already does not."""
    if begin := _BEGINS.get(ending.how):
        return re.match(begin.format(re.escape(ending.what), COUNT=COMMON.COUNT.pattern), content) is not None
    if ending.how == "SWITCHED":
        kind = {*topics(ending.what, terms(ending.what))}
        return bool(kind.intersection(topics(content, terms(content)))) and bool(COMMON.TAKEN.match(content))
    if not _names(content, ending.what):
        return False
    if ending.how == "SHIFTED":
        return COMMON.HAS_NUMBER.search(content) is not None
    if ending.how == "PARTED" and not COMMON.PARTNER.search(content):
        return False
    before = _read_ending(content)
    return before is None or before.how not in ("PARTED", "ENDED")


def _names(content: str, what: str) -> bool:
    """Whether a memory names a thing. A Golf is not golf, nor coffee a coffee cake; but 狗豆豆 is the one in 狗叫豆豆."""
    content = simplify(content)
    if has_han(what):
        return what in content or (len(what) > 2 and what[-2:] in content and what[:-2] in content)
    wanted = words(what)
    if not wanted or not wanted <= words(content):
        return False
    if names := _CAPITALISED.findall(what):
        return all(name in content for name in names)
    if content.startswith(f"The user's {what} "):
        return True
    said = [*COMMON.WORD.findall(content.lower()), "."]
    last = stem(what.lower().split()[-1])
    return any(
        stem(word) == last and (after in _FOLLOWING or after.isdigit()) for word, after in pairwise(said)
    )
