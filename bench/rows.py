"""The rows every contestant writes: events of about 300 bytes. Standard library only, since peers import it too."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

PER_SESSION = 100
MOST_SESSIONS = 1000
AGENTS = 10
KINDS = ("user_message", "llm_call", "tool_call", "tool_result")

_BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
_TEXT = (
    "the order was shipped on Monday and the customer asked whether it could still be sent to another address in Lyon, "
    "so the agent looked it up, found the parcel in transit and answered that the carrier accepts changes until noon"
)
_WORDS = _TEXT.split()


class Row(NamedTuple):
    """One event, before any contestant has given it its own form."""

    id: str
    agent: str
    session: str
    kind: str
    at: datetime
    data: dict[str, Any]
    metadata: dict[str, Any]


def sessions_of(total: int) -> int:
    """How many sessions `total` records are spread over: 100 records each, and at most 1000 sessions."""
    return max(1, min(MOST_SESSIONS, total // PER_SESSION))


def session_name(number: int) -> str:
    return f"session-{number:04d}"


def rows(start: int, count: int, sessions: int, *, in_turn: bool = False) -> list[Row]:
    """Rows number `start` and the `count - 1` after it, the same ones each time they are asked for.

    Sessions go on side by side, or in turn: each is over, at 100 records, before the next begins.
    """
    share = PER_SESSION if in_turn else 1
    return [_row(number, number // share % sessions) for number in range(start, start + count)]


def _row(number: int, session: int) -> Row:
    # Multiplied by an odd number, so that neighbours look unlike each other at no cost worth timing.
    scattered = number * 0x9E3779B97F4A7C15 % 2**64
    turn = scattered % len(_WORDS)
    words = _WORDS[turn:] + _WORDS[:turn]
    return Row(
        id=f"evt_{number:014x}{scattered:018x}",
        agent=f"agent-{session % AGENTS}",
        session=session_name(session),
        kind=KINDS[number % len(KINDS)],
        at=_BIRTH + timedelta(milliseconds=number),
        data={"content": " ".join(words[:26]), "step": number},
        metadata={"model": "small-1", "tokens": 40 + turn},
    )


def few(sessions: int) -> list[str]:
    """The sessions that Octavo and a peer both read; each open memory of AgentScope's takes a connection, of 15."""
    return sample(sessions, 4, random.Random(7))


def sample(sessions: int, count: int, dice: random.Random) -> list[str]:
    """Session names drawn at random, for reads."""
    return [session_name(dice.randrange(sessions)) for _ in range(count)]


def mean_bytes() -> int:
    """The mean size of a row: its names, its time and its JSON."""
    drawn = rows(0, 200, 10)
    spelled = (
        "".join(
            (r.id, r.agent, r.session, r.kind, r.at.isoformat(), json.dumps(r.data), json.dumps(r.metadata))
        )
        for r in drawn
    )
    return sum(len(text.encode()) for text in spelled) // len(drawn)
