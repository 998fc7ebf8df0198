"""`python -m bench.extraction`: how many sentences of the tables the rules read as expected, and which they do not.

`--facts` asks of other sentences, those of `bench/extraction_sentences`, whether the facts that were really said are there, with their
names, numbers and dates, and nothing else; `--misses` lists what went wrong in the development half.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from octavo.layers.rules.extractor import decide

TABLES = Path(__file__).parents[1] / "tests" / "layers" / "rules"
SENTENCES = Path(__file__).parent / "extraction_sentences"
PRINTED = ("dev", "held", "asides", "strangers")  # `training` is what the weights know by heart
NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)
#: What must stay whole: a memory of it that lost its price, place or date is missing something, but says nothing false.
DETAILED = frozenset({"purchase", "appointment", "travel", "schedule"})
#: What may be listed: of "I speak Punjabi and Urdu" one memory is right, and one for each language too.
LISTED = frozenset({"language", "taste", "food", "hobby", "ability"})


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that a sentence says, as a memory must hold it."""

    holds: tuple[str, ...]  # all of these, in any case; "quit|left" is one or the other
    categories: tuple[str, ...]  # any of these is right
    topic: str
    optional: bool = False  # may be kept and may be left out

    def fits(self, text: str) -> bool:
        """Whether a memory says this."""
        return all(_has(text, phrase) for phrase in self.holds)

    def allows(self, text: str) -> bool:
        """Whether a memory says this, or a part of it that is true by itself."""
        parts = any(_has(text, phrase) for phrase in self.holds)
        return self.fits(text) or (self.topic in DETAILED | LISTED and parts)


def _has(text: str, phrase: str) -> bool:
    return any(each in text.casefold() for each in phrase.casefold().split("|"))


class Sentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence and its facts; a wish, a question or what somebody else said has none."""

    text: str
    language: str
    facts: tuple[Fact, ...]


class Kept(NamedTuple):
    """A memory that was made of a sentence."""

    category: str
    content: str


class Reading(NamedTuple):
    """What was made of one sentence."""

    sentence: Sentence
    kept: tuple[Kept, ...]
    missing: tuple[Fact, ...]  # said, and no memory of its own holds it
    miscategorised: tuple[Kept, ...]
    false: tuple[Kept, ...]  # holds nothing that was said

    @property
    def right(self) -> bool:
        return not (self.missing or self.miscategorised or self.false)


def load_sentences(part: str, language: str) -> list[Sentence]:
    """The sentences of one part, `dev`, `training`, `held`, `asides` or `strangers`, in one language, `en` or `zh`."""
    lines = (SENTENCES / f"{part}_{language}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Sentence) for line in lines if not line.startswith(b'{"note"')]


def judge(sentence: Sentence, kept: Sequence[Kept]) -> Reading:
    """Give each fact that must be kept a memory of its own: two facts in one memory are one fact too few."""
    free = sorted(kept, key=lambda one: len(one.content))  # the one that says least besides comes first
    missing, miscategorised = [], []
    for fact in sentence.facts:
        if fact.optional:
            continue
        fitting = [one for one in free if fact.fits(one.content)]
        if not fitting:
            parts = [one for one in free if fact.topic in LISTED and fact.allows(one.content)]
            if fact.fits(" ".join(one.content for one in parts)):
                free = [one for one in free if one not in parts]
            else:
                missing.append(fact)
            continue
        best = next((one for one in fitting if one.category in fact.categories), fitting[0])
        if best.category not in fact.categories:
            miscategorised.append(best)
        free.remove(best)
    false = [one for one in kept if not any(fact.allows(one.content) for fact in sentence.facts)]
    return Reading(sentence, tuple(kept), tuple(missing), tuple(miscategorised), tuple(false))


def read(sentence: Sentence) -> Reading:
    """What the rules make of a sentence, judged."""
    decided = decide(sentence.text, [], owner_type="user", at=NOW)
    return judge(sentence, [Kept(one.category, one.content) for one in decided])


def print_facts(*, with_misses: bool) -> None:
    """Per language and part: sentences fully right, facts found, false facts. Of what is held out nothing is listed.

    `asides` is held out too: a quarter of its facts are told by the way, in questions, complaints and fragments. So is
    `strangers`, the latest: nothing was ever changed because of it.
    """
    for part in PRINTED:
        for language, name in (("zh", "Chinese"), ("en", "English")):
            readings = [read(sentence) for sentence in load_sentences(part, language)]
            right = sum(reading.right for reading in readings)
            said = sum(not fact.optional for reading in readings for fact in reading.sentence.facts)
            missing = sum(len(reading.missing) for reading in readings)
            kept = sum(len(reading.kept) for reading in readings)
            false = sum(len(reading.false) for reading in readings)
            print(f"{part}, {name}: {right} of {len(readings)} fully right ({right / len(readings):.3f})")
            print(
                f"  {said - missing} of {said} facts found, {false} of {kept} kept are false ({false / max(1, kept):.3f})"
            )
            if with_misses and part == "dev":
                for reading in readings:
                    if not reading.right:
                        _print_miss(reading)


def _print_miss(reading: Reading) -> None:
    print(f"  {reading.sentence.text}")
    for fact in reading.missing:
        print(f"    missing {', '.join(fact.holds)} ({fact.topic})")
    for one in reading.miscategorised:
        print(f"    {one.category} is wrong: {one.content}")
    for one in reading.false:
        print(f"    false: {one.content} ({one.category})")


def misses(table: tuple[tuple[str, str], ...]) -> list[tuple[str, str, str]]:
    """The sentences that were read otherwise: each with what was expected and what was found."""
    found = []
    for text, expected in table:
        got = " ".join(one.category for one in decide(text, [], owner_type="user", at=NOW))
        if got != expected:
            found.append((text, expected, got))
    return found


def single_facts(table: tuple[tuple[str, str], ...]) -> tuple[int, int, int]:
    """How many facts were expected, how many were found, and how many of those found were expected."""
    expected, found, right = 0, 0, 0
    for text, categories in table:
        wanted = Counter(categories.split())
        got = Counter(one.category for one in decide(text, [], owner_type="user", at=NOW))
        expected, found, right = (
            expected + wanted.total(),
            found + got.total(),
            right + (wanted & got).total(),
        )
    return expected, found, right


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.extraction", description=__doc__)
    parser.add_argument("--facts", action="store_true", help="judge the facts of bench/extraction_sentences")
    parser.add_argument(
        "--misses", action="store_true", help="with --facts: list those of the development half"
    )
    options = parser.parse_args()
    if options.facts:
        print_facts(with_misses=options.misses)
    else:
        print_tables()


def print_tables() -> None:
    """Each table of the tests: how many sentences were read as expected, and those that were not."""
    sys.path.insert(0, str(TABLES))
    import afterwards
    import heldout
    import sentences

    tables = (("first table", sentences), ("held-out table", heldout), ("second held-out table", afterwards))
    for name, module in tables:
        for language in ("CHINESE", "ENGLISH"):
            table = getattr(module, language)
            wrong = misses(table)
            right = len(table) - len(wrong)
            print(f"{name}, {language.title()}: {right} of {len(table)} ({100 * right / len(table):.0f} %)")
            wanted, found, fit = single_facts(table)
            print(f"  single facts: {fit} of the {found} found are right, {fit} of {wanted} are found")
            for text, expected, got in wrong:
                print(f"  {text}: expected {expected or 'nothing'}, found {got or 'nothing'}")


if __name__ == "__main__":
    main()
