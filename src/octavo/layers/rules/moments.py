"""When something happened, as a clause says it: the words, and the moment they mean, counted from another moment."""

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from octavo.kernel.terms.dates import (
    FESTIVAL_NAMES,
    NUMBER_NAMES,
    UNITS,
    WEEKDAY_NAMES,
    WEEKDAYS,
    Day,
    DayRange,
    calendar_span,
    days,
    festival_day,
    in_digits,
    last_weekday,
    lunar_day,
    relative_spans,
    small_number,
    spans_of_day,
)
from octavo.kernel.text import lazy_pattern
from octavo.layers.rules.facts import COMMON

_HOURS = {part: int(hour) for part, hour in COMMON.pairs("HOURS").items()}
_LATER_HALF = frozenset(COMMON.words["LATER_HALF"])
_FESTIVAL = lazy_pattern(FESTIVAL_NAMES)
_YEARS = {"大前年": -3, "前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2, "last year": -1, "this year": 0, "next year": 1}  # fmt: skip
_SEASONS = {"春": "3月", "夏": "6月", "秋": "9月", "冬": "12月"}
_LUNAR_MONTHS = {"正": 1, "冬": 11, "腊": 12, "": 1}
#: Which day of a week and of a month, and which month of a year, stands for a part of it; an end is the last day of the longer ones.
_PARTS = {"begin": (0, 0, 0), "mid": (2, 14, 6), "tens": (0, 10, 0), "late": (3, 20, 9), "end": (4, -1, -1)}


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
            if COMMON.EVERY_YEARS.fullmatch(day) and _is_open(text):
                continue
            if COMMON.EVERY_MONTHS.fullmatch(day) and (not _is_future(text) or " due " in text):
                continue  # "I get paid at the end of the month"
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
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 30 if re.search("半|half", words) else 0
    if words.endswith(("一刻", "三刻")) or "quarter past" in words:
        minute = 45 if words.endswith("三刻") else 15
    elif "quarter to" in words:
        hour, minute = hour - 1, 45
    if hour <= 6 and not part and words.isascii() and not re.search(r"\d", words):
        return None  # "on Thursday at four" is said of either half of a day
    late = part in _LATER_HALF or re.search(r"p\.?m", words)
    if hour < 12 and late:
        hour += 12
    elif hour == 12 and re.search(r"a\.?m", words):
        hour = 0
    return time(hour, minute) if 0 <= hour < 24 and minute < 60 else None


def _which_day(words: str, text: str, at: datetime) -> date | None:
    today, words = at.date(), in_digits(words)
    if words.startswith("in ") and COMMON.SO_FAR.search(text) and not _is_future(text):
        return None  # "I haven't smoked in two years" says how long, not when
    part = ""
    if match := COMMON.PART_OF_SPAN.search(words):
        part, words = match.lastgroup or "", (words[: match.start()] + words[match.end() :]).strip()
    found = [_part_of(span, part) for span in _spans(words, text, at)]
    if len(found) > 1:  # the same of several years: the last one, or the next of what is to come
        if words.startswith("last "):
            found = [span for span in found if span.last < today][-1:]
        elif words.startswith("next "):
            found = [span for span in found if span.first > today]
        elif _is_future(text):
            found = [span for span in found if span.last >= today]
        elif _is_open(text):
            found.sort(key=lambda span: abs((span.first - today).days))
        else:
            found = [span for span in found if span.first <= today][-1:]
    return found[0].first if found else None


def _part_of(span: DayRange, part: str) -> DayRange:
    """The day that stands for a part of a week, a month or a year; without a part the whole of it."""
    length = (span.last - span.first).days
    if not part or not length:
        return span
    after = _PARTS[part][(length > 6) + (length > 31)]
    day = span.last if after < 0 else span.first + timedelta(days=after)
    return DayRange(day, day) if length <= 31 or after < 0 else calendar_span(span.first, "month", after)


def _spans(words: str, text: str, at: datetime) -> list[DayRange]:
    """The day, week, month or year that is meant; of what has no year that of several; none where nobody can tell."""
    today = at.date()
    for season, of_year in _SEASONS.items():
        words = re.sub(f"{season}[天季]", of_year, words)
    # A month by itself counts only after "in", which the caller saw: it is given back for the reading.
    named = next(iter(days(words) or days("in " + COMMON.BEFORE_MONTH.sub("", words).capitalize())), None)
    year = next(
        (today.year + n for name, n in _YEARS.items() if name in words), named.year if named else None
    )
    years = [year] if year else range(today.year - 8, today.year + 9)  # 29 February is rare
    if match := COMMON.LUNAR_DAY.search(words):
        month = _LUNAR_MONTHS.get(match["month"]) or int(match["month"])
        if "闰" in words or (year and month > 10):
            return []  # whether the twelfth month of a year is that of its own, people do not agree
        day = small_number(match["day"]) + 20 * (match["tens"] == "廿")
        return _whole_days(lunar_day(one, month, day) for one in years)
    if match := _FESTIVAL.search(words):
        return _whole_days(festival_day(match[0], one) for one in years)
    if match := COMMON.NEAREST_SPAN.match(words):
        near = (0,) if _is_open(text) else (-1, 0, 1)
        return [calendar_span(today, UNITS[match[1]], n) for n in near]
    if COMMON.UNSURE.search(words):
        return []
    if match := COMMON.DAY_OF_MONTH.fullmatch(words):  # 下个月15号, the 14th of last month
        month_named = _spans(match["month"] or match["of"], text, at)
        return _whole_days(
            one.first.replace(day=small_number(match["day"] or match["nth"])) for one in month_named
        )
    if named and named.month:
        if words.startswith("this "):
            years = [today.year]
        return spans_of_day(Day(year, named.month, named.day), years)
    if year:
        return [calendar_span(today, "year", year - today.year)]
    if (found := relative_spans(words, at)) and "ago today" not in words:
        return [found[0]]
    for pattern, make in _DAYS:
        if match := pattern.search(words):
            return [make(match, today, _is_future(text) or _is_open(text))]
    return []


def _whole_days(found: Iterable[date | None]) -> list[DayRange]:
    return [DayRange(day, day) for day in found if day]


@lru_cache(maxsize=16)  # the same for each time that a clause names
def _is_future(text: str) -> bool:
    return COMMON.FUTURE.search(text) is not None


@lru_cache(maxsize=16)
def _is_open(text: str) -> bool:
    """Whether a clause leaves open whether it was or will be: "we move on 15 January"."""
    past = COMMON.PAST_ENGLISH if text.isascii() else COMMON.PAST_CHINESE
    return not _is_future(text) and not past.search(text)


_MakeSpan: TypeAlias = Callable[["re.Match[str]", date, bool], DayRange]


def _units(unit: str, n: int) -> _MakeSpan:
    return lambda _match, today, _future: calendar_span(today, unit, n)


def _one_day(make: Callable[["re.Match[str]", date, bool], date]) -> _MakeSpan:
    return lambda match, today, future: DayRange(*[make(match, today, future)] * 2)


@_one_day
def _week_zh(match: "re.Match[str]", today: date, future: bool) -> date:
    weeks = {"下": 1, "下下": 2}.get(match[1] or "", 0)
    day = match[2] or "一"
    if not match[1] and day == "末" and not future and today.weekday() < 5:
        weeks = -1  # 周末 told on a working day is the one that was
    on = calendar_span(today, "week", weeks).first + timedelta(days=5 if day == "末" else WEEKDAYS[day])
    if match[1] or day == "末" or not match[2] or (on > today if future else on < today) or on == today:
        return on
    return on + timedelta(days=7 if future else -7)  # 周一回来 is the next one, 周五去了医院 the last


@_one_day
def _weekday_en(match: "re.Match[str]", today: date, future: bool) -> date:
    wanted = WEEKDAYS[match[2]]
    if match[1] == "next" or (future and match[1] != "this"):
        return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    if match[1] == "this":
        return calendar_span(today, "week", 0).first + timedelta(days=wanted)
    return last_weekday(today, wanted)


@_one_day
def _weeks_from(match: "re.Match[str]", today: date, _future: bool) -> date:
    """A week from Friday: from the next one."""
    weekday = WEEKDAYS.get(match[2], (today.weekday() + 1) % 7)
    return today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1 + 7 * small_number(match[1]))


