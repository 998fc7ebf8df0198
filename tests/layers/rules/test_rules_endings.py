"""What is over, or has another number or day, supersedes what was so; what only sounds so does not."""

import re
from collections import Counter
from datetime import UTC, datetime
from importlib import resources

import pytest

from octavo.layers import rules
from octavo.layers.rules.extractor import decide
from octavo.layers.values import Known

AT = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)


def superseded(known: str, text: str) -> list[str]:
    """The new contents of a memory after a text was read."""
    before = Known(id="1", layer="profile", category="preference", content=known)
    decided = decide(text, [before], owner_type="user", at=AT)
    return [one.content for one in decided if one.target == "1" and one.action == "update"]


@pytest.mark.parametrize(
    ("known", "text", "now"),
    [
        (
            "The user drives a VW Golf",
            "I sold the Golf.",
            "The user sold the Golf (before: drives a VW Golf)",
        ),
        (
            "The user's girlfriend is called Kim",
            "Kim and I broke up last week",
            "The user broke up last week with Kim (before: The user's girlfriend is called Kim)",
        ),
        (
            "The user's rent is 900 a month",
            "My rent went up to 1100.",
            "The user's rent went up to 1100 (before: The user's rent is 900 a month)",
        ),
        (
            "The user's rent went up to 1100 (before: The user's rent is 900 a month)",
            "My rent is 1200 now",
            "The user's rent is 1200 now (before: The user's rent went up to 1100)",
        ),
        (
            "The user has a dog called Rex",
            "Rex died on Sunday.",
            "The user's dog Rex died on Sunday (before: has a dog called Rex)",
        ),
        (
            "The user has a Netflix subscription",
            "I cancelled Netflix",
            "The user cancelled Netflix (before: has a Netflix subscription)",
        ),
        (
            "The user plays tennis every Tuesday",
            "I no longer play tennis",
            "The user no longer plays tennis (before: plays tennis every Tuesday)",
        ),
        (
            "The user is vegetarian",
            "I eat meat again these days",
            "The user eats meat again these days (before: is vegetarian)",
        ),
        (
            "The user's dentist is Dr. Osei",
            "My new dentist is Dr. Weiss.",
            "The user's new dentist is Dr. Weiss (before: The user's dentist is Dr. Osei)",
        ),
        (
            "The user's son is 5",
            "My son turned 6 today.",
            "The user's son turned 6 today (before: The user's son is 5)",
        ),
        (
            "The user drives a Golf",
            "I drive a Polo now.",
            "The user drives a Polo now (before: drives a Golf)",
        ),
        (
            "The user drinks coffee every morning",
            "I switched to tea.",
            "The user switched to tea (before: drinks coffee every morning)",
        ),
        (
            "The user's wife is called Eva",
            "I divorced Eva.",
            "The user divorced Eva (before: The user's wife is called Eva)",
        ),
        ("用户是素食者", "我现在吃肉了", "用户现在吃肉了（此前：是素食者）"),
        ("用户每天跑五公里", "我现在每天跑十公里", "用户现在每天跑十公里（此前：每天跑五公里）"),
        ("用户早上喝咖啡", "我改喝茶了", "用户改喝茶了（此前：早上喝咖啡）"),
        ("用户开一辆大众高尔夫", "我把高尔夫卖了", "用户把高尔夫卖了（此前：开一辆大众高尔夫）"),
        ("用户的女朋友叫小琪", "我和小琪分手了", "用户和小琪分手了（此前：用户的女朋友叫小琪）"),
        ("用户房租三千", "房租涨到三千五了", "用户的房租涨到三千五了（此前：房租三千）"),
        ("用户的狗叫豆豆", "豆豆上周走了", "用户的狗豆豆上周走了（此前：用户的狗叫豆豆）"),
        ("用户每周二打羽毛球", "我不打羽毛球了", "用户不打羽毛球了（此前：每周二打羽毛球）"),
        ("用户结婚五年了", "我离婚了", "用户离婚了（此前：结婚五年了）"),
        ("用户有愛奇藝會員", "愛奇藝會員取消了", "用户愛奇藝會員取消了（此前：有愛奇藝會員）"),
        (
            "The user drives a Corolla",
            "swapped the Corolla for a Leaf",
            "The user swapped the Corolla for a Leaf (before: drives a Corolla)",
        ),
        (
            "The user's rent is 900 a month",
            "my landlord raised the rent to 1250",
            "The user's landlord raised the rent to 1250 (before: The user's rent is 900 a month)",
        ),
        (
            "The user has choir on Wednesdays",
            "choir moved to Mondays",
            "The user's choir moved to Mondays (before: has choir on Wednesdays)",
        ),
        (
            "The user takes metformin",
            "my doctor took me off metformin",
            "The user's doctor took them off metformin (before: takes metformin)",
        ),
        (
            "The user's phone number is 555 0101",
            "got a new number: 555 0199",
            "The user's phone number is 555 0199",
        ),
        ("The user lives in Ghent", "I moved again, to Antwerp.", "The user lives in Antwerp"),
        ("The user works at Tesco", "handed in my notice at Tesco", "The user no longer works at Tesco"),
        ("用户住在成都", "我又搬家了，这次搬到绵阳", "用户住在绵阳"),
    ],
)
def test_what_is_over_takes_the_place_of_what_was(known, text, now):
    assert superseded(known, text) == [now]


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("The user plays golf on Sundays", "I sold the Golf."),
        ("The user likes coffee cake", "I no longer drink coffee"),
        ("The user's son Leo is nine", "My son Leo passed his swimming test."),
        ("The user's daughter is called Mia", "My daughter is in Leeds now."),
        ("The user's sister is 34", "My sister moved to Leeds."),
        ("The user works at Siemens", "I'm off work today."),
        ("The user's wife is called Jo", "My wife is gone for the weekend."),
        ("The user's boss is called Kim", "I broke up with Kim."),
        ("The user's salary is 3000", "My rent went up to 1000."),
        ("The user is vegetarian", "My wife eats meat again."),
        ("The user is married to Paul", "My sister got divorced."),
        ("The user sold the Golf (before: drives a VW Golf)", "I got rid of the Golf."),
        ("The user likes rock", "I like jazz now."),
        ("The user's son is called Leo", "My son turned 6."),
        ("The user has a cat", "I switched to tea."),
        ("用户每周二打羽毛球", "今天不打羽毛球了"),
        ("用户的女儿叫米娅", "我女儿走了，去学校了"),
        ("用户在阿里上班", "我上周调到上海了"),
        ("用户的姐三十四岁", "我姐搬到成都了"),
        ("用户吃素", "我老公又开始吃肉了"),
        ("The user lives in Ghent", "my boss moved again, to Antwerp"),
        ("The user's rent is 900 a month", "my landlord raised the flag to half mast"),
        ("用户住在成都", "我和他又见面了，他搬到绵阳了"),
    ],
)
def test_what_goes_on_stays(known, text):
    assert superseded(known, text) == []


