"""Scores of one ranking against what should have been found: pure functions, each from 0 to 1.

`ranked` is best first; an id that is repeated counts where it first stands. `gold` is what should be found; repeated
ids count once. A ranking shorter than k has nothing in its missing ranks.
"""

import math
from collections.abc import Collection, Iterable, Sequence


def hit_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """1 when any of the gold ids is among the first k (Hit@1, any@10)."""
    return float(not _check_gold(gold).isdisjoint(_first(k, ranked)))


def recall_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """The share of the gold ids that is among the first k (R@k)."""
    wanted = _check_gold(gold)
    return len(wanted.intersection(_first(k, ranked))) / len(wanted)


def all_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """1 when every gold id is among the first k (R_all@k)."""
    return float(_check_gold(gold).issubset(_first(k, ranked)))


def ndcg_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """How early the gold ids stand among the first k, as a share of the best order there could be (NDCG@k)."""
    wanted = _check_gold(gold)
    gained = sum(_gain(index) for index, id_ in enumerate(_first(k, ranked)) if id_ in wanted)
    return gained / sum(_gain(index) for index in range(min(k, len(wanted))))


def ranks(ranked: Sequence[str], gold: Iterable[str]) -> list[int | None]:
    """Where each gold id stands, counted from 1; None for one that was not found."""
    found = {id_: rank for rank, id_ in enumerate(dict.fromkeys(ranked), 1)}
    return [found.get(id_) for id_ in gold]


def mean(values: Sequence[float]) -> float:
    """The mean, or 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(share: float, values: Iterable[float]) -> float:
    """The smallest of the values that at least this share of them do not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _first(k: int, ranked: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranked))[:k]


def _gain(index: int) -> float:
    return 1 / math.log2(index + 2)


def _check_gold(gold: Collection[str]) -> set[str]:
    if not gold:
        raise ValueError("a question without gold ids cannot be scored")
    return set(gold)
