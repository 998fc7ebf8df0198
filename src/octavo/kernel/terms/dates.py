"""The one reader of days as people write them, in Chinese and English: on the calendar, or counted back from today.

What is ambiguous (3/4/2024) is left alone. Festivals have their days, too: those of the lunar calendar by a table, since no
formula is short.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import NamedTuple, TypeAlias

from octavo.kernel.text import lazy_pattern

_YEARS_BACK = 10
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_ENGLISH_NUMBERS = {"a": 1, "an": 1} | {name: n for n, name in enumerate(_NUMBERS.split(), 1)}
_ENGLISH_NUMBERS |= {"thirty": 30, "forty": 40, "fifty": 50}
NUMBER_NAMES = "|".join(_ENGLISH_NUMBERS)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
    " sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth"
    " twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
)
_ORDINAL_DAYS = {name: f"{n}th" for n, name in enumerate(_ORDINALS.split(), 1)}
ORDINAL_NAMES = "|".join(_ORDINAL_DAYS)
_UNIT_NAMES = "day 天 日|week 周 星期 礼拜|month 月|year 年"
#: The units of the calendar by their names.
UNITS = {name: names.split()[0] for names in _UNIT_NAMES.split("|") for name in names.split()}
WEEKDAY_NAMES = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
#: The days of the week by their names; Monday is 0.
WEEKDAYS = {"天": 6} | {
    name: n for names in (WEEKDAY_NAMES.split("|"), "一二三四五六日") for n, name in enumerate(names)
}
_FULL_MONTHS = "january february march april may june july august september october november december"
_MONTHS = {name: number for number, name in enumerate(_FULL_MONTHS.split(), 1)}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}
MONTH_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DIGITS = lazy_pattern(r"(?<!\d)(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?(?!\d)")
_CHINESE = lazy_pattern(
    r"(?:(\d{4})\s*年)\s*(?:(\d{1,2})\s*月)?\s*(?:(\d{1,2})\s*[日号])?|(\d{1,2})\s*月\s*(?:(\d{1,2})\s*[日号])?"
)
_ENGLISH = lazy_pattern(
    rf"(?:(?<![\d:.,])(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b({MONTH_NAMES})\b\.?"
    r"(?:\s+(?:the\s+)?(\d{1,2})(?:st|nd|rd|th)?\b(?![\d:]))?(?:,?\s+(?:of\s+)?(\d{4})\b)?",
    re.IGNORECASE,
)
_ORDINAL = lazy_pattern(rf"\b(?:{ORDINAL_NAMES})(?= of (?:{MONTH_NAMES})\b)", re.IGNORECASE)
# 二〇一九年, 零八年, 98年, 21年3月; but 三四年 is three or four years, 20年 are twenty, and 85年的 is how old somebody is.
_HAN_YEARS = (
    "[一二][〇零一二三四五六七八九]{3}(?=年)|(?<![百千万十第〇零一二两三四五六七八九])(?:[〇零][一二三四五六七八九]"
    "|一[〇零三四五六七八九]|八[〇零一二三四五六七]|九[〇零一二三四五六七八])(?=年(?![代前后多来了级的生出]))"
)
_SHORT_YEARS = r"(?<!\d)\d\d(?=年(?:\d|十|[一二三四五六七八九])\S?月)|(?<![\d了有])(?:0\d|[89]\d)(?=年(?![代前后多来了级的生出]))"
YEARS_CHINESE = rf"(?:\d{{4}}|{_SHORT_YEARS}|{_HAN_YEARS})年"
_HAN_YEAR = lazy_pattern(_HAN_YEARS)
_SHORT_YEAR = lazy_pattern(_SHORT_YEARS)
_HAN_DAY = lazy_pattern("(?:[一二三]?十[一二三四五六七八九]?|[一二三四五六七八九])(?=[月日号])")
HAN_NUMBERS = "〇零一二两三四五六七八九十"
#: A count; of 三四天 nobody knows which.
HAN_COUNT = r"(?:\d{1,3}|[一二三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九])"
_YEAR = lazy_pattern(r"(?<!\d)((?:19|20)\d\d)(?!\d)")
# A month's name that is also another word counts only beside a number or after one of these.
_DOUBTFUL = ("may", "march", "mar", "jan", "sep", "dec", "jun")
_LEADS_TO_MONTH = lazy_pattern(
    r"\b(?:in|of|on|during|since|until|till|by|before|after|last|next|this|early|late|mid)\s+$", re.IGNORECASE
)


class Day(NamedTuple):
    """A day, a month or a year as it was written; what was not said is None."""

    year: int | None
    month: int | None = None
    day: int | None = None


def days(text: str) -> list[Day]:
    """The days, months and years a text names, in the order written, without what no calendar has."""
    if "月" in text or "年" in text:
        text = in_digits(text)
    text = _ORDINAL.sub(lambda match: _ORDINAL_DAYS[match[0].lower()], text)
    found: dict[int, Day] = {}
    taken = bytearray(len(text))  # which characters a day was read from already
    for match in _DIGITS.finditer(text):
        _keep(found, taken, match, Day(int(match[1]), int(match[3]), int(match[4]) if match[4] else None))
    if "月" in text or "年" in text:
        for match in _CHINESE.finditer(text):
            year, month, day = match[1], match[2] or match[4], match[3] or match[5]
            _keep(found, taken, match, Day(*(int(part) if part else None for part in (year, month, day))))
    for match in _ENGLISH.finditer(text):
        name, day, year = match[2].lower(), match[1] or match[3], match[4]
        # No further back than this: of a text that is nothing but months, all would be read for each of them.
        back, at = max(0, match.start(2) - 16), match.start(2)
        sure = match[2][0].isupper() and _LEADS_TO_MONTH.search(text, back, at)
        if not (day or year or sure) and name in _DOUBTFUL:
            continue
        _keep(found, taken, match, Day(int(year) if year else None, _MONTHS[name], int(day) if day else None))
    for match in _YEAR.finditer(text):
        _keep(found, taken, match, Day(int(match[1])))
    return [found[at] for at in sorted(found)]


def in_digits(text: str) -> str:
    """The text with the years, months and days of the calendar in digits: 二〇一九年五月二十号 is 2019年5月20号."""
    text = _HAN_YEAR.sub(lambda match: _full_year("".join(str(_han_digit(one)) for one in match[0])), text)
    text = _HAN_DAY.sub(lambda match: str(small_number(match[0])), text)
    return _SHORT_YEAR.sub(lambda match: _full_year(match[0]), text)


def _full_year(digits: str) -> str:
    return digits if len(digits) > 2 else f"{'19' if digits >= '50' else '20'}{digits}"


def _keep(found: dict[int, Day], taken: bytearray, match: "re.Match[str]", day: Day) -> None:
    start, end = match.span()
    if any(taken[start:end]) or not _is_on_calendar(day):
        return
    taken[start:end] = b"\1" * (end - start)
    found[start] = day


def _is_on_calendar(day: Day) -> bool:
    if day.day is not None and day.month is None:
        return False
    year = 2000 if day.year is None else day.year  # a leap year: 29 February is a day
    try:
        date(year, 1 if day.month is None else day.month, 1 if day.day is None else day.day)
    except ValueError:
        return False
    return True


class DayRange(NamedTuple):
    """From a day to a day, both included."""

    first: date
    last: date


def spans(text: str, at: datetime) -> tuple[DayRange, ...]:
    """The days, months and years a text names; what has no year may be of any of the last ten, or the next."""
    years = range(at.year - _YEARS_BACK, at.year + 2)
    return tuple(dict.fromkeys(span for day in days(text) for span in spans_of_day(day, years)))


def relative_spans(text: str, at: datetime) -> tuple[DayRange, ...]:
    """The times a text counts back from now: yesterday, last week, 上个月, 三天前."""
    found = [make(match, at.date()) for pattern, make in _RELATIVE for match in pattern.finditer(text)]
    return tuple(dict.fromkeys(found))


def calendar_span(today: date, unit: str, n: int) -> DayRange:
    """The day, calendar week, month or year that many units after today's, or before it."""
    if unit == "day":
        day = today + timedelta(days=n)
        return DayRange(day, day)
    if unit == "week":
        monday = today + timedelta(days=7 * n - today.weekday())
        return DayRange(monday, monday + timedelta(days=6))
    if unit == "year":
        return DayRange(date(today.year + n, 1, 1), date(today.year + n, 12, 31))
    year, month = divmod(today.year * 12 + today.month - 1 + n, 12)
    return DayRange(date(year, month + 1, 1), date(year, month + 1, monthrange(year, month + 1)[1]))


