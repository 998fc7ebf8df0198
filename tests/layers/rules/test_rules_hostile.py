"""Texts that nobody meant well: the rules answer each of them, validly, in time that grows with its length."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import CHINESE, ENGLISH

from octavo.layers.rules import RuleExtractor, categorise
from octavo.layers.rules.extractor import decide
from octavo.layers.rules.reading import MOST_FACTS
from octavo.layers.values import CATEGORIES, Decision, Known, OwnerType
from sampled import sampled

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)
TOLD = tuple(text for text, _ in CHINESE + ENGLISH)

#: What a pattern that backtracks would never finish.
BOMBS = (
    "我", "很", "不", "在", "说", "a ", "I am ", ", and ", "then ", "现在", "really ", "I really ", "3月", "最喜欢的", "!", " ", "\n", "我在", "((((", "I'm ", "my ",
    "and and then ", "1:1:", "和", "告诉我", "I said ", "我觉得", "I think I ", "、", "，", "。", ".", "a", "0", "12:", "at 3 ", "用户", "the user ", "他说", "my friend ",
    "如果", "if ", "了", "的", "一", "十点", "last ", "not ", "n't ", "'", "’s ", "\u200b", "👨‍👩‍👧", "é", "\ud7ff", "I like a, b and ", "喜欢和", "毕业于", "work at ",
)  # fmt: skip


def valid(text: str, known: list[Known], found: list[Decision]) -> None:
    """Every decision names a category of its layer, a target that there is iff it is no insert, and something said."""
    by_id = {one.id: one for one in known}
    # "I" may become "The user" wherever it stands, and a memory of several facts keeps the others.
    most = 8 * (len(text) + 2) + 20
    for one in found:
        assert one.category in CATEGORIES[one.layer]
        assert (one.target is None) == (one.action == "insert")
        assert one.target is None or by_id[one.target].layer == one.layer
        assert one.content.strip()
        assert len(one.content) <= most + sum(len(each.content) * 8 for each in known)
        assert one.reason
        assert (one.time_text == "") or one.layer == "event" or one.target is not None
    targets = [one.target for one in found if one.action == "update"]
    assert len(targets) == len(set(targets)), "a memory is superseded once by one text"
    assert len(found) <= 2 * MOST_FACTS


@sampled("bomb", BOMBS, share=4)
def test_a_text_that_repeats_one_thing(bomb: str) -> None:
    text = (bomb * (20_000 // len(bomb)))[:20_000]
    for said in (f"我喜欢{text}", f"I like {text}"):
        valid(said, [], decide(said, [], owner_type="user", at=NOW))


def test_what_a_very_long_text_says_first_is_found() -> None:
    found = decide("我是医生。" + "天气不错。" * 100_000, [], owner_type="user", at=NOW)
    assert found[0].content == "用户是医生"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("I live in Berlin. " * 2000, "The user lives in Berlin"),
        ("I work at a bakery in Lisbon and " * 40, "The user works at a bakery in Lisbon"),
        ("我在泉州的灯塔里工作，" * 80, "用户在泉州的灯塔里工作"),
    ],
)
def test_a_long_text_is_never_cut_inside_a_statement(told: str, kept: str) -> None:
    assert [one.content for one in decide(told, [], owner_type="user", at=NOW)] == [kept]


def test_no_punctuation_at_all() -> None:
    found = decide("我是程序员我喜欢咖啡我住在北京", [], owner_type="user", at=NOW)
    assert [one.content for one in found] == ["用户是程序员", "用户喜欢咖啡", "用户住在北京"]
    found = decide("I am a nurse I live in Oslo I love coffee", [], owner_type="user", at=NOW)
    assert [one.category for one in found] == ["career", "preference", "preference"]


def test_emoji_are_no_part_of_a_fact() -> None:
    found = decide("😀我是程序员🎉🎉，喜欢打游戏🎮！！！", [], owner_type="user", at=NOW)
    assert [one.content for one in found] == ["用户是程序员", "用户喜欢打游戏"]


def test_two_languages_in_one_text() -> None:
    found = decide("我是一名backend engineer，每天写Go。I also love hiking.", [], owner_type="user", at=NOW)
    assert [one.category for one in found] == ["career", "preference", "preference"]


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "。", "?", "\x00", "🙂", "........", "我", "I", "用户", "the user"]
)
def test_nothing_said_is_no_fact(text: str) -> None:
    assert decide(text, [], owner_type="user", at=NOW) == []


_PIECES = st.one_of(st.sampled_from(TOLD), st.sampled_from(BOMBS), st.text(max_size=30))
_TEXTS = st.lists(_PIECES, max_size=6).flatmap(lambda parts: st.sampled_from(["", " ", "，", "。", ", ", ". ", "\n"]).map(lambda by: by.join(parts)))  # fmt: skip
_OWNERS: st.SearchStrategy[OwnerType] = st.sampled_from(["user", "agent"])
_KNOWN = st.lists(st.tuples(_TEXTS, st.sampled_from(["profile", "event"]), st.booleans()), max_size=5)


@settings(max_examples=150, deadline=None)
@given(text=_TEXTS, drawn=_KNOWN, owner=_OWNERS)
def test_decisions_are_always_valid(text: str, drawn: list[tuple[str, str, bool]], owner: OwnerType) -> None:
    known = [
        Known(id=f"m{n}", layer=layer, category=CATEGORIES[layer][0], content=content, happened_at=NOW if timed else None)  # type: ignore[arg-type, index]
        for n, (content, layer, timed) in enumerate(drawn)
    ]  # fmt: skip
    valid(text, known, decide(text, known, owner_type=owner, at=NOW))


@settings(max_examples=100, deadline=None)
@given(text=_TEXTS)
def test_a_category_is_one_of_its_layer(text: str) -> None:
    assert categorise(text, "profile") in (None, *CATEGORIES["profile"])
    assert categorise(text, "event") in (None, *CATEGORIES["event"])


@pytest.mark.parametrize("text", TOLD)
async def test_saying_it_again_adds_nothing(text: str) -> None:
    """Each memory made from a sentence is recognised when the sentence comes again."""
    first = await RuleExtractor().decide(text, [], owner_type="user", at=NOW)
    known = [
        Known(
            id=f"m{n}",
            layer=one.layer,
            category=one.category,
            content=one.content,
            happened_at=one.happened_at,
        )
        for n, one in enumerate(first)
    ]
    again = await RuleExtractor().decide(text, known, owner_type="user", at=NOW)
    assert [(one.action, one.target) for one in again] == [("ignore", one.id) for one in known]
