"""The sentences of `python -m bench.extraction --facts`: what they hold, and how what is made of them is judged."""

import sys
from itertools import product
from pathlib import Path

import pytest

from octavo.layers import CATEGORIES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
try:
    from bench import extraction
    from bench.extraction import Fact, Kept, Sentence, judge, load_sentences
finally:
    sys.path.remove(str(ROOT))

PARTS = ("dev", "training", "held", "asides", "strangers")
EVERY = {category for layer in CATEGORIES.values() for category in layer}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_there_are_enough_sentences_and_no_half_holds_one_of_the_other(language):
    dev, training, held, *aside = (load_sentences(part, language) for part in PARTS)
    assert len(dev) + len(held) >= 110
    assert min(len(dev), len(held)) >= 55
    learned_from = {one.text.casefold().strip() for one in (*dev, *training)}
    assert learned_from.isdisjoint(one.text.casefold().strip() for part in (held, *aside) for one in part)
    for half in (dev, held):
        assert sum(not one.facts for one in half) >= 10, "what is no fact must be tried too"
        assert sum(len(one.facts) > 1 for one in half) >= 10


@pytest.mark.parametrize(("part", "language"), list(product(PARTS, ["en", "zh"])))
def test_what_is_expected_is_said(part, language):
    """Every fact is in its sentence, and its categories exist."""
    for sentence in load_sentences(part, language):
        assert sentence.language == language
        for fact in sentence.facts:
            assert fact.fits(sentence.text), sentence
            assert EVERY.issuperset(fact.categories), sentence


def fact(*holds, topic="family", optional=False):
    return Fact(holds, ("preference",), topic, optional)


def judged(facts, *kept):
    return judge(Sentence("…", "en", tuple(facts)), [Kept("preference", text) for text in kept])


def test_each_fact_needs_a_memory_of_its_own():
    facts = [fact("Oslo", topic="home"), fact("skate", topic="hobby")]
    assert judged(facts, "The user lives in Oslo", "The user can skate").right
    together = judged(facts, "The user lives in OSLO and can skate")
    assert [one.holds for one in together.missing] == [("skate",)]
    assert not together.false


def test_what_was_not_said_is_false_and_what_may_be_kept_is_not():
    facts = [fact("cat", "Nero"), fact("garden", optional=True)]
    assert judged(facts, "The user's cat is Nero", "The user has a garden").right
    named = judged(facts, "The user's name is Nero")
    assert len(named.false) == len(named.missing) == 1
    assert judged([], "The user is a pirate").false


def test_a_purchase_without_its_price_is_missing_and_not_false():
    lost = judged([fact("kettle", "40", topic="purchase")], "The user bought a kettle")
    assert lost.missing
    assert not lost.false


def test_one_of_several_words_is_enough_and_a_wrong_category_is_not_right():
    left = Fact(("quit|left",), ("career",), "occupation")
    assert judge(Sentence("…", "en", (left,)), [Kept("career", "The user left the bank")]).right
    wrong = judge(Sentence("…", "en", (left,)), [Kept("value", "The user quit")])
    assert wrong.miscategorised
    assert not wrong.right


def test_figures_per_language_and_half(monkeypatch, capsys):
    """Misses are listed for the development half alone."""
    few = extraction.load_sentences
    monkeypatch.setattr(extraction, "load_sentences", lambda part, language: few(part, language)[-60:])
    monkeypatch.setattr(extraction, "decide", lambda *_, **__: [])
    extraction.print_facts(with_misses=True)
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split(":")[0] for line in lines if "fully right" in line]
    assert heads == [f"{part}, {name}" for part in extraction.PRINTED for name in ("Chinese", "English")]
    held = next(at for at, line in enumerate(lines) if line.startswith("held"))
    assert held > 60
    assert len(lines) - held == 12  # two lines for each language of what is put aside
