"""How often each key may call."""

import time
from collections import OrderedDict
from collections.abc import Callable


class RateLimit:
    """A bucket of tokens for each key: full at first, filled evenly, one token for each request.

    So a key that was idle may make a minute's requests at once, and then as many as come in with time. 0 is no limit.
    """

    def __init__(
        self, per_minute: int, clock: Callable[[], float] = time.monotonic, *, most_keys: int = 10_000
    ) -> None:
        if per_minute < 0 or most_keys < 1:
            raise ValueError(f"a rate must be 0 or more, for 1 key or more; got {per_minute}, {most_keys}")
        self.per_minute = per_minute
        self._clock = clock
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # tokens, and when there were so many

    def wait(self, key_id: str) -> float:
        """Take a token and answer 0; without one, the seconds until there is one."""
        if not self.per_minute:
            return 0.0
        now, per_second = self._clock(), self.per_minute / 60
        tokens, since = self._buckets.pop(key_id, (float(self.per_minute), now))
        tokens = min(float(self.per_minute), tokens + max(0.0, now - since) * per_second)
        lacking = 0.0 if tokens >= 1 else (1 - tokens) / per_second
        self._buckets[key_id] = (tokens if lacking else tokens - 1, now)
        if len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)  # the one that has been quiet longest, so the fullest
        return lacking
