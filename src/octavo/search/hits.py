"""What recall answers: hits with their reasons, and recalled text as one fenced block for a prompt."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from octavo.kernel.model import Record, check_count
from octavo.kernel.text import content, lazy_pattern

#: Below this presence, less than one in twenty answerable questions is said to have no answer; and half of those that
#: have none, with an embedder more (`octavo bench recall` measures both).
ABSENT = 0.235
_SHORTEST = 12  # tokens of a text that are worth showing when no more of it fits
_TICKS = re.compile(r"`{3,}")
_MOST_TICKS = 8  # of a run in a text; a longer one would make a fence that takes up the whole budget
_FIRST_TRY = (
    256  # characters of a text tried before twice as many: a book is not counted to show a page of it
)
# The beginning of a word that is cut: scripts that put no spaces between words may be cut anywhere.
_BROKEN = lazy_pattern(r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0003ffff]+\Z")


class Signal(msgspec.Struct, frozen=True):
    """One reason: how well the record does by it, and its rank among all candidates (1 is best, equals share one, 0 is not in it)."""

    name: str
    score: float
    rank: int


class Hit(msgspec.Struct, frozen=True):
    """A record found again; with `explain`, the terms and topics it shares with the question, and its standing by each signal."""

    collection: str
    record: Record
    score: float
    terms: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()
    topics: tuple[str, ...] = ()


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
    overview: bool  # all that is known was asked for

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        presence: float = 0.0,
        stages: dict[str, float] | None = None,
        notes: tuple[str, ...] = (),
        trust: float = 0.0,
        left_out: int = 0,
        *,
        overview: bool = False,
    ) -> None:
        super().__init__(hits)
        self._best = max((hit.score for hit in self), default=0.0)
        self.presence = presence
        self.stages = stages or {}
        self.notes = notes
        self.trust = trust
        self.left_out = left_out
        self.overview = overview

    @property
    def probably_absent(self) -> bool:
        """Whether memory probably holds no answer: the hits are then the least bad ones."""
        return self.presence < ABSENT

    def likelihood(self, hit: Hit) -> float:
        """How likely a hit is to answer: the best one as likely as it is that there is an answer. Scores only rank."""
        return round(self.presence * math.exp(hit.score - self._best), 4)


# --- a search over everything of somebody


class MemoryHit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was found: what it says, when that was, whose it is, and why it is an answer."""

    text: str
    score: float  # from 0 to 1: how likely it is to answer
    why: str  # a few words
    when: datetime  # it was said, or changed last
    source: str  # facts, messages, observations, events or documents
    id: str
    kind: str = ""  # the category of a fact, the role of a message, the type of an event
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    metadata: dict[str, Any] = {}
    sources: tuple[
        str, ...
    ] = ()  # of a fact: the ids of the messages or events it was made from, the newest last


class Hits(list[MemoryHit]):
    """The hits, best first, and what is known about the answer as a whole."""

    probably_absent: (
        bool  # memory holds no answer, as far as can be told: the hits are then the least bad ones
    )
    notes: tuple[str, ...]  # what did not work, such as a model that could not be reached
    left_out: int  # hits that did not fit into `max_bytes`

    def __init__(
        self,
        hits: Iterable[MemoryHit] = (),
        *,
        probably_absent: bool = False,
        notes: tuple[str, ...] = (),
        left_out: int = 0,
    ) -> None:
        super().__init__(hits)
        self.probably_absent = probably_absent
        self.notes = notes
        self.left_out = left_out


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record was not among the hits of a question, or where it was."""

    reason: str  # a sentence
    rank: int | None = None  # its position among all candidates, from 1, when it was one
    of: int = 0
    hit: Hit | None = None  # its standing by each signal, when it was a candidate
    shared: tuple[str, ...] = ()  # terms of the question that the record holds
    lacking: tuple[str, ...] = ()  # and those it does not


# --- a block for a prompt


class Source(msgspec.Struct, frozen=True):
    """Which record an entry of the block is."""

    number: int
    collection: str
    id: str
    session: str


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The block, what it costs, and where each of its entries comes from; `text` is empty when nothing fits."""

    text: str = ""
    tokens: int = 0
    sources: tuple[Source, ...] = ()
    left_out: int = 0  # hits for which there was no room
    parts: dict[str, int] = {}  # tokens of each part, where there are several
    probably_absent: bool = False  # memory holds no answer, as far as can be told

    def __str__(self) -> str:
        return self.text


def fenced(hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> Context:
    """The best hits that fit, best first; a text that does not fit whole is cut, and says so with an ellipsis."""
    check_count(max_tokens, "max_tokens must be a number, 0 or more")
    fence = fence_for(_head(hit) + _body(hit) for hit in hits)
    entries: list[str] = []
    sources: list[Source] = []

    def block(*more: str) -> str:
        return "\n".join([f"{fence}memory", *entries, *more, fence])

    for hit in hits:
        number = len(sources) + 1
        entry = fit_line(
            f"[{number}] {_head(hit)} ", _body(hit), lambda e: count(block(e)) <= max_tokens, count
        )
        if entry is None:
            continue
        entries.append(entry)
        record = hit.record
        sources.append(Source(number, hit.collection, record.id, record.scope.session or ""))
    if not entries:
        return Context(left_out=len(hits))
    text = block()
    return Context(text=text, tokens=count(text), sources=tuple(sources), left_out=len(hits) - len(sources))


def fence_for(texts: Iterable[str]) -> str:
    """A fence that none of the texts can close."""
    ticked = [text for text in texts if "```" in text]
    return "`" * (1 + max((len(run) for text in ticked for run in _TICKS.findall(text)), default=2))


def fit_line(head: str, body: str, fits: Callable[[str], bool], count: Callable[[str], int]) -> str | None:
    """The line, cut to what fits and with an ellipsis then; None when too little of it does to be worth showing."""
    low, high = 0, _FIRST_TRY
    while high < len(body) and fits(f"{head}{body[:high]}…"):
        low, high = high, high * 2
    if high >= len(body):
        if fits(head + body):
            return head + body
        high = len(body)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(f"{head}{body[:middle]}…") else (low, middle - 1)
    cut = body[:low].rstrip()
    if low < len(body) and body[low].isalnum():
        cut = _BROKEN.sub("", cut).rstrip() or cut
    # To a real tokenizer a shorter text may be a token more, so what is shown is what was counted.
    while cut and not fits(f"{head}{cut}…"):
        cut = cut[:-1].rstrip()
    return f"{head}{cut}…" if cut and count(cut) >= _SHORTEST else None


def _head(hit: Hit) -> str:
    record = hit.record
    parts = (record.created_at.strftime("%Y-%m-%d"), hit.collection, one_line(record.kind))
    return " · ".join(part for part in parts if part) + ":"


def _body(hit: Hit) -> str:
    return one_line(content(hit.record.text, hit.record.data))


def one_line(text: str) -> str:
    """The text on one line, without long runs of backticks."""
    # A text that could start a line of its own could pose as another entry, or end the fence.
    line = " ".join(text.split())
    return _TICKS.sub(lambda run: run[0][:_MOST_TICKS], line) if "```" in line else line
