"""One tokenizer for every backend: text in, terms out, in the order they stand.

Latin words are stemmed; scripts written without spaces become single characters and pairs; numbers, dates, code
identifiers and emoji become terms of their own. A term holds letters, digits and symbols, never white space or ASCII
punctuation, so that any engine can take it as one token. Traditional Chinese characters become simplified ones, so that what
was told in one writing is found in the other.
"""

import functools
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from operator import add

from octavo.kernel.terms import LONGEST_TERM
from octavo.kernel.terms.dates import days
from octavo.kernel.terms.english import stem
from octavo.kernel.text import lazy_pattern, pieces

#: Written in simplified texts too, with a meaning of their own, as in 乾隆. They count where others are traditional.
_IN_BOTH = "乾夥徵藉"
# 著 is 着 behind a verb, and stays itself in a famous author's works.
_ASPECT = re.compile("(?<![名显顯原编編专專论論巨卓土])著(?![名作者称稱述书書])")


def simplify(text: str) -> str:
    """The text with its traditional characters simplified, each in its place; a text without any is returned as it is."""
    if text.isascii() or not _traditional().search(text):
        return text
    return _ASPECT.sub("着", text.translate(_simplified()))


def restore(text: str, simplified: str, original: str) -> str:
    """A text that was made of a simplified one, in the writing of the original; what was added to it stays as it is."""
    if simplified == original:
        return text
    # 用户 is a word of ours.
    restored, at = ("用户", 2) if text.startswith("用户") else ("", 0)
    while at < len(text):
        # The longest piece that stands there: 发 alone may be 發 or 髮.
        end, found = at + 1, simplified.find(text[at])
        while found >= 0 and end < len(text) and (longer := simplified.find(text[at : end + 1], found)) >= 0:
            end, found = end + 1, longer
        restored += original[found : found + end - at] if found >= 0 else text[at]
        at = end
    return restored


@functools.cache
def _simplified() -> Mapping[int, str]:
    lines = resources.files(__package__).joinpath("traditional.txt").read_text("utf-8").splitlines()
    groups = [group for line in lines if not line.startswith("#") for group in line.split()]
    return {ord(character): group[0] for group in groups for character in group[1:]}


@functools.cache
def _traditional() -> "re.Pattern[str]":
    characters = "".join(map(chr, _simplified()))
    return re.compile(f"[{''.join(c for c in characters if c not in _IN_BOTH)}]")


_SHORT = 24  # longer words, and those of scripts without spaces, seldom repeat and would only fill memory
MOST_CHARACTERS = 65_536  # of one text; a longer one is found by what stands at its beginning

_LONGEST_RUN = 8192  # characters without white space that are read as one

# Scripts without spaces between words: kana, Han, Hangul, Thai, Lao, Burmese, Khmer.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
# Signs that stand on letters and belong to their word: Latin accents left over, and those of the Indic scripts.
_SIGNS = "\u0300-\u036f\u0900-\u0dff"
_EMOJI = "\u2600-\u27bf\u2b00-\u2bff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff"  # skin tones are no matter
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_SIGNS}])"
_CHUNK = lazy_pattern(
    rf"[{_UNSPACED}]+"
    rf"|{_LETTER}+(?:(?:['’_.\-]|(?<=\d)[,:/](?=\d)){_LETTER}+)*(?:\+\+|#)?"
    rf"|[{_EMOJI}]"
)
_PLAIN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")  # all there is in most English text
_IS_UNSPACED = lazy_pattern(rf"[{_UNSPACED}]")
_PARTS = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SPECIAL = {"c++": "cplusplus", "c#": "csharp", "f#": "fsharp"}
_JOINTS = re.compile(r"[\x00-\x2f:-@\[-`{-\x7f]+")  # all of ASCII but letters and digits
_MAY_HOLD_DATE = re.compile(r"\d{4}|[一二][〇零一二三四五六七八九]{3}年")


def is_unspaced(term: str) -> bool:
    """Whether a term is of a script without spaces between words, so that it is a character or a pair of them."""
    return _IS_UNSPACED.match(term) is not None


def terms(text: str) -> list[str]:
    """Every term of a text, repeated as often as it stands there."""
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS]
    if not text.isascii():
        plain = ""
        for piece in pieces(text):
            plain += unicodedata.normalize("NFKC", piece)
            if len(plain) >= MOST_CHARACTERS:  # some single signs become whole phrases
                break
        text = simplify(plain[:MOST_CHARACTERS])
    found: list[str] = []
    for word in text.split():  # no term holds white space, and words repeat
        if len(word) <= _SHORT and word < "\u0e00":
            found += _cached_terms(word)
        elif len(word) <= _LONGEST_RUN:
            found += _terms_of_word(word)
        else:  # in pieces: while a pattern runs, no other thread does
            for at in range(0, len(word), _LONGEST_RUN):
                found += _terms_of_word(word[at : at + _LONGEST_RUN])
    if _MAY_HOLD_DATE.search(text):
        found += [f"{y}{m:02}{d:02}" for y, m, d in days(text) if y and m and d]
    return found


def _terms_of_word(word: str) -> list[str]:
    """The terms of what stands between white space."""
    found: list[str] = []
    for chunk in _CHUNK.findall(word):
        if _IS_UNSPACED.match(chunk):
            found += chunk
            found += map(add, chunk, chunk[1:])
        else:
            found += [term[:LONGEST_TERM] for term in _terms_of_chunk(chunk) if term]
    return found


@lru_cache(maxsize=16_384)
def _cached_terms(word: str) -> tuple[str, ...]:
    return tuple(_terms_of_word(word))


def _terms_of_chunk(chunk: str) -> tuple[str, ...]:
    """The terms of one chunk of letters, digits and what joins them."""
    folded = chunk.casefold()
    if folded in _SPECIAL:
        return (_SPECIAL[folded],)
    chunk = chunk.rstrip("+#")
    word = folded.rstrip("+#").replace("’", "'")
    if _PLAIN.fullmatch(word) and chunk[1:].islower():
        return (_word(word),)
    if word[0].isdigit() and not any(c.isalpha() for c in word):
        return _number(word)
    parts = [part for piece in re.split(r"[_.\-]", chunk) for part in _CAMEL.split(piece) if part]
    if len(parts) == 1:
        return (_word(word),)
    found = [_word(part.casefold()) for part in parts]
    joined = _letters(word)
    # A name in code, or a word some write as one: e-mail is also email, getUserName also getusername.
    if "." not in word and joined not in found:
        found.append(stem(joined) if joined.isascii() else joined)
    return tuple(found)


def _number(word: str) -> tuple[str, ...]:
    """1,000 is 1000; 3.14 is one number and not 314; 2023-05-07 is also its parts."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", word):
        word = word.replace(",", "")
    if "." in word and word.count(".") == 1 and not re.search(r"[^\d.]", word):
        return (word.replace(".", "d"),)
    return tuple(part.lstrip("0") or "0" for part in _PARTS.findall(word))


def _word(word: str) -> str:
    word = word.replace("’", "'")
    word = word.removesuffix("'s")
    word = _letters(word)
    return stem(word) if word.isascii() and word.isalpha() else word


def _letters(word: str) -> str:
    """Without accents on Latin letters, and without what joins the parts of a name."""
    if not word.isascii():
        apart = "".join([unicodedata.normalize("NFD", piece) for piece in pieces(word)])
        plain = "".join(c for c in apart if not "\u0300" <= c <= "\u036f")
        word = unicodedata.normalize("NFC", plain)
    return _JOINTS.sub("", word)
