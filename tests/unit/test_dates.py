"""Days as people write them, in Chinese and English."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.kernel.terms.dates import Day, days, relative_spans
from octavo.kernel.terms.terms import terms

TABLE = [
    # digits
    ("2023-05-07", [(2023, 5, 7)]),
    ("2023/5/7 and 2023.05.07", [(2023, 5, 7), (2023, 5, 7)]),
    ("2024-01-02T03:04:05Z", [(2024, 1, 2)]),
    ("2023-05", [(2023, 5, None)]),
    ("2024-02-29", [(2024, 2, 29)]),
    ("in 1999 and 2024", [(1999, None, None), (2024, None, None)]),
    ("12023-05-07", []),
    ("30000 1850 +8613800138000", []),
    ("3/4/2024", [(2024, None, None)]),  # the third of April or the fourth of March
    # Chinese
    ("2023年5月7日", [(2023, 5, 7)]),
    ("2023 年 5 月 7 号", [(2023, 5, 7)]),
    ("２０２３年５月７日", [(2023, 5, 7)]),
    ("5月7日", [(None, 5, 7)]),
    ("2023年5月", [(2023, 5, None)]),
    ("2023年", [(2023, None, None)]),
    ("去年12月，今年2月29日", [(None, 12, None), (None, 2, 29)]),
    ("二〇二三年五月七号", [(2023, 5, 7)]),
    ("二零二三年，一九九八年十二月", [(2023, None, None), (1998, 12, None)]),
    ("21年3月，98年，九八年", [(2021, 3, None), (1998, None, None), (1998, None, None)]),
    ("三四年，20年，85年的，80年代", []),
    # English
    ("on the twenty-first of June 2023; May the 4th", [(2023, 6, 21), (None, 5, 4)]),
    ("May 7, 2023", [(2023, 5, 7)]),
    ("on the 7th of May, 2023", [(2023, 5, 7)]),
    ("7 May 2023", [(2023, 5, 7)]),
    ("DEC 25 2020; jan. 1st, 2021", [(2020, 12, 25), (2021, 1, 1)]),
    ("Sept. 3rd", [(None, 9, 3)]),
    ("October", [(None, 10, None)]),
    ("December of 2022", [(2022, 12, None)]),
    ("in March, during May, last Jan", [(None, 3, None), (None, 5, None), (None, 1, None)]),
    ("May 7 at 10:30", [(None, 5, 7)]),
    ("12:30 May 5", [(None, 5, 5)]),
    ("10 May 10:30", [(None, 5, 10)]),
    # words that are not months
    ("May I march on? It may. Dec jan.", []),
    ("maybe marching, decent, augustus", []),
    # days no calendar has
    ("2023-02-30", [(2023, None, None)]),
    ("2023-13-01 2023-00-05 2023-05-00", [(2023, None, None)] * 3),
    ("0000-01-01", []),
    ("2023年13月40日", [(2023, None, None)]),
    ("2月30日 13月1日 0月5日", []),
    ("31 April; 30 February", []),
    ("31 June 2023", [(2023, None, None)]),
    ("2023年5日", [(2023, None, None)]),
]


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=[ascii(text)[:40] for text, _ in TABLE])
def test_days(text, expected):
    assert days(text) == [Day(*day) for day in expected]


COUNTED = [
    ("上周五", "2026-03-06", "2026-03-06"),
    ("上上周五", "2026-02-27", "2026-02-27"),
    ("上周末", "2026-03-07", "2026-03-08"),
    ("上上周", "2026-02-23", "2026-03-01"),
    ("上上个月", "2026-01-01", "2026-01-31"),
    ("大前天", "2026-03-09", "2026-03-09"),
    ("大前年", "2023-01-01", "2023-12-31"),
    ("二十天前", "2026-02-20", "2026-02-20"),
    ("the month before last", "2026-01-01", "2026-01-31"),
    ("a fortnight ago", "2026-02-23", "2026-03-01"),
    ("twelve years ago", "2014-01-01", "2014-12-31"),
]


@pytest.mark.parametrize(("text", "first", "last"), COUNTED)
def test_counted_back_from_a_day(text, first, last):
    (found,) = relative_spans(text, datetime(2026, 3, 12))  # noqa: DTZ001
    assert (str(found.first), str(found.last)) == (first, last)


@pytest.mark.parametrize("text", ["三四天前", "half a year ago", "目前年薪"])
def test_nothing_is_counted_where_nobody_can_tell(text):
    assert relative_spans(text, datetime(2026, 3, 12)) == ()  # noqa: DTZ001


FORMS = ("{y}-{m:02}-{d:02}", "{y}/{m}/{d}", "{y}年{m}月{d}日", "{y} 年 {m} 月 {d} 号", "{name} {d}, {y}", "{d} {name} {y}", "{name} {d}th {y}")  # fmt: skip


@given(st.dates(min_value=date(1000, 1, 1)), st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_one_day_in_any_form_is_one_term(day, one, other):
    """However a day is written, in either language, its texts meet in one term."""
    how = {"y": day.year, "m": day.month, "d": day.day, "name": day.strftime("%B")}
    term = f"{day.year}{day.month:02}{day.day:02}"
    assert term in terms(one.format(**how))
    assert term in terms(f"we met on {other.format(**how)}.")


def test_a_day_in_chinese_numbers_is_the_same_term():
    assert "20190520" in terms("我二〇一九年五月二十号搬的家")


@given(st.text(alphabet="0123456789年月日号-/. ,MayofthJn:\n", max_size=60) | st.text(max_size=40))
def test_no_text_is_an_error(text):
    """Whatever stands there, the days found are on the calendar and each character belongs to one of them."""
    for year, month, day in days(text):
        assert year is None or 1 <= year <= 9999
        assert month is None or 1 <= month <= 12
        assert day is None or (month is not None and 1 <= day <= 31)