def last_weekday(today: date, weekday: int) -> date:
    """The latest such day of the week before today."""
    return today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)


def small_number(word: str) -> int:
    """A small number in digits, Chinese or English."""
    if word.isdigit():
        return int(word)
    if word in _ENGLISH_NUMBERS:
        return _ENGLISH_NUMBERS[word]
    if "十" in word:
        tens, _, ones = word.partition("十")
        return 10 * (_han_digit(tens) or 1) + _han_digit(ones)
    return _han_digit(word)


def _han_digit(word: str) -> int:
    return "零一二三四五六七八九".find(word.replace("两", "二").replace("〇", "零")[:1]) if word else 0


def spans_of_day(day: Day, years: Iterable[int]) -> list[DayRange]:
    """From when to when a day, a month or a year is; without a year, of each of these years."""
    years = [day.year] if day.year else years
    if day.month is None:
        return [DayRange(date(year, 1, 1), date(year, 12, 31)) for year in years]
    found = []
    for year in years:
        most = monthrange(year, day.month)[1]
        if day.day is None or day.day <= most:  # there is no 29 February in most years
            found.append(
                DayRange(date(year, day.month, day.day or 1), date(year, day.month, day.day or most))
            )
    return found


_MakeSpan: TypeAlias = Callable[["re.Match[str]", date], DayRange]


