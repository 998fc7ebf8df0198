"""How much a text says in other words what an English question asks: by a table of how alike two words are in meaning.

"Which metal does my skin hate?" and "Nickel gives me eczema" share no word and no topic. Chinese shares characters.
"""

import asyncio
import functools
import operator
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from octavo.kernel.terms.english import STOP_WORDS, stem

SIZE = 64  # numbers of a word
TABLE = Path(__file__).with_name("words_en.bin")
LEAST = 0.2  # two words have in common by chance
_MIDDLE = 8  # stands for 0 in the table
_SQUARED = SIZE * (8 / 3) ** 2  # the length of a row: three deviations are eight steps
_LANE = 2  # bytes, enough for SIZE products of two numbers up to 15
_DIGITS = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))
_MOST_WORDS = 100  # of a text, and of a question
_LONG = 0.02  # what each word of a text takes: a longer one says more by chance
_WORD = re.compile(r"[a-z]+")


@functools.cache
def _table() -> tuple[dict[bytes, int], bytes, int]:
    """The number of each word, all rows, and where they begin."""
    data = TABLE.read_bytes()
    end = data.index(b"\n\n")
    return {word: number for number, word in enumerate(data[:end].split(b"\n"))}, data, end + 2


async def load() -> None:
    """Read the table, once: it takes some hundredths of a second, for which no event loop should stand still."""
    if not _table.cache_info().currsize:
        await asyncio.to_thread(_table)


def words_of(text: str) -> list[str]:
    """The words of a text that say something, as stems, each once."""
    found = dict.fromkeys(stem(word) for word in _WORD.findall(text.lower()) if word not in STOP_WORDS)
    return list(found)[:_MOST_WORDS]


def _row(word: str) -> bytes | None:
    """The numbers of a word, a byte each."""
    numbers, data, start = _table()
    number = numbers.get(word.encode())
    if number is None:
        return None
    at = start + number * (SIZE // 2)
    return data[at : at + SIZE // 2].hex().encode().translate(_DIGITS)


class AskedWords:
    """The words of a question, and how alike each word of the texts that were read is to them."""

    def __init__(self, words: Mapping[str, float], itself: float) -> None:
        self._weights = list(words.values())
        self._itself = itself  # how alike a word counts as to itself
        self._asked = {word: _row(word) for word in words}
        self._said: dict[str, list[str]] = {}  # the words of each text that was read
        self._alike: dict[str, tuple[float, ...]] = {}  # each of these, to each of the question

    @property
    def any(self) -> bool:
        """Whether there is something that another word may say as well."""
        return any(self._asked.values())

    def read(self, texts: Iterable[str]) -> None:
        """Look up the words of these texts, all at once."""
        said = {text: words_of(text) for text in texts} if self._asked else {}
        self._said |= said
        words = {word for found in said.values() for word in found}.difference(self._alike)
        rows = {word: row for word in words if (row := _row(word))}
        self._alike |= dict.fromkeys(words, (0.0,) * len(self._asked))
        if rows:
            joined = b"".join(rows.values())
            lanes = bytearray(len(rows) * _LANE)
            columns: list[int] = []
            for at in range(SIZE):
                lanes[::_LANE] = joined[at::SIZE]
                columns.append(int.from_bytes(lanes, "little"))
            shifts = [_MIDDLE * (sum(row) - _MIDDLE * SIZE) for row in rows.values()]
            cosines = [
                self._cosines(row, columns, shifts) if row else [0.0] * len(rows)
                for row in self._asked.values()
            ]
            self._alike |= zip(rows, zip(*cosines, strict=True), strict=True)
        for nth, word in enumerate(self._asked):
            if word in words:
                self._alike[word] = (*self._alike[word][:nth], self._itself, *self._alike[word][nth + 1 :])

    def _cosines(self, row: bytes, columns: list[int], shifts: list[int]) -> list[float]:
        """How alike a word of the question is to each of the words in these columns.

        A column is one long number that holds a number of every word, _LANE bytes apart: a product with it is one for each word.
        """
        products = sum(map(operator.mul, row, columns)).to_bytes(len(shifts) * _LANE, "little")
        own = _MIDDLE * sum(row)
        return [
            min(product - own - shift, _SQUARED) / _SQUARED
            for product, shift in zip(memoryview(products).cast("H"), shifts, strict=True)
        ]

    def others_in(self, text: str) -> list[str]:
        """The words of a text that was read, but for those of the question."""
        return [word for word in self._said.get(text, ()) if word not in self._asked]

    def score(self, text: str) -> float:
        """How many of the question's words a text says, a word that is half alike counting for half."""
        if text not in self._said:
            self.read([text])
        rows = [self._alike[word] for word in self._said.get(text, ())]
        best = map(max, zip(*rows, strict=True))
        most: float = sum(
            weight * (alike - LEAST)
            for weight, alike in zip(self._weights, best, strict=False)
            if alike > LEAST
        )
        return most / (1 - LEAST) / (1 + _LONG * len(rows))
