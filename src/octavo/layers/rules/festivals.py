"""Festivals by their names, and the days they fall on; those of the lunar calendar need a table, since no formula is short."""

from datetime import date, timedelta

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
