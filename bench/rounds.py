"""Fair timing on a noisy machine: contestants take turns in short rounds, and the median round counts."""

from statistics import median
from typing import NamedTuple

from bench.subject import CROWD, Subject

# Drawing the rows takes longer than the fastest contestants need to keep them.
MOST = 10_000


class Pace(NamedTuple):
    """How long and how often things are measured."""

    seconds: float  # per round
    rounds: int
    total: int  # records in the store that is read from
    batch: int


FULL = Pace(seconds=0.25, rounds=7, total=100_000, batch=1000)
QUICK = Pace(seconds=0.01, rounds=3, total=1000, batch=100)


class Entrant(NamedTuple):
    """A contestant in one comparison, and the job it does there."""

    label: str
    subject: Subject
    job: str


async def alternate(entrants: list[Entrant], pace: Pace) -> dict[str, list[float]]:
    """Operations per second of each entrant, round by round."""
    counts = {entrant.label: await _count(entrant, pace) for entrant in entrants}
    rates: dict[str, list[float]] = {entrant.label: [] for entrant in entrants}
    # One call that outlasts a round several times over is no noisier for being timed less often.
    slow = any(1 / rate > 3 * pace.seconds for _, rate in counts.values())
    for turn in range(3 if slow else pace.rounds):
        # Whoever goes second may find a warmer or a busier machine: take turns at that too.
        for entrant in entrants if turn % 2 else entrants[::-1]:
            count, _ = counts[entrant.label]
            rates[entrant.label].append(count / await entrant.subject.timed(entrant.job, count))
    return rates


async def fill(entrants: list[Entrant], total: int, pace: Pace) -> dict[str, list[float]]:
    """Fill each entrant with `total` rows in batches, in turns; rows per second, round by round."""
    rates: dict[str, list[float]] = {entrant.label: [] for entrant in entrants}
    share = max(pace.batch, total // 10)
    for turn in range(total // share):
        for entrant in entrants if turn % 2 else entrants[::-1]:
            spent = 0.0
            for _ in range(share // pace.batch):
                spent += await entrant.subject.timed("batch", pace.batch)
            rates[entrant.label].append(share / spent)
    return rates


async def _count(entrant: Entrant, pace: Pace) -> tuple[int, float]:
    """How many operations fill a round, and the rate that says so; finding out is the warm-up too."""
    step = CROWD if entrant.job == "crowd" else 1
    count = step
    while True:
        spent = await entrant.subject.timed(entrant.job, count)
        if spent > pace.seconds / 6 or count >= MOST:
            break
        count *= 3
    wanted = int(count * pace.seconds / spent)
    return max(step, min(wanted, MOST) // step * step), count / spent


def ratio(ours: list[float], theirs: list[float]) -> float:
    """How many times faster the first is."""
    return median(ours) / median(theirs)


def spread(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """The lowest and the highest ratio that any single round would have given."""
    pairs = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return min(pairs), max(pairs)
