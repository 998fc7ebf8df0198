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
    rf"(?:\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b({_NAMES})\b\.?"
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
    found: list[tuple[int, Day]] = []
    taken: list[tuple[int, int]] = []
    for match in _DIGITS.finditer(text):
        _keep(found, taken, match, Day(int(match[1]), int(match[3]), int(match[4]) if match[4] else None))
    if "月" in text or "年" in text:
        for match in _CHINESE.finditer(text):
            year, month, day = match[1], match[2] or match[4], match[3] or match[5]
            _keep(found, taken, match, Day(*(int(part) if part else None for part in (year, month, day))))
    for match in _ENGLISH.finditer(text):
        name, day, year = match[2].lower(), match[1] or match[3], match[4]
        sure = match[2][0].isupper() and _LEADS_TO_MONTH.search(text[: match.start(2)])
        if not (day or year or sure) and name in _DOUBTFUL:
            continue
        _keep(found, taken, match, Day(int(year) if year else None, _MONTHS[name], int(day) if day else None))
    for match in _YEAR.finditer(text):
        _keep(found, taken, match, Day(int(match[1])))
    return [day for _, day in sorted(found)]


def _keep(
    found: list[tuple[int, Day]], taken: list[tuple[int, int]], match: "re.Match[str]", day: Day
) -> None:
    start, end = match.span()
    if any(start < there[1] and there[0] < end for there in taken):
        return
    try:
        date(day.year or 2000, day.month or 1, day.day or 1)
    except ValueError:
        return
    taken.append((start, end))
    found.append((start, day))
