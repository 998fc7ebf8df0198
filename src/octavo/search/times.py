"""How well a record's time fits the times that a question names."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

from octavo.kernel.terms.dates import Span

_HALF_LIFE_DAYS = 10.0


def fit(named: Sequence[Span], at: datetime) -> float:
    """1.0 for a time inside one of the spans; half of that ten days after, or five before.

    What happened is told later: a record from soon after the day is likelier about it than one from before.
    """
    told = at.astimezone(UTC).date()
    off = min((_days_off(span, told) for span in named), default=None)
    return 0.0 if off is None else float(0.5 ** (off / _HALF_LIFE_DAYS))


def _days_off(span: Span, told: date) -> int:
    if told < span.first:
        return 2 * (span.first - told).days
    return max(0, (told - span.last).days)
