"""What kind of happening an English clause tells, if it tells one."""

import re

from octavo.layers.rules import lexicon_en as en

_WORD = re.compile(r"[a-z][a-z'-]*", re.IGNORECASE)
_STATE = re.compile(
    rf"^(?:(?:be|was|were|have been|been|feel|felt|feeling|got|be feeling|have felt|be getting) )+(?:{en.ADVERBS} )*(?:{en.STATES})\b"
    r"|^(?:have (?:an? |no |some |the |had )|had|be having|caught|woke up with|be running|slept|did not sleep|could not sleep|can not sleep|be not sleeping)\b(?! ?(?:breakfast|lunch|dinner|coffee|drinks|brunch|a beer|supper|to)\b)",
    re.IGNORECASE,
)
_AHEAD = re.compile(
    r"^(?:will|be (?:not )?going to|be about to|have to|need to|must|should) (?P<then>.+)", re.IGNORECASE
)
_ON_THE_WAY = re.compile(r"be going to (?:the|an?|my|bed|work|school|sleep|church|town)\b", re.IGNORECASE)
_APPOINTMENT = re.compile(r"\b(?:appointment|flight|exam|deadline|date|vacation|trip|surgery|check-?up|test|reservation)\b", re.IGNORECASE)  # fmt: skip
_WENT_TO = re.compile(r"^(?:(?:have|just|be|will|finally) )*(?:went|gone|go|going|attended|attend|attending|saw|seen|see|celebrated|celebrate|hosted|threw|had|have|watched|organized|organised|flew|was|were|enjoyed|took|turned|got)\b", re.IGNORECASE)  # fmt: skip
_IN_CONCERT = re.compile(r"\b(?:in concert|live at|perform)\b", re.IGNORECASE)
_MOVED = re.compile(
    r"\bmov(?:ed|ing) (?:back )?to (?P<to>[A-Z][\w' -]{1,40}?)(?: (?:last|in|on|this|a|two|with|for|from|because|yesterday|today|next)\b.*)?$"
)
_NOT_DONE = frozenset(["being", "going", "interesting", "feeling", "thinking", "wondering", "considering", "hoping", "looking", "asking", "wishing", "wanting", "having"])  # fmt: skip
_DENIED = re.compile(r"\b(?:not|never|no longer|cancel(?:l)?ed|missed|skipped)\b", re.IGNORECASE)


def happening(said: str, *, timed: bool) -> str | None:
    """The event category of what is said after a subject, its first verb in the base form; None when nothing happens."""
    if en.DECISIONS.match(said):
        return "decision"
    if match := _AHEAD.match(said):
        if not timed and _ON_THE_WAY.match(said):
            return None
        if not timed and not match[0].startswith(("have to", "need to")):
            return "decision" if said.lower().startswith(("will", "be going to", "be not going to")) else None
        return (happening(f"did {match['then']}", timed=True) or "action") if timed else None
    if not (_past(said) or (timed and _dated(said))):
        return "other" if _STATE.match(said) and re.match(r"(?i)be |feel", said) else None
    if en.TALKS.search(said):
        return "conversation"
    if en.MEETINGS.search(said):
        return "meeting"
    if (
        en.LIFE.search(said)
        or (en.OCCASIONS.search(said) and _WENT_TO.match(said))
        or _IN_CONCERT.search(said)
    ):
        return "event"
    if _APPOINTMENT.search(said) and re.match(r"(?i)have ", said):
        return "event"
    return "other" if _STATE.match(said) else "action"


def _past(said: str) -> bool:
    """Whether the clause tells of something done: a past tense, a perfect, or a denial of one."""
    told = [word.lower() for word in _WORD.findall(said)[:5]]
    while told and re.fullmatch(en.ADVERBS, told[0]):
        told.pop(0)
    if not told:
        return False
    first, second = told[0], told[1] if len(told) > 1 else ""
    if first in ("was", "were") and second in _NOT_DONE:
        return False
    if first in en.PAST or (
        first.endswith("ed") and len(first) > 3 and first not in ("need", "feed", "speed", "breed")
    ):
        return True
    if first == "have":
        rest = [
            word
            for word in told[1:]
            if word not in ("just", "already", "also", "not", "never", "finally", "recently", "been")
        ]
        return bool(rest) and (
            rest[0] in en.PAST
            or rest[0].endswith(("ed", "en", "ing"))
            or rest[0] in ("gone", "done", "begun", "run", "come", "become", "given up")
        )
    return first == "be" and second.endswith("ing") and second not in _NOT_DONE


def _dated(said: str) -> bool:
    """A present tense with a time is a thing fixed for it: "I have an interview on Monday"."""
    return (
        re.match(
            r"(?i)(?!get up|wake|go to (?:bed|sleep|work|school))(?:have|be|fly|leave|go|meet|start|begin|travel|move|give|present|see|take|get|arrive|return|did)\b",
            said,
        )
        is not None
    )


def denied(said: str) -> bool:
    return _DENIED.search(said) is not None


def of_kin(said: str) -> bool:
    """Whether something happened to one of the owner's people that matters to the owner."""
    return en.LIFE.search(said) is not None


def around_owner(clause: str) -> bool:
    """Whether something happened about the owner, of which something else is the subject."""
    return (
        en.AROUND.search(clause) is not None
        and re.search(r"\b(?:our|my|we|the user's|their|us|me)\b", clause, re.IGNORECASE) is not None
    )


def moved_to(said: str) -> str | None:
    """Where somebody moved."""
    match = _MOVED.search(said)
    return match["to"] if match else None
