"""Invented people who tell an assistant about themselves, and what is asked of them afterwards.

A file holds one JSON object a line: statements (`person`, `id`, `text`, in the order in which they were said) and pairs
(`person`, `question`, `kind`, `answers`, `answer`, `shares`, `language`). `dev_*` may be tuned on; `held_*` begins with a
note that says that nobody does.
"""

from collections.abc import Iterable
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from octavo.measure.bm25 import terms

Language: TypeAlias = Literal["en", "zh"]
Part: TypeAlias = Literal["dev", "held"]
Kind: TypeAlias = Literal["first", "third", "smalltalk", "two_facts", "overview", "no_answer", "update"]

LANGUAGES: tuple[Language, ...] = ("en", "zh")
PARTS: tuple[Part, ...] = ("dev", "held")


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something a person said; small talk answers nothing."""

    person: str
    id: str
    text: str


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and the statements any of which answers it; a question of `no_answer` has none."""

    person: str
    question: str
    kind: Kind
    answers: tuple[str, ...]  # ids of statements
    answer: tuple[
        str, ...
    ]  # a fact made of such a statement answers when it holds one of these; any does when empty
    shares: bool  # whether the question shares a content word with one of those statements
    language: Language


class Person(msgspec.Struct, frozen=True):
    """All that one person said, in order, and all that is asked."""

    name: str
    language: Language
    statements: tuple[Statement, ...]
    pairs: tuple[Pair, ...]


def load_people(language: Language, part: Part = "dev") -> list[Person]:
    """The people of one half, in one language."""
    lines = files(__package__).joinpath(f"{part}_{language}.jsonl").read_bytes().splitlines()
    statements: dict[str, list[Statement]] = {}
    pairs: dict[str, list[Pair]] = {}
    for line in lines:
        row = msgspec.json.decode(line, type=dict[str, object])
        if "note" in row:
            continue
        if "text" in row:
            said = msgspec.convert(row, Statement)
            statements.setdefault(said.person, []).append(said)
        else:
            pair = msgspec.convert(row, Pair)
            pairs.setdefault(pair.person, []).append(pair)
    return [Person(name, language, tuple(said), tuple(pairs[name])) for name, said in statements.items()]


def shares_word(question: str, statements: Iterable[str]) -> bool:
    """Whether a question and one of the statements have a content word in common.

    The content words of a text are what plain BM25 matches it by: every word that is no stop word, without its ending,
    and every Chinese character that is no function character.
    """
    asked = set(terms(question))
    return any(not asked.isdisjoint(terms(text)) for text in statements)