def _units_ago(match: "re.Match[str]", today: date) -> DayRange:
    unit = UNITS[match[2].lower()]
    return calendar_span(today, unit, -min(small_number(match[1].lower()), 1000 if unit == "day" else 100))


def _last_weekday(match: "re.Match[str]", today: date) -> DayRange:
    """Last Friday: the latest one before today."""
    day = last_weekday(today, WEEKDAYS[match[1].lower()])
    return DayRange(day, day)


def _weekday_of_last_week(match: "re.Match[str]", today: date) -> DayRange:
    """上周五: the Friday of the week before this one; 上周末 is two days."""
    monday = calendar_span(today, "week", -len(match[1])).first
    if match[2] == "末":
        return DayRange(monday + timedelta(days=5), monday + timedelta(days=6))
    day = monday + timedelta(days=WEEKDAYS[match[2]])
    return DayRange(day, day)


def _units(unit: str, n: int) -> _MakeSpan:
    return lambda _, today: calendar_span(today, unit, n)


_RELATIVE: list[tuple["re.Pattern[str]", _MakeSpan]] = [
    (lazy_pattern(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (r"\b(?:today|this (?:morning|afternoon|evening)|tonight)\b|今天|今早|今晚|刚才", _units("day", 0)),
        (r"(?<!before )\b(?:yesterday|last night)\b|昨天|昨晚|昨日", _units("day", -1)),
        (r"\bthe day before yesterday\b|(?<!大)前天", _units("day", -2)),
        ("大前天", _units("day", -3)),
        (r"\bthis week\b|(?:这|本)个?(?:周|星期|礼拜)(?![一二三四五六日天末])", _units("week", 0)),
        (r"\blast week\b|(?<!上)上个?(?:周|星期|礼拜)(?![一二三四五六日天末])", _units("week", -1)),
        (r"\ba fortnight ago\b|上上个?(?:周|星期|礼拜)(?![一二三四五六日天末])", _units("week", -2)),
        (r"\bthis month\b|(?:这个?|本)月", _units("month", 0)),
        (r"\blast month\b|(?<!上)上个?月", _units("month", -1)),
        ("上上个?月", _units("month", -2)),
        (r"\bthis year\b|今年", _units("year", 0)),
        (r"\blast year\b|去年", _units("year", -1)),
        (r"(?<![大目])前年", _units("year", -2)),
        ("大前年", _units("year", -3)),
        (
            r"\bthe (week|month|year) before last\b",
            lambda match, today: calendar_span(today, match[1].lower(), -2),
        ),
        (rf"\blast ({WEEKDAY_NAMES})\b", _last_weekday),
        (r"(上{1,2})个?(?:周|星期|礼拜)([一二三四五六日天末])", _weekday_of_last_week),
        (rf"(?<!half )\b(\d{{1,3}}|{NUMBER_NAMES}) (day|week|month|year)s? ago\b", _units_ago),
        (rf"(?<![\d{HAN_NUMBERS}])({HAN_COUNT})个?(天|日|周|星期|礼拜|月|年)(?:以|之)?前", _units_ago),
    )
]


_FIRST_YEAR = 1970
# A year each: its first day counted from 20 January, a bit for each month that has thirty days, and which month comes twice.
# Made of the new moons and the sun's longitude at Beijing; none of the moons is within two minutes of midnight.
_LUNAR_YEARS = (
    "22b690 0f7525 34b520 1cb250 0764b4 2ca4b0 174ab8 3a2ad0 2456d0 10b696 36da90 20d920 0bd254 30d250 1ba4da "
    "3ea560 282b60 125b56 386d50 22ea90 0fe925 34e920 1ed260 06a563 2aa570 174d68 3c35a0 246d50 116c95 367490 "
    "206930 0952b4 2e52b0 18a5b0 0555a2 2856a0 13b557 3aba40 24b490 0da935 32a950 1c52d0 06aad4 2aab50 175aa9 "
    "3c5d20 26da50 11d4a6 36d4a0 20c950 0b52e4 2e5560 18ab50 055b22 2a6d20 12ea56 387250 2264b0 0cc975 30cab0 "
    "1c55a0 06ad63 2cb690 17752b 3cb520 26b250 11a4b6 34a4b0 1e4ab0 0855b5 2e5ad0 18b6a0 05b522 2ad920 15d257 "
    "38d250 22a550 0d4ad5 324b60 1a5b50 06daa3 2cec90 19e928 3ce920 26d260 10a566 34a570"
)
_SOLAR = {
    "元旦": (1, 1), "情人节": (2, 14), "妇女节": (3, 8), "三八妇女节": (3, 8), "三八节": (3, 8), "劳动节": (5, 1), "五一": (5, 1), "儿童节": (6, 1), "六一": (6, 1), "教师节": (9, 10),
    "国庆": (10, 1), "双十一": (11, 11), "双11": (11, 11), "双十二": (12, 12), "双12": (12, 12), "平安夜": (12, 24), "圣诞": (12, 25), "跨年夜": (12, 31),
    "new year's day": (1, 1), "valentine's day": (2, 14), "valentine's": (2, 14), "halloween": (10, 31), "christmas eve": (12, 24), "christmas day": (12, 25),
    "christmas": (12, 25), "xmas": (12, 25), "boxing day": (12, 26), "new year's eve": (12, 31),
}  # fmt: skip
_LUNAR = {
    "春节": (1, 1), "元宵节": (1, 15), "端午": (5, 5), "七夕": (7, 7), "中元节": (7, 15), "中秋": (8, 15), "重阳": (9, 9), "腊八": (12, 8), "除夕": (12, 30), "年三十": (12, 30), "大年三十": (12, 30),
    "chinese new year": (1, 1), "lunar new year": (1, 1), "lantern festival": (1, 15), "dragon boat festival": (5, 5), "mid-autumn festival": (8, 15),
}  # fmt: skip
_TOMB_SWEEPING = "清明"
#: As a pattern, the longer names first.
FESTIVAL_NAMES = "|".join(sorted((*_SOLAR, *_LUNAR, _TOMB_SWEEPING), key=len, reverse=True))


def festival_day(name: str, year: int) -> date | None:
    """The day of a festival in a year of the calendar; None where no table says."""
    if name == _TOMB_SWEEPING:
        short = year - 2000
        return date(year, 4, int(short * 0.2422 + 4.81) - short // 4) if 0 <= short < 100 else None
    if name in _SOLAR:
        return date(year, *_SOLAR[name])
    month, day = _LUNAR[name]
    return lunar_day(year - (month == 12), month, day)  # the twelfth month is the next January, mostly


def lunar_day(year: int, month: int, day: int) -> date | None:
    """A day of the lunar calendar; the thirtieth of a month that has 29 is its last."""
    at = 7 * (year - _FIRST_YEAR)
    if not (0 <= at < len(_LUNAR_YEARS) and 1 <= month <= 12 and 1 <= day <= 30):
        return None
    code = int(_LUNAR_YEARS[at : at + 6], 16)
    first, long_months, twice = code >> 17, code >> 4 & 0x1FFF, code & 15
    before = month - 1 + (0 < twice < month)
    days = 29 * before + (long_months & ((1 << before) - 1)).bit_count()
    day = min(day, 29 + (long_months >> before & 1))
    return date(year, 1, 20) + timedelta(days=first + days + day - 1)
