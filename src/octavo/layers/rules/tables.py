"""The tables of the rules: the words and patterns of one language, and the ways in which it states facts.

A table is a text file beside this one. `NAME = one|two` is a list of words; `NAME ~ …` is a regular expression, in which
{OTHER} stands for what was given above; `kind slot: …` under a [category] is a way to state a fact of that category. An
indented line continues the line before it, and a line that begins with # is a comment.
"""

import re
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

_DEFINITION = re.compile(r"([A-Z_]+) ([=~]) (.+)")
_REFERENCE = re.compile(r"\{([A-Z_]+)\}")


class FactPattern(NamedTuple):
    """How a fact is stated: the pattern, which kind of statement it is, and what it is about."""

    pattern: "re.Pattern[str]"
    kind: str
    slot: str
    category: str


class Table:
    """One language as the rules know it; its patterns are attributes, under their names."""

    def __init__(self, language: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self.words: dict[str, tuple[str, ...]] = {}
        self.facts: list[FactPattern] = []
        texts: dict[str, str] = {}

        def filled(text: str) -> str:
            return _REFERENCE.sub(lambda match: texts[match[1]], text)

        category = ""
        for line in _lines(language):
            if line.startswith("["):
                category = line.strip("[]")
            elif (match := _DEFINITION.match(line)) is None:
                how, _, pattern = line.partition(": ")
                kind, _, slot = how.partition(" ")
                self.facts.append(FactPattern(re.compile(filled(pattern), flags), kind, slot, category))
            elif match[2] == "=":
                self.words[match[1]] = tuple(match[3].split("|"))
                texts[match[1]] = _alternatives(self.words[match[1]])
            else:
                texts[match[1]] = filled(match[3])
        self.__dict__.update({name: re.compile(text, flags) for name, text in texts.items()})

    def __getattr__(self, name: str) -> "re.Pattern[str]":
        """Asked for only where there is none: the patterns are attributes like others."""
        raise AttributeError(f"the table has no pattern {name}")

    def pairs(self, name: str) -> dict[str, str]:
        """A list of words that are written as `this:that`."""
        return dict(word.split(":") for word in self.words[name])


def _lines(language: str) -> Iterator[str]:
    """The lines of a table, each with those that continue it."""
    whole = ""
    for line in resources.files(__package__).joinpath(f"{language}.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            whole += line[4:]
            continue
        if whole:
            yield whole
        whole = "" if line.startswith("#") else line
    if whole:
        yield whole


def _alternatives(words: tuple[str, ...]) -> str:
    """A pattern of any of the words, longest first: of 爸 and 爸爸 the longer is read."""
    longest_first = sorted(set(words), key=len, reverse=True)
    return "(?:" + "|".join(re.escape(word).replace(r"\ ", " ") for word in longest_first) + ")"
