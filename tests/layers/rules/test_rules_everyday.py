"""Everyday messages: what is no fact about the user is not kept as one, and what is told again is known."""

from datetime import UTC, datetime

import afterwards
import everyday
import heldout
import pytest
import sentences
import widening

from octavo.layers.rules.extractor import decide
from octavo.layers.values import Decision, Known, OwnerType

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)  # a Thursday
TABLES = (sentences, widening, heldout, everyday, afterwards)


def found(text: str, known: list[Known] | None = None, owner_type: OwnerType = "user") -> list[Decision]:
    return decide(text, known or [], owner_type=owner_type, at=NOW)


def kept(decisions: list[Decision]) -> list[Known]:
    return [
        Known(id=str(n), layer=one.layer, category=one.category, content=one.content, happened_at=one.happened_at)
        for n, one in enumerate(decisions)
    ]  # fmt: skip


@pytest.mark.parametrize("language", ["CHINESE", "ENGLISH"])
def test_every_message_is_read_as_expected(language: str) -> None:
    table = getattr(everyday, language)
    read = [(text, " ".join(one.category for one in found(text))) for text, _ in table]
    assert [one for one in read if one not in table] == []


def test_what_is_told_again_is_known() -> None:
    """A memory is read back as the fact that it was made of, whatever the sentence."""
    again = []
    for module in TABLES:
        for text, _ in module.CHINESE + module.ENGLISH:
            first = found(text)
            again += [(text, one.content) for one in found(text, kept(first)) if one.action != "ignore"]
    assert again == []


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("User: I'm a teacher\nAssistant: I love helping.\nUser: I live in Oslo", ["The user is a teacher", "The user lives in Oslo"]),
        ("用户：我是老师\n助手：我喜欢帮助别人", ["用户是老师"]),
        ("I'm a teacher. Translate this to French: I am a cook. I live in Rome.", ["The user is a teacher"]),
        ("我是老师。\n帮我翻译一下\n我是厨师", ["用户是老师"]),
        ("我不是老师，是医生", ["用户是医生"]),
        ("Actually, I'm not a nurse, I'm a doctor", ["The user is a doctor"]),
        ("我养了一只猫，它叫咪咪", ["用户养了一只猫（它叫咪咪）"]),
        ("My brother and I both love chess", ["The user loves chess"]),
        ("我叫Tom，I'm from London", ["用户叫Tom", "The user is from London"]),
        ("As a nurse, I prefer tea", ["The user is a nurse", "The user prefers tea"]),
    ],
)  # fmt: skip
def test_what_is_kept_of_a_message(text: str, contents: list[str]) -> None:
    assert [one.content for one in found(text)] == contents


def test_in_a_transcript_an_agent_is_the_assistant() -> None:
    text = "User: I love tea\nAssistant: I prefer short answers"
    assert [one.content for one in found(text, owner_type="agent")] == ["The agent prefers short answers"]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("I'm flying to Tokyo on Friday", (2026, 3, 13)),
        ("I met Tom on Friday", (2026, 3, 6)),
        ("We're getting married in June", (2026, 6, 1)),
        ("I got a raise in June", (2025, 6, 1)),
        ("我六月结婚", (2026, 6, 1)),
        ("我六月结婚了", (2025, 6, 1)),
        ("我去年十二月三号买了车", (2025, 12, 3)),
        ("我三月五号参加了培训", (2026, 3, 5)),
        ("我周末去爬山", (2026, 3, 14)),
        ("我周末去爬山了", (2026, 3, 7)),
        ("I haven't eaten meat in ten years", None),
        ("我今天一点都不累", (2026, 3, 12)),
    ],
)
def test_when_it_happened(text: str, day: tuple[int, int, int] | None) -> None:
    (one,) = found(text)
    at = one.happened_at
    assert (None if at is None else (at.year, at.month, at.day, at.hour)) == (
        None if day is None else (*day, 0)
    )
