"""How likely it is that memory holds an answer, judged by the words the best records share with the question."""

import math
from collections.abc import Sequence

from octavo.kernel.terms.terms import unspaced
from octavo.search.fuse import Signals
from octavo.search.lexical import weight

# Fitted to questions put to the memory they belong to, and to another one, in English and in Chinese; on the half that
# was not fitted the share of answerable questions in each fifth of the scale was within 0.1 of what it says.
_WORDS = (-6.5, 10.3, 3.1)
_CHARACTERS = (
    -3.1,
    0.0,
    15.3,
)  # single characters and pairs coincide by chance, so the share of them says little
_BEST = 5
_UNKNOWN = 0.5
_FEWEST = 100  # records to judge a term's rarity by, though fewer were found


def presence(signals: Signals, held: Sequence[int]) -> float:
    """A probability, from the share of terms one record has and the weight of those that the best five have together."""
    terms = signals.question.terms
    if not terms or not signals.grid.found:
        return 0.0
    best = sorted(range(len(signals.grid.found)), key=lambda at: -signals.terms[at])[:_BEST]
    counts = [signals.grid.found[at].counts for at in best]
    weights = [weight(n, max(len(signals.grid.found), _FEWEST)) for n in held]
    share = max(sum(1 for n in row if n) for row in counts) / len(terms)
    together = [any(column) for column in zip(*counts, strict=True)]
    cover = sum(w for w, there in zip(weights, together, strict=True) if there) / (sum(weights) or 1.0)
    if share == 0:  # only the vectors found anything, and there is nothing to hold them against
        return _UNKNOWN
    share_unspaced = sum(1 for term in terms if unspaced(term)) / len(terms)
    words, characters = (_odds(fit, share, cover) for fit in (_WORDS, _CHARACTERS))
    return share_unspaced * characters + (1 - share_unspaced) * words


def _odds(fit: tuple[float, float, float], share: float, cover: float) -> float:
    start, by_share, by_cover = fit
    return 1 / (1 + math.exp(-(start + by_share * share + by_cover * cover)))
