"""English verbs: their base form, whether they tell of something done, and how they are said of one person."""

import re

from octavo.layers.rules.facts import ENGLISH

_BASE_FORMS = {"is": "be", "am": "be", "are": "be", "has": "have", "does": "do", "goes": "go"}
_OF_ONE_PERSON = {"am": "is", "are": "is", "were": "was", "have": "has", "do": "does", "go": "goes"}
PRESENT = frozenset(ENGLISH.words["PRESENT"])
_PAST = frozenset(ENGLISH.words["PAST"])
#: Withdrew, overcame, misread: but "I resent" is no past of "send".
_PAST |= {f"{begin}{word}" for begin in ENGLISH.words["PREFIXES"] for word in _PAST}
_PAST -= set(ENGLISH.words["NOT_PAST"])
_NOT_DONE = frozenset(ENGLISH.words["NOT_DONE"])
_BETWEEN_PERFECT = frozenset(ENGLISH.words["BETWEEN_PERFECT"])
_SAME_IN_PAST = frozenset(
    ["put", "set", "cut", "hit", "split", "hurt", "let", "shut", "spread", "burst", "bet"]
)
_DONE_ONCE = re.compile(
    r"\b(?:yesterday|today|ago|last|after|just|finally|earlier|this (?:morning|week|month|year)|in (?:\d{4}|\w+uary|march|april|may|june|july|august|\w+ber))\b",
    re.IGNORECASE,
)
_PERFECT = _PAST.union(ENGLISH.words["PERFECT"])


def event_category(said: str, *, timed: bool) -> str | None:
    """The event category of what is said after a subject, its first verb in the base form; None when nothing happens."""
    if ENGLISH.DECISIONS.match(said):
        return "decision"
    if match := ENGLISH.AHEAD.match(said):
        if timed:
            return event_category(f"did {match['then']}", timed=True) or "action"
        if ENGLISH.ON_THE_WAY.match(said) or match[0].startswith(("have to", "need to")):
            return None
        decided = said.lower().startswith(("will", "be going to", "be not going to"))
        return "decision" if decided and not ENGLISH.AT_HAND.search(said) else None
    planned = timed and (ENGLISH.FIXED_DATE.match(said) or said.startswith("be having "))
    if not (is_past(said) or planned):
        return "other" if ENGLISH.STATE.match(said) and re.match(r"(?i)be |feel", said) else None
    if ENGLISH.TALKS.search(said):
        return "conversation"
    if ENGLISH.MEETINGS.search(said):
        return "meeting"
    occasion = ENGLISH.OCCASIONS.search(said) and ENGLISH.WENT_TO.match(said)
    appointment = ENGLISH.APPOINTMENT.search(said) and re.match(r"(?i)have ", said)
    if ENGLISH.LIFE.search(said) or occasion or ENGLISH.IN_CONCERT.search(said) or appointment:
        return "event"
    return "other" if ENGLISH.STATE.match(said) else "action"


def is_past(said: str) -> bool:
    """Whether the clause tells of something done: a past tense, a perfect, or a denial of one."""
    words = [word.lower() for word in re.findall(r"[a-zA-Z][a-zA-Z'-]*", said)[:5]]
    while words and ENGLISH.ADVERBS.fullmatch(words[0]):
        words.pop(0)
    first, second = (*words, "", "")[:2]
    if first in ("was", "were") and not _NOT_DONE.isdisjoint(words[1:3]):
        return False
    if first in _PAST or (
        re.search("(?<!-hand)(?<!-mind)(?<!-hair)ed$", first)
        and len(first) > 3
        and first not in ("need", "feed", "speed", "breed")
    ):
        return True
    if first == "have":
        verb = next((word for word in words[1:] if word not in _BETWEEN_PERFECT), "")
        return verb in _PERFECT or verb.endswith(("ed", "en", "ing"))
    return first == "be" and second.endswith("ing") and second not in _NOT_DONE


def base_form(said: str) -> str:
    """The words after a subject with the verb in its base form."""
    head, space, tail = said.partition(" ")
    low = head.lower()
    if low in _BASE_FORMS:
        return f"{_BASE_FORMS[low]}{space}{tail}"
    for ending, base in (("s", ""), ("es", ""), ("ies", "y")):
        if low.endswith(ending) and (verb := low.removesuffix(ending) + base) in PRESENT:
            return f"{verb}{space}{tail}"
    return said


def of_one_person(after: str) -> str:
    """The verb as it is said of one person: I like is the user likes."""
    at = 0
    while match := ENGLISH.ADVERB.match(after, at):
        at = match.end()
    head, _, tail = after[at:].partition(" ")
    low = head.lower()
    if low in _SAME_IN_PAST and _DONE_ONCE.search(tail):
        return after  # I put my notice in today
    if (
        low not in _OF_ONE_PERSON
        and low not in PRESENT
        and (is_past(after[at:]) or not ENGLISH.INFLECTED.fullmatch(low))
    ):
        return after
    if low in _OF_ONE_PERSON:
        verb = _OF_ONE_PERSON[low]
    elif low.endswith("y") and low[-2] not in "aeiou":
        verb = f"{low[:-1]}ies"
    else:
        verb = low + ("es" if low.endswith(("s", "sh", "ch", "x")) else "s")
    return f"{after[:at]}{verb} {tail}".strip()
