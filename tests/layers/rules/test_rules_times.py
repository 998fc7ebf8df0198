"""The words for a time, and the moment they mean."""

from datetime import UTC, datetime

import pytest

from octavo.kernel.terms.dates import festival_day
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
    ("我周一要去医院", "周一", "2026-03-16 00:00"),
    ("我周一去了医院", "周一", "2026-03-09 00:00"),
    ("我周五去了医院", "周五", "2026-03-06 00:00"),
    ("这周一要交报告", "这周一", "2026-03-09 00:00"),
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
    ("我周六早上六点四十的飞机", "周六早上六点四十", "2026-03-14 06:40"),
    ("下周一早上六点十个人一起跑步", "下周一早上六点", "2026-03-16 06:00"),
    ("My flight leaves at 6:40 on Saturday from Stansted", "at 6:40 on Saturday", "2026-03-14 06:40"),
    ("Booked Crete for the last week of August", "the last week of August", "2026-08-21 00:00"),
    ("We moved in the first week of May", "in the first week of May", "2025-05-01 00:00"),
    ("Dentist on the 14th at half ten", "on the 14th at half ten", "2026-03-14 10:30"),
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
    ("我二〇一九年五月二十号买的", "二〇一九年五月二十号", "2019-05-20 00:00"),
    ("二零一九年", "二零一九年", "2019-01-01 00:00"),
    ("我零八年买的", "零八年", "2008-01-01 00:00"),
    ("我98年去的", "98年", "1998-01-01 00:00"),
    ("21年3月", "21年3月", "2021-03-01 00:00"),
    ("上个月底", "上个月底", "2026-02-28 00:00"),
    ("上月中旬", "上月中旬", "2026-02-11 00:00"),
    ("3月上旬买的", "3月上旬", "2026-03-01 00:00"),
    ("去年八月下旬", "去年八月下旬", "2025-08-21 00:00"),
    ("去年年底", "去年年底", "2025-12-31 00:00"),
    ("2019年底", "2019年底", "2019-12-31 00:00"),
    ("我年初买的", "年初", "2026-01-01 00:00"),
    ("我月底要搬家", "月底", "2026-03-31 00:00"),
    ("我月中要搬家", "月中", "2026-03-15 00:00"),
    ("去年夏天", "去年夏天", "2025-06-01 00:00"),
    ("去年国庆节", "去年国庆节", "2025-10-01 00:00"),
    ("去年中秋", "去年中秋", "2025-10-06 00:00"),
    ("我春节去了三亚", "春节", "2026-02-17 00:00"),
    ("我除夕去的", "除夕", "2026-02-16 00:00"),
    ("我大年初三去的", "大年初三", "2026-02-19 00:00"),
    ("我农历八月十五要回家", "农历八月十五", "2026-09-25 00:00"),
    ("我清明要回家", "清明", "2026-04-05 00:00"),
    ("大前年", "大前年", "2023-01-01 00:00"),
    ("上上周五", "上上周五", "2026-02-27 00:00"),
    ("上周末", "上周末", "2026-03-07 00:00"),
    ("上上个月", "上上个月", "2026-01-01 00:00"),
    ("下下个月", "下下个月", "2026-05-01 00:00"),
    ("下个月二十号", "下个月二十号", "2026-04-20 00:00"),
    ("at the end of last month", "at the end of last month", "2026-02-28 00:00"),
    ("We fly at the end of March", "at the end of March", "2026-03-31 00:00"),
    ("in mid-February", "in mid-February", "2026-02-15 00:00"),
    ("early next week", "early next week", "2026-03-16 00:00"),
    ("late last week", "late last week", "2026-03-05 00:00"),
    ("late last year", "late last year", "2025-10-01 00:00"),
    ("We will move at the end of the month", "at the end of the month", "2026-03-31 00:00"),
    ("我订了清明去的票", "清明", "2026-04-05 00:00"),
    ("a fortnight ago", "a fortnight ago", "2026-02-23 00:00"),
    ("the week before last", "the week before last", "2026-02-23 00:00"),
    ("the week after next", "the week after next", "2026-03-23 00:00"),
    ("the Saturday before last", "the Saturday before last", "2026-02-28 00:00"),
    ("a week from Friday", "a week from Friday", "2026-03-20 00:00"),
    ("a week tomorrow", "a week tomorrow", "2026-03-20 00:00"),
    ("去年三八妇女节", "去年三八妇女节", "2025-03-08 00:00"),
    ("two days from now", "two days from now", "2026-03-14 00:00"),
    ("a week ago today", "a week ago today", "2026-03-05 00:00"),
    ("twelve years ago", "twelve years ago", "2014-01-01 00:00"),
    ("last July", "last July", "2025-07-01 00:00"),
    ("next March", "next March", "2027-03-01 00:00"),
    ("in March last year", "in March last year", "2025-03-01 00:00"),
    ("on the 14th of last month", "on the 14th of last month", "2026-02-14 00:00"),
    ("We fly on the twenty-first of June", "on the twenty-first of June", "2026-06-21 00:00"),
    ("We fly on May the 4th", "on May the 4th", "2026-05-04 00:00"),
    ("We met on Christmas Eve", "on Christmas Eve", "2025-12-24 00:00"),
    ("on Christmas Day 2019", "on Christmas Day 2019", "2019-12-25 00:00"),
    ("We met at Chinese New Year", "at Chinese New Year", "2026-02-17 00:00"),
    ("this morning at half past six", "this morning at half past six", "2026-03-12 06:30"),
    ("yesterday at half past six", "yesterday at half past six", "2026-03-11 00:00"),
    ("tomorrow at quarter to nine", "tomorrow at quarter to nine", "2026-03-13 08:45"),
    ("tonight at eight", "tonight at eight", "2026-03-12 20:00"),
)
#: Words that nobody can tell the day of: a lunar month or not, three or four days, before or after.
UNSURE = (
    "我八月十五去的", "我三四天前买的", "我两三年前去的", "下月初八", "我去年腊月二十三去的", "农历闰六月初一", "I left last Tuesday week", "I bought it half a year ago",
    "We met on 3/4", "the other day", "these days", "a few days ago", "We met on Thanksgiving", "later this month", "in two and a half years", "几年前", "我1960年中秋去的",
)  # fmt: skip
#: What only sounds like a time.
NO_WORDS = ("I bought a Christmas tree", "I love Halloween", "We go home at Christmas", "I get paid at the end of the month", "My rent is due at the end of the month", "月底最忙", "中秋节后搬的", "喝了半年中药", "I ran up the hill", "this may be so", "我爱吃元宵", "我85年的", "我干了20年", "我目前年薪不高", "每年年底都回家", "一五一十地说")  # fmt: skip
NO_TIME = (
    *UNSURE,
    *NO_WORDS,
    "我做了八年护士",
    "I may march on",
    "我有点累",
    "32月45日",
    "at 99:99",
    "2月30日",
    "",
)


