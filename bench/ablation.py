"""`python -m bench.ablation FILE…`: what each part of the ranking is worth, by leaving it out."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from octavo import open_store
from octavo.measure import load, measure
from octavo.search import ranking, recall
from octavo.search.question import Question


def ranked(scores: Sequence[float]) -> list[float]:
    """Reciprocal ranks in place of standardised scores."""
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    places = {at: rank for rank, at in enumerate(order, 1)}
    return [60 / (60 + places[at]) for at in range(len(scores))]


class Whole(Question, frozen=True, kw_only=True):
    """A question that is asked as a whole only."""

    @classmethod
    def of(cls, text: str, at: Any) -> Question:
        return msgspec.structs.replace(Question.of(text, at), parts=())


VARIANTS: dict[str, list[tuple[Any, str, Any]]] = {
    "all of it": [],
    "without sessions": [(ranking, "SESSION", 0.0)],
    "without neighbours": [(ranking, "NEIGHBOUR", 0.0), (ranking, "VECTOR_NEIGHBOUR", 0.0)],
    "without times": [(ranking, "TIME", 0.0)],
    "without asking part by part": [(recall, "Question", Whole)],
    "ranks, not scores": [(ranking, "standard", ranked)],
}


@contextmanager
def changed(changes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


async def main(files: list[str]) -> None:
    for file in files:
        data = load(Path(file))
        print(f"\n{Path(file).name}")
        for label, changes in VARIANTS.items():
            async with open_store("memory://") as store:
                with changed(changes):
                    asked = (await measure(store, data)).asked
            means = {name: sum(each.scores[name] for each in asked) / len(asked) for name in asked[0].scores}
            print(f"{label:30}" + "  ".join(f"{name} {mean:.3f}" for name, mean in means.items()), flush=True)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("name one or more files, as `octavo bench recall --data` takes them")
    asyncio.run(main(sys.argv[1:]))
