"""`python -m bench.learn_clauses`: make the weights of `octavo.layers.rules.learned` and of `octavo.layers.topic` from labelled sentences.

Learned from are `dev` and `training` of `bench/extraction_sentences`, never what is put aside there. The same sentences give the
same weights, byte by byte.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.extraction import NOW, Sentence, load_sentences
from octavo.layers import topic
from octavo.layers.rules import learned
from octavo.layers.rules.facts import has_han
from octavo.layers.rules.reading import reading
from octavo.layers.rules.sentences import own_words, sentences
from octavo.util.sync import run_steps

EPOCHS, RATE = 15, 0.3
SEEN = 2  # clauses that a piece must be in to get a weight
TOPIC_EPOCHS = 8
#: The topics that the sentences are labelled with, where memories have another word for them.
TOPICS = {
    "occupation": "work", "career": "work", "pet": "pets", "ability": "skills", "skill": "skills", "possession": "things", "habit": "routine",
    "age": "birthday", "belief": "opinion", "value": "opinion", "schedule": "appointment", "taste": "like", "body": "appearance", "diet": "food",
    "trait": "personality",
}  # fmt: skip
EVENTS = {"action", "event"}  # categories of what happened, and does not last

#: A clause's places in the weights, whether it tells a fact (None: it may), and the categories that are right for it.
Example = tuple[np.ndarray, bool | None, frozenset[str]]


def clauses_of(sentence: Sentence) -> Iterator[learned.Clause]:
    """The clauses of a text as the rules come by them."""
    last = None
    for one in sentences(own_words(sentence.text, "user")):
        language = "zh" if has_han(one.text) else "en"
        for clause in learned.split(one.text, last, asks=one.asks, language=language):
            last = clause
            yield clause


def examples(labelled: Sequence[Sentence], language: str) -> list[Example]:
    found: list[Example] = []
    for sentence in labelled:
        for clause in clauses_of(sentence):
            told = [fact for fact in sentence.facts if _mentions(clause.text, fact.holds)]
            required = [fact for fact in told if not fact.optional]
            at = np.array(learned.positions(clause, language), dtype=np.int32)
            categories = frozenset(required[0].categories) if required else frozenset()
            found.append((at, bool(required) if required or not told else None, categories))
    return found


def _mentions(text: str, holds: Sequence[str]) -> bool:
    return any(one in text.casefold() for phrase in holds for one in phrase.casefold().split("|"))


def fit(places: Sequence[np.ndarray], wanted: Sequence[bool]) -> np.ndarray:
    """Logistic regression by stochastic gradient descent, each weight with a step of its own (Adagrad)."""
    weights, squares = np.zeros(1 << learned.BITS), np.full(1 << learned.BITS, 1e-6)
    seen = np.bincount(np.concatenate(places), minlength=len(weights)) >= SEEN
    order = list(range(len(places)))
    known = [at[seen[at]] for at in places]  # what was met once may stand for anything
    shuffle = random.Random(1).shuffle
    for _ in range(EPOCHS):
        shuffle(order)
        for n in order:
            share = len(places[n]) ** -0.5
            at = known[n]
            error = 1 / (1 + np.exp(-weights[at].sum() * share)) - wanted[n]
            gradient = error * share
            squares[at] += gradient**2
            weights[at] -= RATE * gradient / np.sqrt(squares[at])
    return weights


def learn(labelled: Sequence[Sentence], language: str) -> bytes:
    """All columns of weights, as bytes."""
    known = examples(labelled, language)
    sure = [(at, told) for at, told, _ in known if told is not None]
    columns = [fit([at for at, _ in sure], [told for _, told in sure])]
    facts = [(at, kinds) for at, told, kinds in known if told]
    columns.append(fit([at for at, _ in facts], [EVENTS.isdisjoint(kinds) for _, kinds in facts]))
    lasting = [(at, kinds) for at, kinds in facts if not kinds >= EVENTS]
    for category in learned.COLUMNS[2:]:
        some = [(at, category in kinds) for at, kinds in lasting]
        columns.append(fit([at for at, _ in some], [here for _, here in some]))
    rounded = np.clip(np.round(np.concatenate(columns) * learned.SCALE), -127, 127)
    return rounded.astype(np.int8).tobytes()


def learn_topics(labelled: Sequence[Sentence]) -> bytes:
    """The weights of the topics, as bytes: a softmax over what the rules keep of each sentence."""
    known: list[tuple[np.ndarray, int]] = []
    for sentence in labelled:
        for one in run_steps(reading(sentence.text, "user", NOW, weighed=True)):
            said = next(
                (TOPICS.get(fact.topic, fact.topic) for fact in sentence.facts if fact.fits(one.content)), ""
            )
            if said in topic.LEARNED:
                rows = np.array(topic.rows_of(one.content), dtype=np.int32)
                known.append((rows, topic.LEARNED.index(said)))
    weights = np.zeros((1 << topic.BITS, len(topic.LEARNED)))
    squares = np.full(weights.shape, 1e-6)
    shuffle = random.Random(1).shuffle
    for _ in range(TOPIC_EPOCHS):
        shuffle(known)
        for rows, right in known:
            share = len(rows) ** -0.5
            sums = weights[rows].sum(axis=0) * share
            error = np.exp(sums - sums.max())
            error /= error.sum()
            error[right] -= 1
            gradient = error * share
            squares[rows] += gradient**2
            weights[rows] -= RATE * gradient / np.sqrt(squares[rows])
    return np.clip(np.round(weights * topic.SCALE), -127, 127).astype(np.int8).tobytes()


def main() -> None:
    everything: list[Sentence] = []
    for language in ("en", "zh"):
        labelled = [one for part in ("dev", "training") for one in load_sentences(part, language)]
        data = learn(labelled, language)
        (Path(learned.__file__).parent / f"learned_{language}.bin").write_bytes(data)
        everything += labelled
        print(f"{language}: {len(labelled)} sentences")
    (Path(topic.__file__).parent / "topic.bin").write_bytes(learn_topics(everything))


if __name__ == "__main__":
    main()
