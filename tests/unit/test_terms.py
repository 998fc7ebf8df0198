"""The tokenizer: what becomes of text in any language, and what no text can do to it."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octavo.kernel.terms import LONGEST_TERM
from octavo.kernel.terms.matches import holdable
from octavo.kernel.terms.terms import MOST_CHARACTERS, terms

TABLE = [
    # words
    ("", []),
    ("Hello, World!", ["hello", "world"]),
    ("paints painted painting", ["paint", "paint", "paint"]),
    ("she went, they go", ["she", "go", "they", "go"]),
    ("Melanie's children's room", ["melani", "child", "room"]),
    ("don't don’t", ["dont", "dont"]),
    ("naïve café Straße STRASSE", ["naiv", "cafe", "strass", "strass"]),
    ("ＦＵＬＬ width ﬁnish", ["full", "width", "finish"]),
    ("Привет ΌΣΟΣ ὅσος", ["привет", "οσοσ", "οσοσ"]),
    ("İstanbul istanbul", ["istanbul", "istanbul"]),
    ("हिन्दी مرحبا שלום", ["हिन्दी", "مرحبا", "שלום"]),
    ("  \t\n\u3000\u00a0 ", []),
    ("!?.,;:'\"()[]{}<>/\\|@#$%^&*-_=+`~", []),
    # scripts without spaces
    ("中", ["中"]),
    ("软件", ["软", "件", "软件"]),
    ("打开计算器。", ["打", "开", "计", "算", "器", "打开", "开计", "计算", "算器"]),
    ("北京，上海", ["北", "京", "北京", "上", "海", "上海"]),
    ("中文abc中文", ["中", "文", "中文", "abc", "中", "文", "中文"]),
    ("カメラを", ["カ", "メ", "ラ", "を", "カメ", "メラ", "ラを"]),
    ("ｶﾒﾗ", ["カ", "メ", "ラ", "カメ", "メラ"]),
    ("한국어", ["한", "국", "어", "한국", "국어"]),
    ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
    ("𠮷野家", ["𠮷", "野", "家", "𠮷野", "野家"]),
    # numbers and days
    ("1,000 1000 1,000.5", ["1000", "1000", "1000d5"]),
    ("3.14 314 007 0", ["3d14", "314", "7", "0"]),
    ("10:30 5/7 1.2.3", ["10", "30", "5", "7", "1", "2", "3"]),
    ("50% ½ ²", ["50", "1", "2", "2"]),
    ("2023-05-07", ["2023", "5", "7", "20230507"]),
    ("May 7th, 2023", ["may", "7th", "2023", "20230507"]),
    ("2023年5月7日", ["2023", "年", "5", "月", "7", "日", "20230507"]),
    ("2023-02-30 2023年13月1日", ["2023", "2", "30", "2023", "年", "13", "月", "1", "日"]),
    # code
    ("getUserName", ["get", "user", "name", "getusernam"]),
    ("get_user_name", ["get", "user", "name", "getusernam"]),
    ("HTTPServer", ["http", "server", "httpserver"]),
    ("e-mail email", ["e", "mail", "email", "email"]),
    ("C++ c# F# C c++11", ["cplusplus", "csharp", "fsharp", "c", "cplusplus", "11"]),
    ("node.js __init__ --flag #tag @user", ["node", "js", "init", "flag", "tag", "user"]),
    ("user:%d['a']", ["user", "d", "a"]),
    # emoji: skin tones and joiners are no matter
    ("🎉🎂", ["🎉", "🎂"]),
    ("👍🏽 👍", ["👍", "👍"]),
    ("👩\u200d💻", ["👩", "💻"]),
    # what stands alone and is nothing
    ("\u0301", []),
    ("a\0b \ud800 \udfffz", ["a", "b", "z"]),
]


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=[ascii(text)[:40] for text, _ in TABLE])
def test_what_text_becomes(text, expected):
    assert terms(text) == expected


anything = st.text(alphabet=st.characters(), max_size=60)  # lone surrogates too
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=60) | st.sampled_from([t for t, _ in TABLE])
words = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)


@given(anything | st.text(alphabet="aA1.,:/-_'’+#ß中é\u0301\u0900 \ud800", max_size=40))
@example("¯")
@example("a\u0301\u0301.\u0301-\u0301")
def test_every_term_is_a_token_for_any_engine(text):
    """No term is empty, too long, or holds white space, ASCII punctuation, control characters or half a pair."""
    assert [term for term in terms(text) if not holdable(term)] == []


@given(texts)
def test_spellings_of_the_same_text(text):
    """Composed or decomposed, full-width or half-width: the terms are the same."""
    expected = terms(text)
    assert terms(unicodedata.normalize("NFC", text)) == expected
    assert terms(unicodedata.normalize("NFD", text)) == expected
    assert terms(unicodedata.normalize("NFKC", text)) == expected


@given(st.text(alphabet=[chr(code) for code in range(0x21, 0x7F)], max_size=30))
def test_full_width_forms(text):
    """ＡＢＣ１２ is ABC12."""
    assert terms("".join(chr(ord(c) + 0xFEE0) for c in text)) == terms(text)


@given(st.lists(words, max_size=6).map(" ".join))
def test_case_is_no_matter_in_plain_words(text):
    assert terms(text.upper()) == terms(text.title()) == terms(text)


@given(texts, texts)
def test_texts_side_by_side(one, other):
    """Text joined by a space has the terms of both; a day is read where it stands, or across the joint."""
    joined, apart = terms(f"{one} {other}"), terms(one) + terms(other)
    assert not Counter(apart) - Counter(joined) or any(c.isdigit() for c in one + other)
    if not any(c.isdigit() for c in unicodedata.normalize("NFKC", one + other)):
        assert joined == apart


#: A unit and how often it is repeated: ten million characters of each, made when it is read.
HUGE = {
    "words": ("", "painting in the park ", 500_000, ""),
    "chinese": ("", "打开计算器", 2_000_000, ""),
    "one run of letters": ("", "z", 10_000_000, ""),
    "one run of digits": ("", "9", 10_000_000, ""),
    "joined names": ("", "a_b.c-", 1_700_000, ""),
    "camels": ("", "aB", 5_000_000, ""),
    "months": ("", "May ", 2_500_000, ""),
    "days": ("", "7 May 2023, ", 900_000, ""),
    "chinese days": ("", "2023年5月7日", 1_000_000, ""),
    "a day and spaces": ("2023 7 ", " ", 10_000_000, "May"),
    "years and spaces": ("", "2023   年  5  月", 800_000, ""),
    "marks": ("a", "\u0301", 10_000_000, ""),
    "indic signs": ("", "\u0900", 10_000_000, ""),
    "ligatures": ("", "ﷺ", 10_000_000, ""),
    "apostrophes": ("", "a'", 5_000_000, ""),
    "commas": ("", "1,000", 2_000_000, ""),
}


@pytest.mark.parametrize(("first", "unit", "times", "last"), HUGE.values(), ids=HUGE)
def test_ten_megabytes_end(first, unit, times, last):
    """A long text is read as far as its first 65,536 characters, whatever stands there."""
    text = first + unit * times + last
    found = terms(text)
    assert found == terms(text[:MOST_CHARACTERS])
    assert all(len(term) <= LONGEST_TERM for term in found)


def test_a_long_run_is_one_term():
    """Of letters without an end the first 64 are kept, so that what was searched for and what was written meet."""
    assert terms("z" * 5000) == ["z" * LONGEST_TERM]
    assert terms("z" * 5000 + " " + "Z" * 70) == ["z" * LONGEST_TERM] * 2
    assert terms("ß" * 63) == ["s" * LONGEST_TERM]


@pytest.mark.parametrize(
    ("term", "can"),
    [
        ("hello", True),
        ("软件", True),
        ("🎉", True),
        ("3d14", True),
        ("हिन्दी", True),
        ("z" * LONGEST_TERM, True),
        ("字" * (LONGEST_TERM + 1), False),
        ("z" * (LONGEST_TERM + 1), False),
        *((term, False) for term in ("", " ", "a b", "a\u3000b", "*", "a*", "a:b", "字*", "\0", "字\0", "\ud800", "a🎉\udfff🎉")),
    ],
)  # fmt: skip
def test_what_could_be_a_term(term, can):
    assert holdable(term) is can
