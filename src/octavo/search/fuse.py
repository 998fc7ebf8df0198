"""How the signals become one order, and how far each is trusted."""

import math
from collections.abc import Sequence

import msgspec

from octavo.kernel.model import Record
from octavo.kernel.terms.matches import Match
from octavo.search import times
from octavo.search.lexical import Grid, Lexical, score
from octavo.search.question import Question

#: What each signal weighs beside the record's own terms, in standard deviations of that signal.
SESSION, TIME, VECTOR, RECENCY, IMPORTANCE = 0.8, 3.0, 0.5, 0.001, 0.3
MOST_IMPORTANT = IMPORTANCE / 2  # what a record's importance adds at most
NEIGHBOUR, VECTOR_NEIGHBOUR = 0.4, 0.3  # what the match before or after in a session adds
_AGREEING = 0.3  # of the twenty best, when words and vectors share that many both are believed
_DEPTH = 20
_LEAST_DEVIATION = 0.1  # of the best score


class Signals(msgspec.Struct):
    """Every candidate's standing by each signal; all lists are in the order of the grid."""

    question: Question
    grid: Grid
    lexical: Lexical
    terms: list[float]
    session: list[float]
    vector: list[float]
    time: list[float]
    recency: list[float]
    trust: float  # how far the vectors were believed, 0 to 1
    total: list[float]

    @property
    def by_name(self) -> dict[str, list[float]]:
        return {
            "terms": self.terms,
            "session": self.session,
            "vector": self.vector,
            "time": self.time,
            "recency": self.recency,
        }


def weigh(question: Question, found: list[Match], held: Sequence[int], cosines: dict[int, float]) -> Signals:
    """Fuse what is known of each candidate; `cosines` holds, by position, those that the vectors named.

    Scores are standardised and added, not their ranks: a record that fits far better than the next one keeps its lead.
    """
    grid = Grid.of(found)
    lexical = score(question, grid, held)
    terms = grid.spread(lexical.records, NEIGHBOUR)
    session = _of_session(lexical, grid)
    none = [0.0] * len(found)
    vector = grid.spread(_above_floor(len(found), cosines), VECTOR_NEIGHBOUR) if cosines else none
    trust = _trust(terms, cosines)
    time = [times.fit(question.spans, match.created_at) for match in found] if question.spans else none
    recency = [at / len(found) for at in range(len(found))]  # found stands oldest first
    total = [
        own + SESSION * around + TIME * when + trust * VECTOR * near + RECENCY * late
        for own, around, when, near, late in zip(
            standard(terms), session, time, standard(vector) if cosines else none, recency, strict=True
        )
    ]
    return Signals(question, grid, lexical, terms, session, vector, time, recency, trust, total)


def importance(record: Record) -> float:
    """What the record's own `importance` (metadata, 0 to 1, or up to 10) adds or takes; nothing when it has none."""
    given = record.metadata.get("importance")
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    share = min(max(given / 10 if given > 1 else given, 0.0), 1.0)
    return IMPORTANCE * (share - 0.5)


def by_session(signals: Signals) -> dict[str, float]:
    """The same signals for whole sessions, by place: the session's own words, and the best records in it."""
    grid = signals.grid
    members = grid.members()
    own = standard(signals.lexical.sessions) if grid.several else [0.0] * len(members)
    best = standard([_few_best([signals.terms[at] for at in ats]) for ats in members])
    near = standard([_few_best([signals.vector[at] for at in ats]) for ats in members])
    when = [max(signals.time[at] for at in ats) for ats in members]
    return {
        place: 0.4 * around + 0.6 * record + 0.6 * VECTOR * signals.trust * vector + TIME * time
        for place, around, record, vector, time in zip(grid.places, own, best, near, when, strict=True)
    }


def standard(scores: Sequence[float]) -> list[float]:
    """The scores in standard deviations from their mean; all zero when they do not differ."""
    if not scores:
        return []
    mean = sum(scores) / len(scores)
    deviation = math.sqrt(sum([(score - mean) ** 2 for score in scores]) / len(scores))
    # Among a few candidates that are nearly alike, a hair's breadth would count as much as the time a question names.
    deviation = max(deviation, _LEAST_DEVIATION * max([abs(score) for score in scores]))
    return [(score - mean) / deviation for score in scores] if deviation > 1e-9 else [0.0] * len(scores)


def _of_session(lexical: Lexical, grid: Grid) -> list[float]:
    if not lexical.sessions:
        return [0.0] * len(grid.found)
    standing = [
        *standard(lexical.sessions),
        0.0,
    ]  # the last is for records without a session, whose slot is -1
    return [standing[slot] for slot in grid.slots]


def _few_best(scores: list[float]) -> float:
    return sum([score * 0.3**place for place, score in enumerate(sorted(scores, reverse=True)[:3])])


def _above_floor(n: int, cosines: dict[int, float]) -> list[float]:
    """How far each candidate stands above the farthest of the nearest; cosines of two models mean different things."""
    floor = min(cosines.values(), default=0.0)
    return [cosines[at] - floor if at in cosines else 0.0 for at in range(n)]


def _trust(terms: list[float], cosines: dict[int, float]) -> float:
    """A model that knows what the words are about names some of the records that the words find.

    One that does not (another language, hashed or static vectors) is heard less, or not at all. Where no words match,
    there is nothing to hold it against.
    """
    worded = sorted((at for at, score in enumerate(terms) if score > 0), key=lambda at: -terms[at])[:_DEPTH]
    if not cosines or not worded:
        return 1.0 if cosines else 0.0
    nearest = sorted(cosines, key=lambda at: -cosines[at])[:_DEPTH]
    shared = len(set(worded) & set(nearest)) / min(len(worded), len(nearest))
    return min(1.0, shared / _AGREEING)
