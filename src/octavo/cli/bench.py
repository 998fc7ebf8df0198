"""`octavo bench`: how well and how fast memory works on data of the caller's own."""

from pathlib import Path
from typing import Any

import click

from octavo.cli.command import Call, runs, text


@click.group("bench")
def bench() -> None:
    """Measure how well memory works, on your own data.

    Every measurement takes --json, --quiet and --debug.

    \b
    Example: octavo bench recall --data locomo.json
    """


@bench.command("recall")
@text(
    "--data path",
    "FILE",
    "Conversations with questions and the turns that answer them.",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["locomo", "memdaily"]),
    help="The format of FILE. [default: recognised]",
)
@text(
    "--store urls",
    "URL",
    "Where the data is written and asked for; given several times, the others are compared with the first.",
    multiple=True,
    default=("memory://",),
    show_default="memory://",
)
@text("--embedder", "SPEC", "Find by meaning too: fastembed:<model or folder> or openai:<model>.")
@text("--vectors", "URL", "Where the embedder's vectors are kept. [default: in memory, exact]")
@text("--limit -n", "N", "Ask N questions, drawn from all.", type=click.IntRange(min=1))
@text(
    "--seed",
    "N",
    "For what is drawn: the order of writing and, with --limit, the questions.",
    type=int,
    default=0,
    show_default=True,
)
@text(
    "--out",
    "FILE",
    "Write every question with what was found to FILE, one JSON object a line.",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
)
@runs
async def recall_command(call: Call, path: Path, out: Path | None, **given: Any) -> int:
    """Ask questions with known answers, and score what recall finds.

    FILE is in the format of LoCoMo or MemDaily. Its conversations are written to the store under a tenant of their
    own, which is emptied at the end.

    \b
    Example: octavo bench recall --data locomo.json --store sqlite:///octavo.db --out answers.jsonl
    """
    # Loaded here, so that the other commands need not wait for what only this one uses.
    from octavo.cli.recall_bench import measure_recall

    return await measure_recall(call, path, out, **given)
