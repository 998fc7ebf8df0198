"""Text as Octavo compares it: one folding for every backend, one spelling for JSON values."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_DEL_AND_C1 = re.compile("[\x7f-\x9f]")
#: All but the tab of C0, DEL and C1; what ends a line or turns its direction; halves of characters, which no stream takes.
_CONTROLS = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """One line that cannot steer a terminal nor pose as several: what could is spelled as Python does, as in \\x1b."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_json(spelled: str) -> str:
    """The same JSON without DEL and C1, which a terminal obeys and JSON does not escape by itself."""
    return _DEL_AND_C1.sub(lambda found: f"\\u{ord(found[0]):04x}", spelled)


def fold(text: str) -> str:
    """Make caseless comparison a plain substring test: ＡＢＣ, ABC and abc fold alike."""
    if text.isascii():
        return text.lower()
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
    """What a text search looks through: the record's text, or the values of its data when it has none."""
    return fold(text) if text else fold("\n".join(leaves(data)))
