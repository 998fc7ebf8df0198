"""What a summary left out that no summary may lose: names, numbers, and what somebody refuses."""

import re
from collections import Counter
from collections.abc import Sequence

from octavo.kernel.terms.english import STOP_WORDS
from octavo.kernel.terms.terms import terms

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_DIGITS = ("zero|零|〇", "one|一", "two|二|两", "three|三", "four|四", "five|五", "six|六", "seven|七", "eight|八", "nine|九")  # fmt: skip
# A capital inside a sentence, and what a Chinese text says somebody or something is called.
_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][\w-]+|(?:[叫姓]|名字是)(?![什啥我你做他她])([㐀-鿿]{1,3}|[A-Za-z]+)")
_REFUSAL = re.compile(
    r"\b(?:no|never|don't|do not|doesn't|won't|will not|can't|cannot|mustn't|avoid|without|allergic to)\s+(?!(?:know|think|mind"
    r"|worry|see|understand|sure|problem|idea|one|thanks|need|doubt|matter|more|longer|be|have|get|it|that|remember|care|wait"
    r"|believe)\b)((?:[\w'-]+ ?){1,3})|对([㐀-鿿]{1,6}?)过敏"
    r"|(?:不(?:再|能|想|要|爱|喜欢|可以|准|许)?[吃喝抽碰用坐接要收买打发]|别|拒绝|忌|戒)([㐀-鿿]{1,3})",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:no|not|non|never|without|avoid\w*|refus\w+|allerg\w+|dislike\w*|hate\w*|free)\b|n't\b|[不别无忌戒没拒敏勿]",
    re.IGNORECASE,
)
_COUNTED = 3  # texts that differ by their numbers alone
_ENDS = re.compile(r"[.!?;\n。！？；]+")


def find_lost(said: Sequence[str], summary: str) -> list[str]:
    """The names, numbers and refusals of these texts that the summary does not hold, each once.

    What only counts is no number: texts that are the same but for their numbers, three of them or more.
    """
    held = summary.replace(",", "").casefold()
    denied = {word for part in _ENDS.split(summary) if _DENIES.search(part) for word in terms(part)}
    lost: dict[str, None] = {}  # in their order
    shapes = Counter(_NUMBER.sub("0", text) for text in said)
    for text in said:
        numbers = _NUMBER.findall(text) if shapes[_NUMBER.sub("0", text)] < _COUNTED else ()
        lost |= {number: None for number in numbers if not _has_number(number, held)}
        for match in _NAME.finditer(text):
            name = (match[1] or match[0]).casefold()
            if name not in held and name not in STOP_WORDS:
                lost[match[1] or match[0]] = None
        for match in _REFUSAL.finditer(text):
            wanted = set(terms(match[1] or match[2] or match[3])) - STOP_WORDS
            if wanted and denied.isdisjoint(wanted):
                lost[match[0].strip()] = None
    return list(lost)


def _has_number(number: str, summary: str) -> bool:
    bare = number.replace(",", "")
    words = _DIGITS[int(bare)] if len(bare) == 1 else "(?!)"
    return re.search(rf"(?<!\d){re.escape(bare)}(?!\d)|{words}", summary) is not None
