"""What many answers come to: means by metric, times, and how two stores agree."""

from collections import defaultdict

import msgspec

from octavo.measure.asking import Asked, Run
from octavo.measure.metrics import mean, percentile


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of each score over some questions."""

    questions: int
    scores: dict[str, float]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in figures."""

    questions: int
    scores: dict[str, float]
    by_category: dict[str, Figures]
    p50_ms: float
    p95_ms: float
    per_second: float  # one question after the other
    flagged: float  # share of questions said to be probably absent though they are there
    told_apart: float | None  # share of those asked of another talk that were said to be probably absent


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """How far one store answers like another: the share of questions with the same hits in the same order."""

    same: float
    same_sessions: float | None  # None where no sessions are asked for
    differing: list[str]  # names of questions


def summary(run: Run) -> Summary:
    """A run in figures, all in all and by category."""
    by_category: dict[str, list[Asked]] = defaultdict(list)
    for asked in run.asked:
        by_category[asked.category].append(asked)
    times = [asked.ms for asked in run.asked]
    apart = [asked.told_apart for asked in run.asked if asked.told_apart is not None]
    return Summary(
        questions=len(run.asked),
        scores=_figures(run.asked).scores,
        by_category={name: _figures(by_category[name]) for name in sorted(by_category)},
        p50_ms=percentile(0.50, times),
        p95_ms=percentile(0.95, times),
        per_second=1000 / mean(times) if mean(times) else 0.0,
        flagged=mean([asked.flagged for asked in run.asked]),
        told_apart=mean(apart) if apart else None,
    )


def compared(reference: Run, other: Run) -> Compared:
    """Hold one run against another of the same questions."""
    pairs = list(zip(reference.asked, other.asked, strict=True))
    sessions = any(asked.gold_sessions for asked in reference.asked)
    return Compared(
        same=mean([one.found == two.found for one, two in pairs]),
        same_sessions=mean([one.found_sessions == two.found_sessions for one, two in pairs])
        if sessions
        else None,
        differing=[
            one.name
            for one, two in pairs
            if (one.found, one.found_sessions) != (two.found, two.found_sessions)
        ],
    )


def _figures(asked: list[Asked]) -> Figures:
    names = list(asked[0].scores) if asked else []
    return Figures(
        questions=len(asked),
        scores={name: mean([each.scores[name] for each in asked]) for name in names},
    )
