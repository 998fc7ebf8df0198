"""`python -m bench.extraction`: how many sentences of the tables the rules read as expected, and which they do not."""

import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from octavo.layers.rules.extractor import decide

TABLES = Path(__file__).parents[1] / "tests" / "layers" / "rules"
NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)


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
