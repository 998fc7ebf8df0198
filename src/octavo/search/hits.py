"""What recall answers."""

from collections.abc import Iterable

import msgspec

from octavo.kernel.model import Record


class Signal(msgspec.Struct, frozen=True):
    """One reason: how well the record does by it, and its rank among all candidates (1 is best, 0 is not in it)."""

    name: str
    score: float
    rank: int


class Hit(msgspec.Struct, frozen=True):
    """A record found again; with `explain`, the terms it shares with the question and its standing by each signal."""

    collection: str
    record: Record
    score: float
    terms: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()


class SessionHit(msgspec.Struct, frozen=True):
    """A session that speaks about the question, with its best records."""

    user: str
    agent: str
    session: str
    score: float
    hits: tuple[Hit, ...] = ()


class Recalled(list[Hit]):
    """The hits, best first, and what is known about the answer as a whole."""

    presence: float  # how likely it is that memory holds an answer at all, from 0 to 1
    stages: dict[str, float]  # milliseconds by stage
    notes: tuple[str, ...]  # what did not work, such as a model that could not be reached
    trust: float  # how far the vectors were believed
    left_out: int  # hits that did not fit into `max_bytes`

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        presence: float = 0.0,
        stages: dict[str, float] | None = None,
        notes: tuple[str, ...] = (),
        trust: float = 0.0,
        left_out: int = 0,
    ) -> None:
        super().__init__(hits)
        self.presence = presence
        self.stages = stages or {}
        self.notes = notes
        self.trust = trust
        self.left_out = left_out

    @property
    def probably_absent(self) -> bool:
        """Whether memory probably holds no answer: the hits are then the least bad ones."""
        return self.presence < ABSENT


#: Below this presence, three of four questions about something else are told apart, at the price of one in twelve
#: answerable ones (`octavo bench recall` measures both).
ABSENT = 0.25


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record was not among the hits of a question, or where it was."""

    reason: str  # a sentence
    rank: int | None = None  # its place among all candidates, when it was one
    of: int = 0
    hit: Hit | None = None  # its standing by each signal, when it was a candidate
    shared: tuple[str, ...] = ()  # terms of the question that the record holds
    lacking: tuple[str, ...] = ()  # and those it does not
