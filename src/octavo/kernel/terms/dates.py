"""Days as people write them, in Chinese and English; what is ambiguous (3/4/2024) is left alone."""

import re
from datetime import date
from typing import NamedTuple

_MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sept sep", "october oct", "november nov", "december dec"), 1
    )
    for name in names.split()
}  # fmt: skip
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DIGITS = re.compile(r"(?<!\d)(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?(?!\d)")
_CHINESE = re.compile(
    r"(?:(\d{4})\s*年)\s*(?:(\d{1,2})\s*月)?\s*(?:(\d{1,2})\s*[日号])?|(\d{1,2})\s*月\s*(?:(\d{1,2})\s*[日号])?"
)
_ENGLISH = re.compile(
    rf"(?:(?<![\d:.,])(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b({_NAMES})\b\.?"
    r"(?:\s+(\d{1,2})(?:st|nd|rd|th)?\b(?![\d:]))?(?:,?\s+(?:of\s+)?(\d{4})\b)?",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<!\d)((?:19|20)\d\d)(?!\d)")
# A month's name that is also another word counts only beside a number or after one of these.
_DOUBTFUL = ("may", "march", "mar", "jan", "sep", "dec", "jun")
_LEADS_TO_MONTH = re.compile(
    r"\b(?:in|of|on|during|since|until|till|by|before|after|last|next|this|early|late|mid)\s+$", re.IGNORECASE
)


class Day(NamedTuple):
    """A day, a month or a year as it was written; what was not said is None."""

    year: int | None
    month: int | None = None
    day: int | None = None


def days(text: str) -> list[Day]:
    """The days, months and years a text names, in the order written, without what no calendar has."""
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


def _keep(found: dict[int, Day], taken: bytearray, match: "re.Match[str]", day: Day) -> None:
    start, end = match.span()
    if any(taken[start:end]) or not _on_calendar(day):
        return
    taken[start:end] = b"\1" * (end - start)
    found[start] = day


def _on_calendar(day: Day) -> bool:
    if day.day is not None and day.month is None:
        return False
    year = 2000 if day.year is None else day.year  # a leap year: 29 February is a day
    try:
        date(year, 1 if day.month is None else day.month, 1 if day.day is None else day.day)
    except ValueError:
        return False
    return True
