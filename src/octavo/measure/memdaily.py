"""MemDaily: short trajectories of one user's messages, each with a question and the messages that answer it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from octavo.measure.data import BadData, Case, Data, Said, Talk, part

_TIME = re.compile(
    r"(\d{4})年(\d{1,2})月(\d{1,2})日(?:\s*[周星]期?\S)?(?:\s*(\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
_UNDATED = datetime(2000, 1, 1, tzinfo=UTC)


def recognises(parsed: Any) -> bool:
    """Whether this is what MemDaily files hold: trajectories, in a list or in objects by type."""
    first = next(_trajectories(parsed, ""), None)
    return first is not None and "question_list" in first[1]


def load(parsed: Any, seed: int) -> Data:
    """The trajectories as talks; each is written down in an order drawn from the seed, so that ties tell nothing."""
    dice = Random(seed)  # noqa: S311 - a shuffle, not a secret
    talks = []
    seen: set[str] = set()
    counts = {"questions": 0, "evidence": 0, "times": 0}
    for at, (type_, trajectory) in enumerate(_trajectories(parsed, "")):
        where = f"trajectory {at + 1}"
        user = f"{type_}/{trajectory.get('tid', at)}"
        if user in seen:  # two users of one name would be one memory
            user = f"{user}#{at}"
        seen.add(user)
        messages = list(enumerate(part(trajectory, "message_list", list, where), 1))
        dice.shuffle(messages)
        said = _said(messages, where, counts)
        cases = _cases(part(trajectory, "question_list", list, where), user, type_, said, counts)
        talks.append(Talk(user=user, said=tuple(said), cases=cases))
    return Data(
        format="memdaily",
        talks=tuple(talks),
        sessions=False,
        skipped_questions=counts["questions"],
        skipped_evidence=counts["evidence"],
        unread_times=counts["times"],
    )


def told_at(spelled: Any) -> datetime | None:
    """A moment such as 2024年04月03日 周三 17:34, or None when it is spelled otherwise."""
    found = _TIME.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(number or 0) for number in found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _trajectories(parsed: Any, type_: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every trajectory with its type: its own, or else the names it stands under."""
    if isinstance(parsed, list):
        for each in parsed:
            yield from _trajectories(each, type_)
    elif isinstance(parsed, dict) and "message_list" in parsed:
        yield str(parsed.get("type") or type_ or "trajectory"), parsed
    elif isinstance(parsed, dict):
        for name, each in parsed.items():
            yield from _trajectories(each, f"{type_}/{name}".lstrip("/"))


def _said(messages: list[tuple[int, Any]], where: str, counts: dict[str, int]) -> list[Said]:
    said = []
    for place, (number, message) in enumerate(messages):
        here = f"{where}, message {number}"
        if not isinstance(message, dict):
            raise BadData(f"{here} is {type(message).__name__}, not an object")
        told = told_at(message.get("time"))
        counts["times"] += told is None
        said.append(
            Said(
                id=str(part(message, "mid", (int, str), here)),
                text=part(message, "message", str, here),
                at=told or _UNDATED + timedelta(minutes=place),
            )
        )
    if len({each.id for each in said}) < len(said):
        raise BadData(f"{where}: two messages have the same 'mid'")
    return said


def _cases(
    asked: list[Any], user: str, type_: str, said: list[Said], counts: dict[str, int]
) -> tuple[Case, ...]:
    ids = {each.id for each in said}
    cases = []
    for nth, question in enumerate(asked):
        where = f"{user}, question {nth + 1}"
        if not isinstance(question, dict):
            raise BadData(f"{where} is {type(question).__name__}, not an object")
        named = [str(mid) for mid in part(question, "target_step_id", list, where)]
        gold = tuple(dict.fromkeys(mid for mid in named if mid in ids))
        counts["evidence"] += sum(1 for mid in named if mid not in ids)
        if not gold:
            counts["questions"] += 1
            continue
        cases.append(
            Case(
                name=f"{user}/{question.get('qid', nth)}",
                question=part(question, "question", str, where),
                category=type_,
                gold=gold,
            )
        )
    return tuple(cases)
