"""The words for a time, and the moment they mean."""

from datetime import UTC, datetime

import pytest

from octavo.layers.rules import RuleExtractor
from octavo.layers.rules.moments import times

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)  # a Thursday

WORDS: tuple[tuple[str, str, str], ...] = (
    ("我今天下午参加了会议", "今天下午", "2026-03-12 15:00"),
    ("昨天", "昨天", "2026-03-11 00:00"),
    ("前天晚上", "前天晚上", "2026-03-10 20:00"),
    ("大前天", "大前天", "2026-03-09 00:00"),
    ("昨晚八点半", "昨晚八点半", "2026-03-11 20:30"),
    ("上周三", "上周三", "2026-03-04 00:00"),
    ("下周一上午十点", "下周一上午十点", "2026-03-16 10:00"),
    ("周五要交报告", "周五", "2026-03-13 00:00"),
    ("3月5日买的", "3月5日", "2026-03-05 00:00"),
    ("我5月1日要结婚", "5月1日", "2026-05-01 00:00"),
    ("12月25日去的", "12月25日", "2025-12-25 00:00"),
    ("2025-03-05", "2025-03-05", "2025-03-05 00:00"),
    ("2025年3月5日", "2025年3月5日", "2025-03-05 00:00"),
    ("去年5月", "去年5月", "2025-05-01 00:00"),
    ("上个月", "上个月", "2026-02-01 00:00"),
    ("三天前", "三天前", "2026-03-09 00:00"),
    ("两周后", "两周后", "2026-03-26 00:00"),
    ("后天下午3点", "后天下午3点", "2026-03-14 15:00"),
    ("明早", "明早", "2026-03-13 08:00"),
    ("刚才", "刚才", "2026-03-12 16:30"),
    ("yesterday", "yesterday", "2026-03-11 00:00"),
    ("the day before yesterday", "the day before yesterday", "2026-03-10 00:00"),
    ("last week", "last week", "2026-03-02 00:00"),
    ("I bought it on March 5", "on March 5", "2026-03-05 00:00"),
    ("I will marry on May 1", "on May 1", "2026-05-01 00:00"),
    ("on 5 March 2024", "on 5 March 2024", "2024-03-05 00:00"),
    ("I left at 3 pm", "at 3 pm", "2026-03-12 15:00"),
    ("next Monday", "next Monday", "2026-03-16 00:00"),
    ("We met on Friday", "on Friday", "2026-03-06 00:00"),
    ("I have an exam on Friday", "on Friday", "2026-03-13 00:00"),
    ("tomorrow at 9:30", "tomorrow at 9:30", "2026-03-13 09:30"),
    ("last night", "last night", "2026-03-11 21:00"),
    ("this morning", "this morning", "2026-03-12 09:00"),
    ("two weeks ago", "two weeks ago", "2026-02-23 00:00"),
    ("in three days", "in three days", "2026-03-15 00:00"),
    ("last Saturday", "last Saturday", "2026-03-07 00:00"),
    ("My test is on the 17th", "on the 17th", "2026-03-17 00:00"),
    ("I bought it on the 17th", "on the 17th", "2026-02-17 00:00"),
    ("We fly on the 21st of June 2027", "on the 21st of June 2027", "2027-06-21 00:00"),
    ("We met on the 3rd of February", "on the 3rd of February", "2026-02-03 00:00"),
    ("We move on 15 May", "on 15 May", "2026-05-15 00:00"),
    ("I broke my leg on 15 May", "on 15 May", "2025-05-15 00:00"),
    ("I have been vegan since 15 May", "since 15 May", "2025-05-15 00:00"),
    ("in 2015", "in 2015", "2015-01-01 00:00"),
)
NO_TIME = ("我做了八年护士", "I may march on", "我有点累", "32月45日", "at 99:99", "2月30日", "")


@pytest.mark.parametrize(("text", "said", "means"), WORDS)
def test_a_time_is_found_and_counted_from_now(text: str, said: str, means: str) -> None:
    found = times(text, NOW)
    assert [(one.words, f"{one.at:%Y-%m-%d %H:%M}") for one in found] == [(said, means)]


@pytest.mark.parametrize("text", NO_TIME)
def test_no_moment_where_there_is_none(text: str) -> None:
    assert [one for one in times(text, NOW) if one.at is not None] == []


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_calendar(year: int) -> None:
    """Counting past the first or the last year is no time rather than an error."""
    for text, _, _ in WORDS:
        for day in (datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, tzinfo=UTC)):
            assert isinstance(times(text, day), tuple)


async def test_a_part_of_the_day_is_of_the_day_named_before_it() -> None:
    found = await RuleExtractor().decide("昨天我去了公司，下午开了会。", [], owner_type="user", at=NOW)
    assert [one.happened_at for one in found] == [
        datetime(2026, 3, 11, tzinfo=UTC),
        datetime(2026, 3, 11, 15, tzinfo=UTC),
    ]


async def test_only_what_happened_has_a_time() -> None:
    (fact,) = await RuleExtractor().decide("I graduated from MIT in 2015", [], owner_type="user", at=NOW)
    assert (fact.layer, fact.happened_at, fact.time_text) == ("profile", None, "")
