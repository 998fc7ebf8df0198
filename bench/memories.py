"""The memories recall is timed on: sentences whose words are as common and as rare as those of real text."""

import random
from bisect import bisect
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from octavo import Record, Scope

USERS = 100
SESSIONS = 10
WORDS = 25
CHINESE = 10  # one record in so many
CHARACTERS = 40
_VOCABULARY = 20_000
_BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
_SYLLABLES = [first + then for first in "bdfgklmnprstvz" for then in ("a", "o", "u", "im", "el", "or")]

KINDS = {
    "rare": "a rare word",
    "common": "a common word",
    "five": "five words",
    "chinese": "a Chinese question",
}


class Asking(NamedTuple):
    """One question, put to one user's memory."""

    user: str
    text: str


class Memories(NamedTuple):
    """All records, and the questions of each kind."""

    records: list[Record]
    questions: dict[str, list[Asking]]
    shares: dict[str, float]  # of all records, how many hold the word asked for


def drawn(total: int, questions: int, users: int = USERS) -> Memories:
    """So many records and questions, the same ones each time."""
    dice = random.Random(7)
    texts = [_chinese(dice) if n % CHINESE == 3 else _english(dice) for n in range(total)]
    # A user's records are not every hundredth, or one user in ten would have all the Chinese ones.
    owners = [dice.randrange(users) for _ in range(total)]
    records = [_record(n, owners[n], texts[n]) for n in range(total)]
    held = Counter(word for n, text in enumerate(texts) if n % CHINESE != 3 for word in set(text.split()))
    common = min(held, key=lambda word: abs(held[word] - total / 2))
    most = max(1, total // 10_000)
    by_kind: dict[str, list[Asking]] = {kind: [] for kind in KINDS}
    rare_held = []
    while any(len(asked) < questions for asked in by_kind.values()):
        n = dice.randrange(total)
        user, text = f"user-{owners[n]}", texts[n]
        if n % CHINESE == 3:
            at = dice.randrange(CHARACTERS - 8)
            by_kind["chinese"].append(Asking(user, f"{text[at : at + 8]}？"))
            continue
        words = text.split()
        by_kind["common"].append(Asking(user, common))
        by_kind["five"].append(Asking(user, " ".join(dice.sample(sorted(set(words)), 5))))
        if rare := [word for word in words if held[word] <= most]:
            by_kind["rare"].append(Asking(user, rare[0]))
            rare_held.append(held[rare[0]])
    return Memories(
        records,
        {kind: asked[:questions] for kind, asked in by_kind.items()},
        {"common": held[common] / total, "rare": sum(rare_held) / len(rare_held) / total},
    )


def _record(n: int, owner: int, text: str) -> Record:
    return Record(
        collection="messages",
        id=f"m{n:07d}",
        kind="user",
        scope=Scope(user=f"user-{owner}", session=f"session-{n * SESSIONS // 997 % SESSIONS}"),
        text=text,
        created_at=_BIRTH + timedelta(seconds=n),
    )


def _english(dice: random.Random) -> str:
    vocabulary, weights = _words()
    return " ".join([vocabulary[bisect(weights, dice.random() * weights[-1])] for _ in range(WORDS)])


def _chinese(dice: random.Random) -> str:
    weights = _zipf(2000)
    places = [bisect(weights, dice.random() * weights[-1]) for _ in range(CHARACTERS)]
    return "".join([chr(0x4E00 + 7 * place) for place in places])


@cache
def _words() -> tuple[list[str], list[float]]:
    """Invented words, the n-th of them 1/n as frequent as the first: so are the words of any language."""
    dice = random.Random(11)
    made: dict[str, None] = {}
    while len(made) < _VOCABULARY:
        made["".join(dice.choices(_SYLLABLES, k=dice.choice((2, 3, 3, 4))))] = None
    return list(made), _zipf(_VOCABULARY)


@cache
def _zipf(size: int) -> list[float]:
    return list(accumulate(1 / n for n in range(1, size + 1)))
