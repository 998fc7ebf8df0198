"""What a Chinese fragment, question or order says of the user besides, and what it does not."""

import pytest
from bench.extraction import NOW

from octavo.layers.rules.extractor import decide


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("哮喘，包里随时揣着喷雾", ["用户哮喘"]),
        ("减醣第三周，宵夜有什么可以吃", ["用户减醣第三周"]),
        ("像我这种痛风的能吃豆腐吗", ["用户是痛风的"]),
        ("我们环卫工凌晨三点就上街了，哪有早饭吃", ["用户是环卫工（凌晨三点就上街了）"]),
        ("我那辆开了九年的飞度要不要换电池", ["用户那辆开了九年的飞度"]),
        ("微信号：mumu_tea1997 加我拉你进群", ["用户的微信号是mumu_tea1997"]),
        ("帮我给老丈人写个寿联，他属马", ["用户的丈人属马"]),
        ("香菜我是真受不了", ["用户受不了香菜"]),
        ("糖尿病人能吃荔枝不", []),
        ("公务员考试行测技巧", []),
        ("前台小姐姐辞职了", []),
        ("关掉卧室的空调", []),
        ("帮我算下月供，贷一百二十万三十年", []),
        ("一斤荔枝三把火，这个说法有依据吗", []),
    ],
)
def test_what_is_told_without_a_subject_is_the_users_unless_it_is_general(text: str, kept: list[str]) -> None:
    assert [one.content for one in decide(text, [], owner_type="user", at=NOW)] == kept


@pytest.mark.parametrize("text", ["Anna has asthma", "Jago can't do dairy", "Femi gets migraines"])
def test_what_somebody_else_has_is_not_the_users(text: str) -> None:
    """It has a subject, so it is no fragment: "The user has anna has asthma" was kept of it."""
    assert not any(
        one.content.startswith("The user has") for one in decide(text, [], owner_type="user", at=NOW)
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("we're off to Gdansk for my cousin's wedding in May", ["The user is off to Gdansk for their cousin's wedding in May"]),
        ("my uncle's painting the hall", ["The user's uncle is painting the hall"]),
        ("new address is 3 Harbour Row, Whitby", ["The user's address is 3 Harbour Row, Whitby"]),
        ("born and raised in Accra", ["The user grew up in Accra"]),
        ("Ines (my aunt) works at the harbour", ["The user's aunt Ines works at the harbour"]),
        ("I can't stand liver and olives make me gag", ["The user can not stand liver"]),
        ("the vet put our dog on a diet", ["the vet put the user's dog on a diet"]),
        ("I teach pilates on weekends", ["The user teaches pilates on weekends"]),
    ],
)  # fmt: skip
def test_english_is_put_in_the_third_person_as_it_was_meant(text: str, kept: list[str]) -> None:
    assert [one.content for one in decide(text, [], owner_type="user", at=NOW)] == kept
