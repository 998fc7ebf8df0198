"""The times a question names, as spans of days, and how well a record's time fits them."""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from octavo.kernel.terms.dates import Day, days

_HALF_LIFE_DAYS = 10.0
_YEARS_BACK = 10  # a month without a year may be of any of these
_ENGLISH_NUMBERS = {
    name: n
    for n, name in enumerate(
        ("a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_CHINESE_NUMBERS = {name: n for n, name in enumerate("零一二三四五六七八九十")} | {"两": 2}
_UNITS = {
    "day": "day", "week": "week", "month": "month", "year": "year",
    "天": "day", "日": "day", "周": "week", "星期": "week", "礼拜": "week", "月": "month", "年": "year",
}  # fmt: skip
_WEEKDAYS = {
    name: n
    for n, name in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
}
_WEEKDAYS |= {name: n for n, name in enumerate("一二三四五六日")} | {"天": 6}


class Span(NamedTuple):
    """From a day to a day, both included."""

    first: date
    last: date


def spans(text: str, at: datetime) -> tuple[Span, ...]:
    """The days, months and years a text names."""
    return tuple(dict.fromkeys(span for day in days(text) for span in _of_day(day, at.date())))


def relative_spans(text: str, at: datetime) -> tuple[Span, ...]:
    """The times a text counts from now: yesterday, last week, 上个月, 三天前."""
    found = [make(match, at.date()) for pattern, make in _RELATIVE for match in pattern.finditer(text)]
    return tuple(dict.fromkeys(found))


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


def _of_day(day: Day, today: date) -> list[Span]:
    years = [day.year] if day.year else range(today.year - _YEARS_BACK, today.year + 2)
    found = []
    for year in years:
        if day.month is None:
            found.append(Span(date(year, 1, 1), date(year, 12, 31)))
            continue
        most = monthrange(year, day.month)[1]
        if day.day is None or day.day <= most:  # there is no 29 February in most years
            found.append(Span(date(year, day.month, day.day or 1), date(year, day.month, day.day or most)))
    return found


def _back(today: date, unit: str, n: int) -> Span:
    """The day, calendar week, month or year that many units before today's."""
    if unit == "day":
        day = today - timedelta(days=n)
        return Span(day, day)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * n)
        return Span(monday, monday + timedelta(days=6))
    months = today.year * 12 + today.month - 1 - n
    if unit == "month":
        year, month = divmod(months, 12)
        return Span(date(year, month + 1, 1), date(year, month + 1, monthrange(year, month + 1)[1]))
    return Span(date(today.year - n, 1, 1), date(today.year - n, 12, 31))


def _ago(match: "re.Match[str]", today: date) -> Span:
    number, unit = match[1].lower(), _UNITS[match[2].lower()]
    n = int(number) if number.isdigit() else _ENGLISH_NUMBERS.get(number) or _CHINESE_NUMBERS.get(number, 1)
    return _back(today, unit, min(n, 1000 if unit == "day" else 100))


def _last_weekday(match: "re.Match[str]", today: date) -> Span:
    """Last Friday: the latest one before today."""
    day = today - timedelta(days=(today.weekday() - _WEEKDAYS[match[1].lower()] - 1) % 7 + 1)
    return Span(day, day)


def _weekday_of_last_week(match: "re.Match[str]", today: date) -> Span:
    """上周五: the Friday of the week before this one."""
    day = _back(today, "week", 1).first + timedelta(days=_WEEKDAYS[match[1]])
    return Span(day, day)


def _fixed(unit: str, n: int) -> Callable[["re.Match[str]", date], Span]:
    return lambda _, today: _back(today, unit, n)


def _pattern(text: str) -> "re.Pattern[str]":
    return re.compile(text, re.IGNORECASE)


_RELATIVE: tuple[tuple["re.Pattern[str]", Callable[["re.Match[str]", date], Span]], ...] = (
    (_pattern(r"\b(?:today|this (?:morning|afternoon|evening)|tonight)\b|今天|今早|今晚|刚才"), _fixed("day", 0)),
    (_pattern(r"(?<!before )\b(?:yesterday|last night)\b|昨天|昨晚|昨日"), _fixed("day", 1)),
    (_pattern(r"\bthe day before yesterday\b|前天"), _fixed("day", 2)),
    (_pattern(r"\bthis week\b|(?:这|本)个?(?:周|星期|礼拜)(?![一二三四五六日天末])"), _fixed("week", 0)),
    (_pattern(r"\blast week\b|上个?(?:周|星期|礼拜)(?![一二三四五六日天])"), _fixed("week", 1)),
    (_pattern(r"\bthis month\b|(?:这个?|本)月"), _fixed("month", 0)),
    (_pattern(r"\blast month\b|上个?月"), _fixed("month", 1)),
    (_pattern(r"\bthis year\b|今年"), _fixed("year", 0)),
    (_pattern(r"\blast year\b|去年"), _fixed("year", 1)),
    (_pattern(r"前年"), _fixed("year", 2)),
    (_pattern(r"\blast (monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b"), _last_weekday),
    (_pattern(r"上个?(?:周|星期|礼拜)([一二三四五六日天])"), _weekday_of_last_week),
    (_pattern(r"\b(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (day|week|month|year)s? ago\b"), _ago),
    (_pattern(r"(\d{1,3}|[一二两三四五六七八九十])个?(天|日|周|星期|礼拜|月|年)(?:以|之)?前"), _ago),
)  # fmt: skip
