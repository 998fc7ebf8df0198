"""Scores of one ranking against what should have been found: pure functions, each from 0 to 1.

`ranked` is best first; an id that is repeated counts where it first stands. `gold` is what should be found; repeated
ids count once. A ranking shorter than k has nothing in its missing ranks.

Beside them plain BM25, to stand beside recall: k1 1.2, b .75, one document per message, and nothing else. It has its own small
stemmer and stop words, so that a change of the search never moves what it is compared with.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence


def hit_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """1 when any of the gold ids is among the first k (Hit@1, any@10)."""
    return float(not _check_gold(gold).isdisjoint(_first(k, ranked)))


def recall_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """The share of the gold ids that is among the first k (R@k)."""
    wanted = _check_gold(gold)
    return len(wanted.intersection(_first(k, ranked))) / len(wanted)


def all_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """1 when every gold id is among the first k (R_all@k)."""
    return float(_check_gold(gold).issubset(_first(k, ranked)))


def ndcg_at(k: int, ranked: Sequence[str], gold: Collection[str]) -> float:
    """How early the gold ids stand among the first k, as a share of the best order there could be (NDCG@k)."""
    wanted = _check_gold(gold)
    gained = sum(_gain(index) for index, id_ in enumerate(_first(k, ranked)) if id_ in wanted)
    return gained / sum(_gain(index) for index in range(min(k, len(wanted))))


def ranks(ranked: Sequence[str], gold: Iterable[str]) -> list[int | None]:
    """Where each gold id stands, counted from 1; None for one that was not found."""
    found = {id_: rank for rank, id_ in enumerate(dict.fromkeys(ranked), 1)}
    return [found.get(id_) for id_ in gold]


def mean(values: Sequence[float]) -> float:
    """The mean, or 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(share: float, values: Iterable[float]) -> float:
    """The smallest of the values that at least this share of them do not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _first(k: int, ranked: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranked))[:k]


def _gain(index: int) -> float:
    return 1 / math.log2(index + 2)


def _check_gold(gold: Collection[str]) -> set[str]:
    if not gold:
        raise ValueError("a question without gold ids cannot be scored")
    return set(gold)


K1 = 1.2
B = 0.75

_STOP_WORDS = """
    a about above after again all also am an and any anything are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each ever every few for
    from further get gets getting go going got had hadn has hasn have haven having he hello her here hers herself hi
    him himself his how i if im in into is isn it its itself just let ll m many me more most much my myself no nor not
    now of off on once only or other our ours ourselves out over own please re s same she should shouldn so some such
    t than thanks that the their theirs them themselves then there these they this those through to too u under until
    up us user ve very was wasn we were weren what when where which while who whom whose why will with won would
    wouldn you your yours yourself yourselves
"""
ENGLISH_STOP_WORDS = frozenset(_STOP_WORDS.split())
CHINESE_STOP_CHARACTERS = frozenset(
    "我你您他她它们咱俺的地得了着过是有没不在和跟与及或而且但就都也还又再很太更最这那哪些个只把被让给对为从向到于以之其"
    "什么谁怎样几多少啥嘛吗呢吧啊呀哦嗯哈啦么来去上下里会能要想可说用户现今天年月日号点一二两三请帮告诉知道如何"
)

_PART = re.compile(r"[㐀-䶿一-鿿]+|[^\W_㐀-䶿一-鿿]+")
_VOWEL = re.compile(r"[aeiou]|(?<=[^aeiou])y")


class BM25:
    """Ranks a handful of texts by the words they share with a question."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(terms(text)) for text in texts]
        self._lengths = [counts.total() for counts in self._counts]
        self._mean_length = sum(self._lengths) / max(1, len(texts)) or 1.0
        holding = Counter(term for counts in self._counts for term in counts)
        self._idf = {
            term: math.log(1 + (len(texts) - held + 0.5) / (held + 0.5)) for term, held in holding.items()
        }

    def rank(self, question: str) -> list[int]:
        """The texts that share a term with the question, by their positions in the list, best first; equals in order."""
        asked = set(terms(question))
        scores = [self._score(at, asked) for at in range(len(self._counts))]
        return sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])

    def _score(self, at: int, asked: set[str]) -> float:
        counts, norm = self._counts[at], K1 * (1 - B + B * self._lengths[at] / self._mean_length)
        shared = asked & counts.keys()
        return math.fsum(
            self._idf[term] * counts[term] * (K1 + 1) / (counts[term] + norm) for term in sorted(shared)
        )


def terms(text: str) -> list[str]:
    """What a text is matched by: stems of its words, and of Chinese the characters and pairs; stop words removed."""
    found: list[str] = []
    for part in _PART.findall(text.lower().replace("’", "'")):
        if "㐀" <= part[0] <= "鿿":
            grams = [*part, *(part[at : at + 2] for at in range(len(part) - 1))]
            found += [gram for gram in grams if not CHINESE_STOP_CHARACTERS.issuperset(gram)]
        elif part not in ENGLISH_STOP_WORDS:
            found.append(stem(part))
    return found


def stem(word: str) -> str:
    """An English word without the endings of number, tense and -ing: lives, lived and living are all `live`'s `liv`."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _VOWEL.search(word[: -len(ending)]):
            word = word[: -len(ending)]
            if word[-1] == word[-2:-1] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if word.endswith("y") and _VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word
