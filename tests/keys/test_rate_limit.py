"""How often a key may call."""

import pytest

from octavo.keys import RateLimit


class Time:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


def test_a_minute_of_requests_then_as_time_goes():
    """Full at first; empty, it says how long to wait, and after exactly that time it lets one through."""
    time = Time()
    limit = RateLimit(30, time)
    assert [limit.wait("a") for _ in range(30)] == [0.0] * 30
    assert limit.wait("a") == pytest.approx(2.0)
    time.seconds += 0.5
    assert limit.wait("a") == pytest.approx(1.5)  # asking again costs nothing
    time.seconds += 1.5
    assert limit.wait("a") == 0.0
    assert limit.wait("a") > 0
    assert limit.wait("b") == 0.0  # each key has its own
    time.seconds += 3600
    assert sum(limit.wait("a") == 0.0 for _ in range(100)) == 30  # never more than the bucket holds


def test_no_limit():
    limit = RateLimit(0, Time())
    assert all(limit.wait("a") == 0.0 for _ in range(10_000))
    assert limit._buckets == {}


def test_a_clock_that_steps_back_takes_nothing():
    time = Time()
    limit = RateLimit(2, time)
    assert limit.wait("a") == 0.0
    time.seconds = 0.0
    assert limit.wait("a") == 0.0
    assert limit.wait("a") > 0


def test_the_quietest_key_is_forgotten():
    """However many keys there are, it holds so many; a busy one stays."""
    limit = RateLimit(1, Time(), most_keys=3)
    for name in ("busy", "b", "c", "busy", "d"):
        limit.wait(name)
    assert list(limit._buckets) == ["c", "busy", "d"]
    assert limit.wait("busy") > 0


@pytest.mark.parametrize("given", [{"per_minute": -1}, {"per_minute": 1, "most_keys": 0}])
def test_nonsense(given):
    with pytest.raises(ValueError, match="0 or more"):
        RateLimit(**given)
