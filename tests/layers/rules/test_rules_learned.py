"""What was learned from labelled sentences: clauses of any shape that tell something of their writer, or do not."""

from datetime import timedelta

import pytest
from bench.extraction import NOW, load_sentences
from bench.learn_clauses import clauses_of, learn

from octavo.layers.rules import learned, reading
from octavo.layers.rules.extractor import decide
from octavo.layers.values import Known


def told(text: str, language: str) -> float:
    (clause,) = learned.split(text, None, asks=False, language=language)
    return learned.WeighedClause(clause, language).told


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Penicillin is the one thing I must never be given", "penicillin"),
        ("Can you make the font bigger? Macular degeneration, you see", "macular degeneration"),
        ("Ileostomy bag user here, can I swim in the Dead Sea?", "ileostomy"),
        ("刻章刻了半辈子，想买个带灯的放大镜", "刻章刻了半辈子"),
        ("脚码四十七，国产鞋根本没有能穿的", "脚码四十七"),
    ],
)
def test_a_clause_of_a_shape_that_no_rule_knows_is_kept(
    text: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = decide(text, [], owner_type="user", at=NOW)
    assert any(kept in one.content.casefold() for one in found)
    monkeypatch.setattr(reading, "SURE", 2)
    without = decide(text, [], owner_type="user", at=NOW)
    assert not any(kept in one.content.casefold() for one in without), "the rules know it by themselves"


@pytest.mark.parametrize(
    "text",
    [
        "How long do greyhounds sleep, and do they need a coat in winter",
        "write a cover letter for a pastry chef, friendly tone",
        "thanks, that was quick",
        "Lin's dentist is Dr. Osei.",
        "写一段关于灯塔看守人的独白，第一人称",
        "荔枝放冰箱能存几天，会不会变味",
    ],
)
def test_what_tells_nothing_of_its_writer_is_not(text: str) -> None:
    assert decide(text, [], owner_type="user", at=NOW) == []


@pytest.mark.parametrize(
    "text",
    [
        "wrote a novel once. it's called The Damp. nobody bought it",
        "I live in Oslo. wrote a novel once. it's called The Damp",
    ],
)
def test_nothing_is_added_to_what_was_dropped(text: str) -> None:
    assert not any("Damp" in one.content for one in decide(text, [], owner_type="user", at=NOW))


def test_told_again_it_is_known() -> None:
    text = "Penicillin is the one thing I must never be given"
    (first,) = decide(text, [], owner_type="user", at=NOW)
    known = [Known(id="m1", layer=first.layer, category=first.category, content=first.content)]
    (again,) = decide(text, known, owner_type="user", at=NOW + timedelta(days=3))
    assert again.action == "ignore"


def test_an_agents_own_texts_are_read_by_rules_alone() -> None:
    assert decide("Penicillin is the one thing I must never be given", [], owner_type="agent", at=NOW) == []


def test_a_clause_knows_what_stands_beside_it() -> None:
    (sentence,) = [
        one
        for one in load_sentences("dev", "en")
        if one.text == "My job? I tune pianos for half the schools in Ghent"
    ]
    first, second = clauses_of(sentence)
    assert (first.text, first.asks, first.before) == ("My job", True, "")
    assert (second.first, second.before, second.alone) == ("My job", "My job", True)


def test_the_same_sentences_give_the_same_weights_and_what_they_say() -> None:
    some = load_sentences("dev", "zh")[:300]
    once = learn(some, "zh")
    assert once == learn(some, "zh")
    assert len(once) == len(learned.COLUMNS) << learned.BITS


@pytest.mark.parametrize(
    ("language", "fact", "none"),
    [
        ("en", "I teach swimming to toddlers", "draft an email to the landlord"),
        ("zh", "我膝盖有旧伤", "帮我查一下天气"),
    ],
)
def test_the_weights_that_are_shipped_tell_facts_from_none(language: str, fact: str, none: str) -> None:
    assert told(fact, language) > reading.SURE
    assert told(none, language) < min(reading.DOUBTED.values())