FESTIVALS = (
    ("春节", "1985-02-20"), ("春节", "2026-02-17"), ("春节", "2027-02-06"), ("除夕", "2024-02-09"), ("元宵节", "2026-03-03"), ("清明", "2024-04-04"), ("端午", "2009-05-28"),
    ("端午", "2020-06-25"), ("七夕", "2025-08-29"), ("中秋", "1990-10-03"), ("中秋", "2019-09-13"), ("中秋", "2023-09-29"), ("中秋", "2033-09-08"), ("重阳", "2025-10-29"), ("国庆", "2025-10-01"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "said", "means"), WORDS)
def test_a_time_is_found_and_counted_from_now(text: str, said: str, means: str) -> None:
    found = times(text, NOW)
    assert [(one.words, f"{one.at:%Y-%m-%d %H:%M}") for one in found] == [(said, means)]


@pytest.mark.parametrize("text", NO_TIME)
def test_no_moment_where_there_is_none(text: str) -> None:
    assert [one for one in times(text, NOW) if one.at is not None] == []


@pytest.mark.parametrize("text", NO_WORDS)
def test_what_only_sounds_like_a_time_is_none(text: str) -> None:
    assert times(text, NOW) == ()


@pytest.mark.parametrize(("name", "day"), FESTIVALS)
def test_festivals_are_on_their_days(name: str, day: str) -> None:
    """Of the lunar calendar also in years in which a month comes twice, and none where the table ends."""
    assert str(festival_day(name, int(day[:4]))) == day
    assert name == "国庆" or festival_day(name, 1960) is festival_day(name, 2100) is None


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
