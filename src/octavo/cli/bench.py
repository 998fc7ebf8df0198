"""`octavo bench`: how well and how fast memory works on data of the caller's own."""

from pathlib import Path
from typing import Any

import click

from octavo.cli import running
from octavo.cli.options import voice
from octavo.cli.teller import Teller


@click.group("bench")
def bench() -> None:
    """Measure how well memory works, on your own data.

    Every measurement takes --json, --quiet and --debug.

    \b
    Example: octavo bench recall --data locomo.json
    """


@bench.command("recall")
@click.option(
    "--data",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Conversations with questions and the turns that answer them.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["locomo", "memdaily"]),
    help="The format of FILE. [default: recognised]",
)
@click.option(
    "--store",
    "urls",
    multiple=True,
    default=("memory://",),
    show_default="memory://",
    metavar="URL",
    help="Where the data is written and asked for; given several times, the others are compared with the first.",
)
@click.option(
    "--embedder", metavar="SPEC", help="Find by meaning too: fastembed:<model or folder> or openai:<model>."
)
@click.option(
    "--vectors", metavar="URL", help="Where the embedder's vectors are kept. [default: in memory, exact]"
)
@click.option(
    "--limit", "-n", type=click.IntRange(min=1), metavar="N", help="Ask N questions, drawn from all."
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="For what is drawn: the order of writing and, with --limit, the questions.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write every question with what was found to FILE, one JSON object a line.",
)
@voice
def recall_command(
    path: Path, urls: tuple[str, ...], as_json: bool, quiet: bool, debug: bool, **options: Any
) -> None:
    """Ask questions with known answers, and score what recall finds.

    FILE is in the format of LoCoMo or MemDaily. Its conversations are written to the store under a tenant of their
    own, which is emptied at the end.

    \b
    Example: octavo bench recall --data locomo.json --store sqlite:///octavo.db --out answers.jsonl
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        # Loaded here, so that the other commands need not wait for what only this one uses.
        from octavo.cli.measuring import measure_recall

        return measure_recall(teller, path, urls, **options)

    running.run(teller, [*urls, options["vectors"] or "", options["embedder"] or ""], work)
