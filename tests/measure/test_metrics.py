"""The scores, on cases worked out by hand."""

import math

import pytest

from octavo.measure.metrics import all_at, hit_at, mean, ndcg_at, percentile, ranks, recall_at

RANKED = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("k", "gold", "hit", "recall", "everything"),
    [
        (1, ["a"], 1, 1, 1),
        (1, ["b"], 0, 0, 0),
        (2, ["b"], 1, 1, 1),
        (5, ["a", "f"], 1, 1 / 2, 0),
        (6, ["a", "f"], 1, 1, 1),
        (10, ["a", "x"], 1, 1 / 2, 0),
        (10, ["x"], 0, 0, 0),
        (5, ["b", "b", "f"], 1, 1 / 2, 0),
        (5, ["b", "b"], 1, 1, 1),
    ],
)
def test_what_is_among_the_first(k, gold, hit, recall, everything):
    """Counted against distinct gold ids; what the ranking lacks is not found, however large k is."""
    assert hit_at(k, RANKED, gold) == hit
    assert recall_at(k, RANKED, gold) == pytest.approx(recall)
    assert all_at(k, RANKED, gold) == everything


def test_a_repeated_id_takes_one_place():
    """Two hits of one session are one session: the next one moves up."""
    assert recall_at(2, ["a", "a", "a", "b"], ["b"]) == 1
    assert ndcg_at(2, ["a", "a", "b"], ["b"]) == pytest.approx(1 / math.log2(3))
    assert ranks(["a", "a", "b"], ["b", "a"]) == [2, 1]


@pytest.mark.parametrize(
    ("k", "gold", "expected"),
    [
        (5, ["a"], 1),
        (5, ["a", "b"], 1),
        (5, ["b"], 1 / math.log2(3)),
        (5, ["c"], 1 / 2),
        (5, ["f"], 0),
        # 1/log2(2) + 1/log2(4) of 1/log2(2) + 1/log2(3)
        (5, ["a", "c"], 1.5 / (1 + 1 / math.log2(3))),
        (5, ["a", "x"], 1 / (1 + 1 / math.log2(3))),
        # More gold than places: two good places are all there could be.
        (2, ["a", "b", "c", "d"], 1),
        (5, ["b", "b"], 1 / math.log2(3)),
    ],
)
def test_ndcg(k, gold, expected):
    assert ndcg_at(k, RANKED, gold) == pytest.approx(expected)


def test_an_empty_ranking_finds_nothing():
    for score in (hit_at, recall_at, all_at, ndcg_at):
        assert score(10, [], ["a"]) == 0
    assert ranks([], ["a", "b"]) == [None, None]


def test_nothing_to_find_is_a_mistake_and_not_a_score():
    for score in (hit_at, recall_at, all_at, ndcg_at):
        with pytest.raises(ValueError, match="gold"):
            score(10, RANKED, [])


def test_percentiles_are_values_that_were_measured():
    """Nearest rank: of four, half do not exceed the second; ties are just values."""
    assert percentile(0.5, [4, 1, 3, 2]) == 2
    assert percentile(0.95, [4, 1, 3, 2]) == 4
    assert percentile(0.95, range(1, 101)) == 95
    assert percentile(0.5, [7, 7, 7]) == 7
    assert percentile(0.5, [3]) == 3
    assert percentile(0.5, []) == 0
    assert mean([True, False, False, True]) == 0.5
    assert mean([]) == 0
