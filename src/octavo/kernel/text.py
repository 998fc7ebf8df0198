"""Text: one folding for every backend, one spelling for JSON values, patterns that are compiled late, an estimate of tokens."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple, cast

import msgspec

_encode = msgspec.json.Encoder().encode
#: Characters that are normalised at once: it takes the square of the marks that follow each other.
_PIECE = 1024
_LONGEST_TAIL = 256  # characters after which a piece ends even among marks
_PHRASES = re.compile("([\ufdfa\ufdfb]+)")  # single signs that NFKC spells out with 18 and 8 characters
_DEL_AND_C1 = re.compile("[\x7f-\x9f]")
#: All but the tab of C0, DEL and C1; what ends a line or turns its direction; what nobody sees (but joiners, of which
#: emoji and scripts are made); halves of characters, which no stream takes.
_CONTROLS = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ud800-\udfff\ufeff]"
)


def escape_controls(text: str) -> str:
    """One line that cannot steer a terminal nor pose as several: what could is spelled as Python does, as in \\x1b."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_json_controls(spelled: str) -> str:
    """The same JSON without DEL and C1, which a terminal obeys and JSON does not escape by itself."""
    return _DEL_AND_C1.sub(lambda found: f"\\u{ord(found[0]):04x}", spelled)


def drop_unstorable(text: str) -> str:
    """Text without NUL and half surrogate pairs, which no store keeps."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fold(text: str) -> str:
    """Make caseless comparison a plain substring test: ＡＢＣ, ABC and abc fold alike.

    Two signs that stand for a whole phrase stay as they are: spelled out, a text of them is eleven times as long.
    """
    if text.isascii():
        return text.lower()
    return "".join(map(_fold_piece, pieces(text)))


def fold_in_steps(text: str) -> Generator[None, None, str]:
    """`fold` in steps, each of a few milliseconds at most."""
    if text.isascii():
        return text.lower()
    found = []
    for piece in pieces(text):
        found.append(_fold_piece(piece))
        yield
    return "".join(found)


def pieces(text: str) -> Iterator[str]:
    """The text in short pieces, each of which can be normalised by itself.

    What is written as several characters stays in one piece, unless it is hundreds of marks, which nobody wrote. A megabyte
    of them would take minutes in one go, and no other thread runs meanwhile.
    """
    start = 0
    while len(text) - start > _PIECE + _LONGEST_TAIL:
        end = start + _PIECE
        end = next((at for at in range(end, end + _LONGEST_TAIL) if _stands_alone(text[at])), end)
        yield text[start:end]
        start = end
    yield text[start:]


def _stands_alone(character: str) -> bool:
    """Whether a character never becomes one with what is before it, as marks and the vowels of Hangul and Kirat Rai do."""
    first = unicodedata.normalize("NFKD", character)[0]
    return not (
        unicodedata.category(first)[0] == "M"
        or "\u1160" <= first <= "\u11ff"
        or "\U00016d63" <= first <= "\U00016d6a"
    )


def _fold_piece(text: str) -> str:
    if _PHRASES.search(text):
        return "".join(part if _PHRASES.match(part) else _fold_piece(part) for part in _PHRASES.split(text))
    # The second pass matters: casefolding can leave text that NFKC would compose differently.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def spell(value: Any) -> str:
    """The one JSON spelling of a value: compact, unescaped UTF-8."""
    return _encode(value).decode()


def spellings(value: Any) -> tuple[str, ...]:
    """Every JSON spelling that equals a scalar: 1 is also 1.0, while true is only true."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return (spell(value),)
    whole = isinstance(value, int) or value.is_integer()
    if not whole or abs(value) > 2**53:  # past 2**53 an int and a float are no longer the same number
        return (spell(value),)
    if value == 0:
        return ("0", "0.0", "-0.0")
    return (spell(int(value)), spell(float(value)))


def leaves(value: Any) -> list[str]:
    """The values inside a JSON document as text, in order; keys are names, not content."""
    found: list[str] = []
    _gather(value.values() if type(value) is dict else (value,), found)
    return found


def _gather(values: Iterable[Any], found: list[str]) -> None:
    for value in values:
        if type(value) is str:
            found.append(value)
        elif type(value) is dict:
            _gather(value.values(), found)
        elif type(value) is list:
            _gather(value, found)
        elif value is not None:
            found.append(spell(value))


def haystack(text: str, data: Any) -> str:
    """What a text search looks through: the folded `content` of a record."""
    return fold(content(text, data))


def content(text: str, data: Any) -> str:
    """The text a record is found by: its own, or the values of its data when it has none."""
    return text or "\n".join(leaves(data))


class _LazyPattern:
    """Stands for a pattern; each of its methods becomes an attribute of this once it has been asked for."""

    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        found = self.__dict__[name] = getattr(self._compiled, name)
        return found


def lazy_pattern(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """What `re.compile` gives, but for mistakes in it, which are raised at first use; for `re.sub(it, …)` it is none."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


def pluralize(count: int, noun: str) -> str:
    """A number and its noun: `1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def folder_name(words: str, identity: str) -> str:
    """A name that a person recognises, with enough of a digest to be nobody else's."""
    readable = re.sub(r"[^\w.-]+", "-", words).strip("-.")[:60]
    return f"{readable}-{hashlib.blake2b(identity.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"


_PIECES = re.compile(r"[A-Za-z]{1,5}|\d{1,3}|[!-~]")
_GAPS = re.compile(r"\s{2,}")
_OTHERS = re.compile(r"[^!-~\s\d]")


def estimate_tokens(text: str) -> int:
    """An estimate for today's byte-pair tokenizers: right for Chinese too, and seldom less than what they count.

    English words take one token for each five letters begun, digits one for three, Chinese characters one each and a
    quarter, emoji and other signs two.
    """
    # Most lines are plain: what they do not hold is not looked for.
    plain = text.isascii() and text.replace("\n", " ").isprintable()
    others = [] if plain else _OTHERS.findall(text)
    letters = sum(map(str.isalpha, others))
    spaces = text.count("\n") + len(_GAPS.findall(text))
    return math.ceil(len(_PIECES.findall(text)) + spaces + 1.25 * letters + 2 * (len(others) - letters))


class SpokenLine(NamedTuple):
    """One thing said; a `whole` one is not to be taken apart into sentences."""

    speaker: str
    role: str
    text: str
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.speaker}: {self.text}"