@_one_day
def _weekend_en(match: "re.Match[str]", today: date, _future: bool) -> date:
    weeks = {"last": -1, "next": 1}.get(match[1], 0)
    return calendar_span(today, "week", weeks).first + timedelta(days=5)


@_one_day
def _day_of_month(match: "re.Match[str]", today: date, future: bool) -> date:
    """The 17th: the next one that is to come, or the last one that was."""
    named = int(match[1])
    near = (today + timedelta(days=n if future else -n) for n in range(62))
    return next((day for day in near if day.day == named), today)


def _units_ahead(match: "re.Match[str]", today: date, _future: bool) -> DayRange:
    n, unit = min(small_number(match[1]), 100), match[2]
    if in_days := {"day": 1, "week": 7, "fortnight": 14}.get(UNITS.get(unit, unit)):
        return calendar_span(today, "day", in_days * n)
    return calendar_span(today, "month", n if UNITS[unit] == "month" else 12 * n)


#: What `relative_spans` does not read: days to come, and those that the rest of a clause tells whether they are to come.
_DAYS: list[tuple["re.Pattern[str]", _MakeSpan]] = [
    (lazy_pattern(pattern), make)
    for pattern, make in (
        ("大后天", _units("day", 3)),
        ("后[天儿]|day after tomorrow", _units("day", 2)),
        (rf"(\w+) weeks? (?:from |on )?(tomorrow|{WEEKDAY_NAMES})", _weeks_from),
        ("明[天儿]|明日|明早|明晚|tomorrow", _units("day", 1)),
        ("今日|今儿|今晨|当天|this night", _units("day", 0)),
        ("昨夜|昨儿|yesterday", _units("day", -1)),
        ("前晚|the night before last", _units("day", -2)),
        (rf"({COMMON.COUNT.pattern})个?(天|日|周|星期|礼拜|月|年)(?:之|以)?后", _units_ahead),
        ("(下下|下|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天末])?", _week_zh),
        ("下下个?月", _units("month", 2)),
        ("下个?月|next month", _units("month", 1)),
        ("next week$", _units("week", 1)),
        ("the (week|month|year) after next", lambda match, today, _: calendar_span(today, match[1], 2)),
        (
            r"(\w+) weeks? ago today",
            lambda match, today, _: calendar_span(today, "day", -7 * small_number(match[1])),
        ),
        (r"(this|last|next)\s+weekend", _weekend_en),
        (
            rf"the ({WEEKDAY_NAMES}) before last",
            lambda match, today, _: calendar_span(last_weekday(today, WEEKDAYS[match[1]]), "day", -7),
        ),
        (rf"(?:(this|last|next)\s+)?({WEEKDAY_NAMES})", _weekday_en),
        (r"^(?:the )?(\d{1,2})(?:st|nd|rd|th|[号日])$", _day_of_month),
        (
            rf"\b(\d+|{NUMBER_NAMES})\s+(day|week|fortnight|month|year)s?(?: from (?:now|today))?$",
            _units_ahead,
        ),
    )
]
