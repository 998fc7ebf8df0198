"""LoCoMo: long conversations of two people in many sessions, with questions and the turns that answer them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from octavo.measure.data import BadData, Case, Data, Said, Talk, part

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SESSION = re.compile(r"session_(\d+)")
_TIME = re.compile(r"(\d{1,2}):(\d{2})\s*([ap])m\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNDATED = datetime(2000, 1, 1, tzinfo=UTC)


def recognises(parsed: Any) -> bool:
    """Whether this is what LoCoMo files hold: conversations, each with its questions."""
    first = parsed[0] if isinstance(parsed, list) and parsed else parsed
    return isinstance(first, dict) and "conversation" in first and "qa" in first


def load(parsed: Any, seed: int) -> Data:
    """The conversations as talks; nothing in them is left to chance."""
    del seed
    talks = []
    counts = {"questions": 0, "evidence": 0, "times": 0}
    for at, sample in enumerate(parsed if isinstance(parsed, list) else [parsed]):
        where = f"conversation {at + 1}"
        if not isinstance(sample, dict):
            raise BadData(f"{where} is {type(sample).__name__}, not an object")
        user = str(sample.get("sample_id") or f"conversation-{at + 1}")
        said = _said(part(sample, "conversation", dict, where), where, counts)
        cases = _cases(part(sample, "qa", list, where), user, {s.id: s.session for s in said}, counts)
        talks.append(Talk(user=user, said=said, cases=cases))
    return Data(
        format="locomo",
        talks=tuple(talks),
        sessions=True,
        skipped_questions=counts["questions"],
        skipped_evidence=counts["evidence"],
        unread_times=counts["times"],
    )


def told_at(spelled: Any) -> datetime | None:
    """A moment such as "1:56 pm on 8 May, 2023", or None when it is spelled otherwise."""
    found = _TIME.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
    if found is None:
        return None
    hour, minute, half, day, month, year = found.groups()
    if month[:3].lower() not in _MONTHS:
        return None
    # Twelve o'clock is the first hour of its half of the day.
    hours = int(hour) % 12 + (12 if half.lower() == "p" else 0)
    try:
        return datetime(
            int(year), _MONTHS.index(month[:3].lower()) + 1, int(day), hours, int(minute), tzinfo=UTC
        )
    except ValueError:
        return None


def _said(conversation: dict[str, Any], where: str, counts: dict[str, int]) -> tuple[Said, ...]:
    numbers = sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name)))
    said: list[Said] = []
    seen: set[str] = set()
    begun = _UNDATED
    for number in numbers:
        session = f"session_{number}"
        told = told_at(conversation.get(f"{session}_date_time"))
        counts["times"] += told is None
        begun = begun + timedelta(days=1) if told is None else told
        for nth, turn in enumerate(part(conversation, session, list, where)):
            here = f"{where}, {session}, turn {nth + 1}"
            if not isinstance(turn, dict):
                raise BadData(f"{here} is {type(turn).__name__}, not an object")
            id_ = part(turn, "dia_id", str, here)
            if id_ in seen:
                raise BadData(f"{here}: the id {id_!r} is there twice")
            seen.add(id_)
            speaker = str(turn.get("speaker") or "user")
            words = f"{speaker}: {part(turn, 'text', str, here)}"
            if caption := turn.get("blip_caption"):
                words = f"{words} {caption}"
            # A second for each turn: equal times would leave their order to chance.
            at = begun + timedelta(seconds=nth)
            said.append(Said(id=id_, text=words, at=at, kind=speaker, session=session))
    return tuple(said)


def _cases(asked: list[Any], user: str, sessions: dict[str, str], counts: dict[str, int]) -> tuple[Case, ...]:
    cases = []
    for nth, qa in enumerate(asked):
        where = f"{user}, question {nth + 1}"
        if not isinstance(qa, dict):
            raise BadData(f"{where} is {type(qa).__name__}, not an object")
        named = part(qa, "evidence", list, where) if "evidence" in qa else []
        gold = tuple(dict.fromkeys(id_ for id_ in named if isinstance(id_, str) and id_ in sessions))
        counts["evidence"] += sum(1 for id_ in named if id_ not in gold)
        if not gold:
            counts["questions"] += 1
            continue
        category = qa.get("category")
        known = CATEGORIES.get(category) if isinstance(category, int) else None
        cases.append(
            Case(
                name=f"{user}/{nth}",
                question=part(qa, "question", str, where),
                category=f"{category} {known}" if known else str(category),
                gold=gold,
                sessions=tuple(dict.fromkeys(sessions[id_] for id_ in gold)),
            )
        )
    return tuple(cases)
