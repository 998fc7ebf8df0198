"""`python -m bench.learn_words MODEL_FOLDER`: make the table of how alike English words are in meaning.

MODEL_FOLDER holds an embedder that fastembed opens, such as gte-small (MIT), whose vectors of single words these are, in the
directions in which everyday words differ most, four bits for each. Everyday words are those of the topics and of the sentences
that may be learned from; beside them are those that the model knows as one piece, and WordNet's nouns, verbs and adjectives
that it makes of two (Debian's package wordnet-base). It takes some minutes and numpy.
"""

import asyncio
import json
import re
import sys
from pathlib import Path

import numpy as np

from octavo.kernel.terms.english import STOP_WORDS, stem
from octavo.models import open_embedder
from octavo.search.alike import SIZE, TABLE

ROOT = Path(__file__).parent.parent
WORDNET = Path("/usr/share/wordnet")
_WORD = re.compile(r"[a-z]{2,20}")
_AT_ONCE = 128


def list_words(model: Path) -> tuple[list[str], int]:
    """The words to be in the table, each stem once, in the form it has first; and how many of them, the first, are everyday words."""
    pieces = json.loads((model / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    words = _WORD.findall((ROOT / "src/octavo/kernel/terms/topics.txt").read_text("utf-8"))
    for name in ("dev_en", "training_en"):
        sentences = (ROOT / f"bench/extraction_sentences/{name}.jsonl").read_text("utf-8").splitlines()
        for line in sentences:
            words += _WORD.findall(str(json.loads(line).get("text", "")).lower())
    stems = {stem(word): word for word in reversed(words) if word not in STOP_WORDS}
    everyday = len(stems)
    words = [piece for piece in pieces if _WORD.fullmatch(piece)]
    for kind in ("noun", "verb", "adj"):
        lines = (WORDNET / f"index.{kind}").read_text("latin-1").splitlines()
        lemmas = (line.partition(" ")[0] for line in lines if not line.startswith(" "))
        words += [word for word in lemmas if _WORD.fullmatch(word) and _in_two(word, pieces)]
    for word in words:
        if word not in STOP_WORDS:
            stems.setdefault(stem(word), word)
    return list(stems.values()), everyday


def _in_two(word: str, pieces: dict[str, int]) -> bool:
    return any(word[:at] in pieces and f"##{word[at:]}" in pieces for at in range(2, len(word)))


async def embed_words(words: list[str], model: Path) -> np.ndarray:
    """A vector of length 1 for each word."""
    embedder = open_embedder(f"fastembed:{model}")
    assert embedder is not None
    rows: list[list[float]] = []
    for start in range(0, len(words), _AT_ONCE):
        rows += [list(row) for row in await embedder.embed(words[start : start + _AT_ONCE])]
        print(f"\r{len(rows)} of {len(words)} words", end="", file=sys.stderr)
    return _unit(np.array(rows))


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pack(words: list[str], vectors: np.ndarray, everyday: int) -> bytes:
    """The words, a line each in the order of the rows, and the rows: two numbers from 0 to 15 in a byte, 8 being nothing."""
    vectors = _unit(vectors - vectors[:everyday].mean(0))
    directions = np.linalg.svd(vectors[:everyday].T @ vectors[:everyday])[0][:, :SIZE]
    rows = _unit(vectors @ directions) * np.sqrt(SIZE)  # of deviation 1, of which three are eight steps
    steps = np.clip(np.round(rows * 8 / 3) + 8, 0, 15).astype(np.uint8)
    names = "\n".join(map(stem, words)).encode()
    return names + b"\n\n" + (steps[:, 0::2] << 4 | steps[:, 1::2]).tobytes()


def main() -> None:
    model = Path(sys.argv[1])
    words, everyday = list_words(model)
    TABLE.write_bytes(pack(words, asyncio.run(embed_words(words, model)), everyday))
    print(f"\n{len(words)} words, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
