"""The tables of `python -m bench --recall`, and the file with all numbers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.memories import KINDS
from bench.raw.terms import Fts5, Fulltext, SortedSets, Tsquery
from bench.recall import DIMENSIONS, Asked, Line, Near, Size, Wrote
from bench.report import WORK

ASKED = (
    "store",
    "question",
    "recall p50",
    "p95",
    "in one collection p50",
    "p95",
    "engine",
    "its own p50",
    "p95",
    "goal (p95)",
)
WROTE = ("store", "work", "without search", "with", "ratio", "rounds", "index built at", "goal")
NEAR = (
    "vector index",
    "vectors",
    "put at",
    "recall p50",
    "p95",
    "index p50",
    "p95",
    "its share",
    "the first time",
)
DOES = {"FTS5": Fts5.does, "tsquery": Tsquery.does, "FULLTEXT": Fulltext.does, "ZUNION": SortedSets.does}


def tables(lines: Sequence[Line], *, markdown: bool) -> str:
    """All lines as three tables: questions, appends and vectors."""
    parts = [
        (ASKED, [_asked(line) for line in lines if isinstance(line, Asked)]),
        (WROTE, [_wrote(line) for line in lines if isinstance(line, Wrote)]),
        (NEAR, [_near(line) for line in lines if isinstance(line, Near)]),
    ]
    return "\n\n".join(_table([list(head), *rows], markdown=markdown) for head, rows in parts if rows)


def _asked(line: Asked) -> list[str]:
    return [
        line.store,
        KINDS[line.kind],
        _ms(line.p50),
        _ms(line.p95),
        _ms(line.messages_p50),
        _ms(line.messages_p95),
        line.engine or "–",
        _ms(line.raw_p50),
        _ms(line.raw_p95),
        f"< {line.goal_ms:.0f} ms {_verdict(good=line.p95 < line.goal_ms)}",
    ]


def _wrote(line: Wrote) -> list[str]:
    ratio = line.searched / line.plain
    return [
        line.store,
        WORK[line.job],
        f"{line.plain:,.0f}/s",
        f"{line.searched:,.0f}/s",
        f"{ratio:.2f}×",
        f"{line.ratios[0]:.2f}–{line.ratios[1]:.2f}",
        f"{line.built:,.0f}/s",
        f"≥ 0.8× {_verdict(good=ratio >= 0.8)}" if line.store == "sqlite" else "",
    ]


def _near(line: Near) -> list[str]:
    return [
        line.index,
        f"{line.vectors:,}",
        f"{line.put:,.0f}/s",
        _ms(line.p50),
        _ms(line.p95),
        _ms(line.index_p50),
        _ms(line.index_p95),
        f"{line.index_p50 / line.p50:.0%}",
        _ms(line.first_p50),
    ]


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def _verdict(*, good: bool) -> str:
    return "✓" if good else "✗"


def _table(rows: list[list[str]], *, markdown: bool) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    left = {0} if rows[0][0] == NEAR[0] else {0, 1}
    padded = [
        [c.ljust(w) if at in left else c.rjust(w) for at, (c, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    if markdown:
        rule = ["-" * (w - 1) + ("-" if at in left else ":") for at, w in enumerate(widths)]
        return "\n".join("| " + " | ".join(row) + " |" for row in (padded[0], rule, *padded[1:]))
    return "\n".join(
        "  ".join(row).rstrip() for row in (padded[0], ["─" * width for width in widths], *padded[1:])
    )


def footnotes(size: Size, facts: dict[str, Any]) -> list[str]:
    """What was measured, exactly."""
    on = f"{facts['cores']} cores, Python {facts['python']}; one fsync takes {facts['fsync_ms']:.2f} ms on this disk."
    if facts["load_at_start"] > 0.5:
        on += f" It was busy with other work (load {facts['load_at_start']} at the start), so these numbers are noisy."
    return [
        (
            f"{size.total:,} records of 25 words (one in ten is Chinese, 40 characters), whose words are as frequent as those of real text, "
            "spread over users with 10 sessions each; 100 users, or 10 with --quick. Each question is put to one user's memory, ten hits, "
            f"no vectors; {size.questions} questions of each kind, drawn anew, one after the other."
        ),
        "A rare word stands in about one record in ten thousand, a common one in half of them; five words are taken out of one record.",
        "Recall looks in five collections, as it does unless told otherwise; 'in one collection' it is told to look in messages only.",
        (
            f"Appends are of such records, awaited one by one or from 50 tasks, in {size.rounds} rounds of {size.seconds} s by turns; "
            "'with search' the store has an index of terms and was searched just before."
        ),
        (
            f"Vectors have {DIMENSIONS} dimensions and point anywhere; the hundred nearest of one user's are asked for, and recall is on the "
            "memory store, so that the index is what differs. The question's own vector costs next to nothing here. All questions are asked twice: 'the first time' is the index's p50 of the first round, the rest is of the second."
        ),
        *(f"{engine}: {does}" for engine, does in DOES.items()),
        on,
    ]


def save(lines: Sequence[Line], failures: list[str], size: Size, facts: dict[str, Any], path: Path) -> None:
    """Keep the numbers of this run as JSON."""
    told = [{"what": type(line).__name__.lower(), **line._asdict()} for line in lines]
    path.write_text(
        json.dumps({"machine": facts, "size": size._asdict(), "lines": told, "failures": failures}, indent=1)
    )
