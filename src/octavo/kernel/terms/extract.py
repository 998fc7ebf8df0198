"""A summary without a model: the sentences that say most, in their own words and their own order, Chinese or English.

And what a summary left out that no summary may lose: names, numbers, and what somebody refuses.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from octavo.kernel.terms.english import STOP_WORDS, stem
from octavo.kernel.terms.terms import is_unspaced, terms
from octavo.kernel.text import SpokenLine, estimate_tokens

LONGEST_SENTENCE = 280  # characters; of a longer one the beginning is quoted

_ENDS = re.compile(r"(?<=[。！？；])|(?<=[.!?])\s+|\n+")
_SPACE = re.compile(r"\s+")
_CARRIERS = frozenset(stem(word) for word in STOP_WORDS if word.isalpha())
# What people say when something is meant to last.
_CUES = re.compile(
    r"\b(?:remember|always|never|prefer|must|important|allerg\w+|decided?|agreed?|deadline|my \w+ is)\b"
    r"|记住|记得|必须|不要|不能|喜欢|偏好|过敏|决定|重要|一定|截止|我叫|我是",
    re.IGNORECASE,
)
_CUED = 2.0
_COST = 8  # tokens added to each sentence's cost, so that many scraps do not beat one whole sentence
_KEPT_BEFORE = 1.5  # what an earlier summary held was chosen once already
_FIRST_ASKED = 2.0  # the first thing a user says is mostly what all the rest is about
_USER = 1.3
_PAIR = 0.35  # a Chinese word is in two or three pairs, and half the words say nothing by themselves
_FIGURES = 1.5  # numbers and dates cannot be guessed from the rest


class _Sentence(NamedTuple):
    shown: str
    tokens: int
    terms: frozenset[str]
    favour: float


def extract(lines: Sequence[SpokenLine], max_tokens: int, before: str = "") -> str:
    """At most about `max_tokens` of what the lines and the summary `before` them say; "" when they say nothing."""
    sentences = _sentences(lines, before)
    if not sentences:
        return ""
    if sum(sentence.tokens for sentence in sentences) <= max_tokens:
        return "\n".join(sentence.shown for sentence in sentences)
    chosen = _choose(sentences, max_tokens)
    if not chosen:  # not one fits: the beginning of the best one is better than nothing
        weights = _weights(sentences)
        best = max(sentences, key=lambda one: one.favour * sum(weights[term] for term in one.terms))
        return _cut(best.shown, max_tokens)
    return "\n".join(sentences[at].shown for at in sorted(chosen))


def _sentences(lines: Sequence[SpokenLine], before: str) -> list[_Sentence]:
    found: dict[str, _Sentence] = {}  # what is said twice in the same words is said once
    for kept in before.splitlines():
        if kept := _clean(kept):
            said = kept.partition(": ")[2] if kept.startswith("- ") else kept
            # What was meant to last still is, however often the summary is made anew.
            favour = _KEPT_BEFORE * (_CUED if _CUES.search(said) else 1.0)
            found.setdefault(kept, _sentence(kept, favour, said))
    asked = bool(found)
    for line in lines:
        for said in [line.text] if line.whole else _ENDS.split(line.text):
            if not (said := _clean(said)):
                continue
            favour = _USER if line.role == "user" else 1.0
            if line.role == "user" and not asked:
                favour, asked = _FIRST_ASKED, True
            if not line.whole and _CUES.search(said):
                favour *= _CUED
            shown = f"- {line.speaker}: {said}"
            found.setdefault(shown, _sentence(shown, favour, said))
    return list(found.values())


def _clean(said: str) -> str:
    said = _SPACE.sub(" ", said).strip()
    return said if len(said) <= LONGEST_SENTENCE else f"{said[:LONGEST_SENTENCE].rstrip()}…"


def _sentence(shown: str, favour: float, said: str) -> _Sentence:
    # A single character of an unspaced script says little, and its pairs say it too.
    held = {t for t in terms(said) if t not in _CARRIERS and not (len(t) == 1 and is_unspaced(t))}
    return _Sentence(shown, estimate_tokens(shown) + 1, frozenset(held), favour)


def _weights(sentences: Sequence[_Sentence]) -> dict[str, float]:
    """What a term is worth: much when the talk comes back to it, little when every sentence has it."""
    held = Counter(term for sentence in sentences for term in sentence.terms)
    return {
        term: math.log1p(count) * math.log1p(len(sentences) / count) * _share(term)
        for term, count in held.items()
    }


def _share(term: str) -> float:
    if is_unspaced(term):
        return _PAIR
    return _FIGURES if term[0].isdigit() else 1.0


def _choose(sentences: Sequence[_Sentence], max_tokens: int) -> list[int]:
    """Greedy cover: again and again the sentence that adds most for its length, until none fits."""
    weights = _weights(sentences)
    covered: set[str] = set()

    def gain(at: int) -> float:
        one = sentences[at]
        new = sum(weights[term] for term in one.terms if term not in covered)
        return one.favour * new / math.sqrt(one.tokens + _COST)

    # What a sentence adds only ever shrinks, so a stale value on the heap is an upper bound: most are never looked at again.
    waiting = [(-gain(at), at) for at in range(len(sentences))]
    heapq.heapify(waiting)
    chosen: list[int] = []
    room = max_tokens
    while waiting and room > 0:
        stale, at = heapq.heappop(waiting)
        if sentences[at].tokens > room:
            continue
        fresh = gain(at)
        if fresh < -stale and waiting and fresh < -waiting[0][0]:
            heapq.heappush(waiting, (-fresh, at))
            continue
        chosen.append(at)
        covered |= sentences[at].terms
        room -= sentences[at].tokens
    return chosen


def _cut(text: str, max_tokens: int) -> str:
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if estimate_tokens(f"{text[:middle]}…") <= max_tokens else (low, middle - 1)
        )
    return f"{text[:low].rstrip()}…" if low else text[:1]


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
_CLAUSE_ENDS = re.compile(r"[.!?;\n。！？；]+")


def find_lost(said: Sequence[str], summary: str) -> list[str]:
    """The names, numbers and refusals of these texts that the summary does not hold, each once.

    What only counts is no number: texts that are the same but for their numbers, three of them or more.
    """
    held = summary.replace(",", "").casefold()
    denied = {word for part in _CLAUSE_ENDS.split(summary) if _DENIES.search(part) for word in terms(part)}
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
