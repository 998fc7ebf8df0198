"""Traditional Chinese characters as simplified ones, so that what was told in one writing is found in the other."""

import functools
import re
from collections.abc import Mapping
from importlib import resources

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