def test_what_says_least_besides_is_what_ended():
    """Of a girlfriend's name and her birthday it is who she is that is over."""
    contents = ["The user's girlfriend Kim's birthday is on 4 May", "The user's girlfriend is called Kim"]
    known = [
        Known(id=str(n), layer="profile", category="preference", content=content)
        for n, content in enumerate(contents)
    ]
    [decision] = decide("My girlfriend and I broke up.", known, owner_type="user", at=AT)
    assert decision.target == "1"


def test_an_appointment_ahead_is_moved():
    ahead = Known(
        id="1", layer="event", category="event", content="The user's dentist appointment is on Monday at 9",
        happened_at=datetime(2026, 3, 16, 9, tzinfo=UTC),
    )  # fmt: skip
    [decision] = decide(
        "My dentist appointment was moved to Wednesday at 11.", [ahead], owner_type="user", at=AT
    )
    assert (decision.action, decision.target) == ("update", "1")
    assert decision.happened_at == datetime(2026, 3, 18, 11, tzinfo=UTC)


@pytest.mark.parametrize("name", ["common", "english", "chinese"])
def test_a_table_defines_a_name_once(name):
    """The second of two patterns of one name would silently replace the first."""
    table = (resources.files(rules) / f"{name}.txt").read_text("utf-8")
    defined = Counter(re.findall(r"^([A-Z_]+) [=~] ", table, re.MULTILINE))
    assert [each for each, times in defined.items() if times > 1] == []
