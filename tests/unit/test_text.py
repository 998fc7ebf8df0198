"""Folding, spelling and what a search looks through."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.kernel.terms.terms import terms
from octavo.kernel.text import fold, fold_in_steps, haystack, leaves, pieces, spell, spellings
from octavo.testing.texts import NEEDLES


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello", "hello"),
        ("ＡＢＣ", "abc"),
        ("Straße", "strasse"),
        ("ﬁn", "fin"),
        ("İ", "i̇"),
        ("ı", "ı"),
        ("ΣΑΣ", "σασ"),
        ("ς", "σ"),
        ("cafe\u0301", "café"),
        ("\u212b", "å"),
        ("ｶﾞ", "ガ"),
        ("计算器", "计算器"),
        ("👍🏽", "👍🏽"),
        ("a\u00a0b", "a b"),
        ("\t\n ", "\t\n "),
        ("", ""),
    ],
)
def test_fold(text, folded):
    """The folded form is the one written down here, on every platform."""
    assert fold(text) == folded


@given(st.text())
def test_folding_twice_changes_nothing(text):
    """A folded needle may be folded again: both sides of a comparison have the same form."""
    assert fold(fold(text)) == fold(text)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_short_way_for_ascii_agrees(text):
    """Plain ASCII, folded without tables, comes out as the tables would have it."""
    assert fold(text) == fold(text + "é")[:-1]


@pytest.mark.parametrize(
    ("value", "forms"),
    [
        (1, {"1", "1.0"}),
        (1.0, {"1", "1.0"}),
        (0, {"0", "0.0", "-0.0"}),
        (-0.0, {"0", "0.0", "-0.0"}),
        (0.5, {"0.5"}),
        (-3, {"-3", "-3.0"}),
        (True, {"true"}),
        (False, {"false"}),
        (None, {"null"}),
        ("1", {'"1"'}),
        ("é", {'"é"'}),
        (2**53, {"9007199254740992", "9007199254740992.0"}),
        (2**53 + 1, {"9007199254740993"}),
        (1e22, {"1e22"}),
    ],
)
def test_spellings(value, forms):
    """A number is looked for under every spelling that equals it; a boolean is never a number."""
    assert set(spellings(value)) == forms


@given(st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_stored_number_is_found_by_an_equal_one(value):
    """Whatever way a number was written, asking for an equal number finds it."""
    assert spell(value) in spellings(value)
    if float(value).is_integer() and abs(value) <= 2**53:
        assert spell(value) in spellings(float(value))
        assert spell(value) in spellings(int(value))


def test_leaves():
    """Values are searched in their order, keys and null are not, and scalars are spelled as in JSON."""
    body = {"b": "x", "a": [1, 2.5, {"k": True, "n": None}], "c": {"d": ["y"]}}
    assert list(leaves(body)) == ["x", "1", "2.5", "true", "y"]


def test_haystack():
    """The text is searched if there is one, and only then is the data left out."""
    assert haystack("Text", {"a": "Data"}) == "text"
    assert haystack("", {"a": "Data", "b": ["X"]}) == "data\nx"
    assert haystack("", {}) == ""
    assert haystack("", None) == ""


def test_a_long_text_folds_as_its_parts_do():
    """Long texts are folded in pieces, and nothing that is written as several characters is cut by that."""
    for one in (
        "e\u0301",
        "\u1112\u1161\u11ab",
        "が",
        "か\u3099",
        "ｶﾞ",
        "ß",
        "\ufdfa",
        "ΐ",
        "İ",
        "क्षि",
        "ﾡￂ",
        "a\u0315\u0300",
        "\U0001f44d🏽",
    ):
        for shift in range(3):
            assert fold("x" * shift + one * 3000) == "x" * shift + fold(one) * 3000, ascii(one)


def test_a_character_that_joins_what_is_before_it_begins_no_piece():
    """Whatever can become one character with the one before it, by the tables of Unicode themselves."""
    for number in range(0x110000):
        parts = unicodedata.decomposition(chr(number)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            second = chr(int(parts[1], 16))
            text = "a" * 1024 + second * 10 + "b" * 1000
            assert [piece[0] for piece in pieces(text)] == ["a", "b"], hex(number)


def test_marks_without_end_are_folded_soon():
    """To bring n marks into their order takes n² steps: 60,000 took 3 s in which no other thread ran."""
    text = "a" + "\u0315\u0300\u0327" * 175_000
    began = time.thread_time()
    assert len(fold(text)) > 500_000
    assert len(terms(text)) < 100
    assert time.thread_time() - began < 20
    assert all(len(piece) < 2000 for piece in pieces(text))


def test_folding_in_steps_is_folding():
    """The same text comes out, and a long one takes many steps."""
    text = "Straße e\u0301 \ufdfa" * 2000
    steps = fold_in_steps(text)
    made = list(steps_of(steps))
    assert made[-1] == fold(text)
    assert len(made) > 10


def steps_of(work):
    yield (yield from work)


#: More of what every store is asked for: (what is looked for, what was written, whether it is found), judged by hand.
MORE_NEEDLES = (
    ("ss", "ẞ", True),
    ("i", "İ", True),
    ("ﬁ", "FIN", True),
    ("ffi", "oﬃce", True),
    ("ａｂｃ", "xABCx", True),
    ("σ", "ΤΕΛΟΣ", True),
    ("ς", "σ", True),
    ("αι", "ᾼ", True),
    ("CAFE\u0301", "café", True),
    ("\u0301", "é", False),
    ("ω", "\u2126", True),
    ("μ", "\u00b5", True),
    ("dž", "Ǆ", True),
    ("2", "x²", True),
    ("1/2", "½", False),  # it folds to a fraction slash
    ("𐐨", "𐐀", True),
    ("カ", "ガ", False),
    ("器", "计算器", True),
    ("计算", "计 算", False),
    ("1%0", "100", False),
    ("\\_", "a_b", False),
    ("[a]", "a", False),
    ("^", "a", False),
    ("😀", "😁", False),
    ("👩", "👩\u200d💻", True),
    ("\u200d", "👩\u200d💻", True),
    ("\u200d", "ab", False),
    ("لا", "ﻻ", True),
    ("a b", "a\nb", False),
    ("a b", "a\u00a0b", True),
    ("a b", "a\u3000b", True),
    (" a", "a", False),
)


@pytest.mark.parametrize(("needle", "text", "found"), (*NEEDLES, *MORE_NEEDLES))
def test_a_piece_of_text_is_found_where_it_stands(needle, text, found):
    """What a search for a piece of text means; the contract of stores asks about half of these."""
    assert (fold(needle) in haystack(text, {})) is found
