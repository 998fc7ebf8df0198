"""When something happened, as a clause says it: the words, and the moment they mean, counted from another moment."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from octavo.kernel.terms.dates import (
    UNITS,
    WEEKDAY_NAMES,
    WEEKDAYS,
    Day,
    calendar_span,
    days,
    last_weekday,
    relative_spans,
    small_number,
)
from octavo.layers.rules.facts import COMMON

_HOURS = {part: int(hour) for part, hour in COMMON.pairs("HOURS").items()}
_LATER_HALF = frozenset(COMMON.words["LATER_HALF"])


class When(NamedTuple):
    """The words for a time in a text, and the moment they mean; None where they do not say which day."""

    start: int
    end: int
    words: str
    at: datetime | None


@lru_cache(maxsize=16)  # a clause is looked at several times while it is read
def times(text: str, at: datetime) -> tuple[When, ...]:
    """The times a text names, in order; what they count from is `at`."""
    found: list[When] = []
    if not COMMON.TIME_HINT.search(text):
        return ()
    for pattern in (COMMON.CHINESE, COMMON.ENGLISH):
        if pattern is COMMON.CHINESE and text.isascii():
            continue
        for match in pattern.finditer(text):
            groups = match.groupdict()
            day, part = groups["day"] or groups.get("day2") or "", groups["part"] or groups["part2"] or ""
            clock = groups["clock"] or groups["clock2"] or groups.get("clock3") or ""
            words = match[0].strip()
            found.append(When(*match.span(), words, _moment(day, part, clock, text, at)))
    return tuple(sorted(found))


def without_times(text: str, at: datetime) -> str:
    """The text without the words that say when."""
    for when in reversed(times(text, at)):
        text = text[: when.start] + text[when.end :]
    return text


def _moment(day: str, part: str, clock: str, text: str, at: datetime) -> datetime | None:
    if day in ("刚才", "刚刚", "方才") or day.lower() == "just now":
        return at
    try:
        which = _which_day(day.lower(), text, at) if day else at.date()
    except (ValueError, OverflowError):  # the first and the last years of the calendar
        return None
    if which is None:
        return None
    part = part.lower().removeprefix("in the ").removeprefix("at ").strip()
    if not part and day:
        part = next((one for one in _HOURS if day.lower().endswith(one)), "")
    hour = _clock(clock.lower(), part)
    if hour is None and clock and not day and not part:
        return None  # 99:99
    if hour is None:
        hour = time(_HOURS[part]) if part in _HOURS else time()
    return datetime.combine(which, hour, at.tzinfo)


def _clock(words: str, part: str) -> time | None:
    numbers = [small_number(n) for n in COMMON.NUMBERS.findall(words)]
    if not numbers:
        return None
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 30 if "半" in words else 0
    if words.endswith(("一刻", "三刻")):
        minute = 15 if words.endswith("一刻") else 45
    late = part in _LATER_HALF or re.search(r"p\.?m", words)
    if hour < 12 and late:
        hour += 12
    elif hour == 12 and re.search(r"a\.?m", words):
        hour = 0
    return time(hour, minute) if hour < 24 and minute < 60 else None


def _which_day(words: str, text: str, at: datetime) -> date | None:
    today = at.date()
    if words.startswith("in ") and COMMON.SO_FAR.search(text) and not _is_future(text):
        return None  # "I haven't smoked in two years" says how long, not when
    words = COMMON.HAN_DAY.sub(lambda match: str(small_number(match[0])), words)
    if (of_month := re.fullmatch(r"(.*月)(\d{1,2})[日号]", words)) and not days(words):  # 下个月15号
        month = _which_day(of_month[1], text, at)
        return month.replace(day=int(of_month[2])) if month else None
    if "大" not in words and (found := relative_spans(words, at)):  # 大前天 is no 前天
        named = found[0].first
        # 去年3月5日: the year is counted from now, the day is named.
        if (day := next(iter(days(words)), None)) is not None and day.month and "年" in words:
            return _calendar(Day(named.year, day.month, day.day), today)
        return named
    for pattern, make in _DAYS:
        if match := pattern.search(words):
            return make(match, today, _is_future(text) or _is_open(text))
    if words.startswith("明年") and (day := next(iter(days(words)), None)) is not None:
        return _calendar(Day(today.year + 1, day.month, day.day), today)
    # A month by itself counts only after "in", which the caller saw: it is given back for the reading.
    named_days = days(words) or days("in " + words.capitalize())
    if not named_days:
        return None
    return _calendar(named_days[0], today, _is_future(text), _is_open(text))


@lru_cache(maxsize=16)  # the same for each time that a clause names
def _is_future(text: str) -> bool:
    return COMMON.FUTURE.search(text) is not None


@lru_cache(maxsize=16)
def _is_open(text: str) -> bool:
    """Whether a clause leaves open whether it was or will be: "we move on 15 January"."""
    past = COMMON.PAST_ENGLISH if text.isascii() else COMMON.PAST_CHINESE
    return not _is_future(text) and not past.search(text)


def _calendar(day: Day, today: date, future: bool = False, unsaid: bool = False) -> date | None:
    """The day on the calendar; without a year the last one, the next for what is to come, the nearest if nothing says which."""
    if day.month is None:
        return date(day.year, 1, 1) if day.year else None
    found = []
    for year in [day.year] if day.year else range(today.year - 8, today.year + 9):  # 29 February is rare
        try:
            found.append(date(year, day.month, day.day or 1))
        except ValueError:
            continue
    if day.year or not found:
        return found[0] if found else None
    if unsaid:
        return min(found, key=lambda one: abs((one - today).days))
    if future:
        return min((one for one in found if one >= today), default=None)
    return max((one for one in found if one <= today), default=None)


_MakeDay: TypeAlias = Callable[["re.Match[str]", date, bool], date]


def _units(unit: str, n: int) -> _MakeDay:
    return lambda _match, today, _future: calendar_span(today, unit, n).first


def _week_zh(match: "re.Match[str]", today: date, future: bool) -> date:
    weeks = {"上上": -2, "上": -1, "下": 1, "下下": 2}.get(match[1] or "", 0)
    day = match[2] or "一"
    if not match[1] and day == "末" and not future and today.weekday() < 5:
        weeks = -1  # 周末 told on a working day is the one that was
    return calendar_span(today, "week", weeks).first + timedelta(days=5 if day == "末" else WEEKDAYS[day])


def _weekday_en(match: "re.Match[str]", today: date, future: bool) -> date:
    wanted = WEEKDAYS[match[2]]
    if match[1] == "next" or (future and match[1] != "this"):
        return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    if match[1] == "this":
        return calendar_span(today, "week", 0).first + timedelta(days=wanted)
    return last_weekday(today, wanted)


def _weekend_en(match: "re.Match[str]", today: date, _future: bool) -> date:
    weeks = {"last": -1, "next": 1}.get(match[1], 0)
    return calendar_span(today, "week", weeks).first + timedelta(days=5)


def _day_of_month(match: "re.Match[str]", today: date, future: bool) -> date:
    """The 17th: the next one that is to come, or the last one that was."""
    named = int(match[1])
    near = (today + timedelta(days=n if future else -n) for n in range(62))
    return next((day for day in near if day.day == named), today)


def _units_ahead(match: "re.Match[str]", today: date, _future: bool) -> date:
    n, unit = min(small_number(match[1]), 100), UNITS[match[2]]
    if unit in ("day", "week"):
        return today + timedelta(days=n if unit == "day" else 7 * n)
    return calendar_span(today, "month", n if unit == "month" else 12 * n).first


#: What `relative_spans` does not read: days to come, and those that the rest of a clause tells whether they are to come.
_DAYS: list[tuple["re.Pattern[str]", _MakeDay]] = [
    (re.compile(pattern), make)
    for pattern, make in (
        ("大前天", _units("day", -3)),
        ("大后天", _units("day", 3)),
        ("后[天儿]|day after tomorrow", _units("day", 2)),
        ("明[天儿]|明日|明早|明晚|tomorrow", _units("day", 1)),
        ("今日|今儿|今晨|当天|this night", _units("day", 0)),
        ("昨夜|昨儿|yesterday", _units("day", -1)),
        ("前晚", _units("day", -2)),
        (rf"({COMMON.COUNT.pattern})个?(天|日|周|星期|礼拜|月|年)(?:之|以)?后", _units_ahead),
        ("(上上|下下|上|下|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天末])?", _week_zh),
        ("下个?月|next month", _units("month", 1)),
        ("next week$", _units("week", 1)),
        ("next year|明年$", _units("year", 1)),
        ("后年", _units("year", 2)),
        (r"(this|last|next)\s+weekend", _weekend_en),
        (rf"(?:(this|last|next)\s+)?({WEEKDAY_NAMES})", _weekday_en),
        (r"^(?:the )?(\d{1,2})(?:st|nd|rd|th|[号日])$", _day_of_month),
        (r"in\s+(\w+)\s+(day|week|month|year)s?", _units_ahead),
    )
]
