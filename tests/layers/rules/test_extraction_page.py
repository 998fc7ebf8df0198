"""docs/extraction.md: its example prints what is shown, and the misses it lists are exactly the misses."""

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from octavo.layers.rules.extractor import decide
from octavo.layers.values import Known
from warm import programs

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "extraction.md").read_text(encoding="utf-8")


def printed(*command: str) -> str:
    """What a command prints, run where the page tells to run it."""
    done = subprocess.run(
        [f"{programs()}/python", *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def test_the_example_prints_what_is_shown() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert printed("-c", shown[0]) == shown[1]


def test_the_misses_listed_are_the_misses() -> None:
    (shown,) = re.findall(r"```console\n\$ python -m bench\.extraction\n(.*?)```", PAGE, re.DOTALL)
    assert printed("-m", "bench.extraction") == shown


def test_the_table_of_comparisons_holds() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (ignored|updated|inserted)", PAGE, re.MULTILINE)
    assert len(rows) >= 5
    for before, after, what in rows:
        known = [
            Known(
                id=str(n),
                layer=one.layer,
                category=one.category,
                content=one.content,
                happened_at=one.happened_at,
            )
            for n, one in enumerate(decide(before, [], owner_type="user", at=NOW))
        ]
        found = decide(after, known, owner_type="user", at=NOW)
        assert found[0].action == {"ignored": "ignore", "updated": "update", "inserted": "insert"}[what], (
            after
        )


def test_a_model_has_its_place_on_the_page() -> None:
    assert "\n## With a model\n" in PAGE
