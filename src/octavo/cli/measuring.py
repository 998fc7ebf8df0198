"""A measurement of recall, from the file of questions to the table."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from octavo.cli.teller import Teller, several
from octavo.errors import ConfigError, OctavoError
from octavo.kernel.ports import Embedder, Store
from octavo.measure import Asked, Data, Run, Summary, Trial, compared, load, new_tenant, summary
from octavo.models import Cached, open_embedder
from octavo.stores import open_store
from octavo.util.file_modes import open_file
from octavo.util.secrets import shown
from octavo.vectors import open_vectors
from octavo.wraps import Indexed

_MOST_TOLD = 10  # questions that differ between two stores; --json names them all


class _Result(msgspec.Struct):
    """One store's answers, and what they come to."""

    store: str
    run: Run
    figures: Summary


class _Wanted(msgspec.Struct):
    """Where the questions are asked, and with what."""

    urls: tuple[str, ...]
    seed: int
    embedder: str | None
    vectors: str | None


def measure_recall(
    teller: Teller,
    path: Path,
    urls: tuple[str, ...],
    *,
    form: str | None,
    embedder: str | None,
    vectors: str | None,
    limit: int | None,
    seed: int,
    out: Path | None,
) -> int:
    """Measure, say what came of it, and answer the exit status."""
    if vectors and not embedder:
        raise ConfigError("--vectors needs --embedder, which makes the vectors")
    begun = time.monotonic()
    data = load(path, form, seed)
    if limit is not None:
        data = data.some(limit, seed)
    wanted = _Wanted(urls, seed, embedder, vectors)
    with ExitStack() as stack:
        answers = stack.enter_context(open(out, "wb", opener=open_file)) if out else None

        def keep(url: str, asked: Asked) -> None:
            if answers is not None:
                answers.write(msgspec.json.encode({"store": url, **msgspec.to_builtins(asked)}) + b"\n")

        try:
            runs = asyncio.run(_runs(teller, data, wanted, keep))
        except (OctavoError, OSError):
            teller.done = 0  # or it would be said that so many records are kept
            raise
    results = [_Result(shown(url), run, summary(run)) for url, run in zip(urls, runs, strict=True)]
    if len(results) == 1:
        _tell_one(teller, data, results[0])
    else:
        _tell_several(teller, data, results)
    _document(teller, path, data, results, wanted, time.monotonic() - begun)
    return 0


async def _runs(teller: Teller, data: Data, wanted: _Wanted, keep: Callable[[str, Asked], None]) -> list[Run]:
    runs: list[Run] = []
    tenant = new_tenant()
    async with _embedder(wanted.embedder, data) as embedder:
        for url in wanted.urls:
            where = f" {shown(url)}" if len(wanted.urls) > 1 else ""
            async with (
                _store(url, embedder, wanted.vectors) as store,
                Trial(store, data, seed=wanted.seed, tenant=tenant) as trial,
            ):
                with teller.progress(f"wrote{where}") as progress:
                    await trial.write(progress)
                if embedder is not None:
                    with teller.progress(f"embedded{where}") as progress:
                        await trial.embed(progress)
                with teller.progress(f"asked{where}", "question") as progress:
                    runs.append(await trial.ask(progress, partial(keep, shown(url))))
            for note, times in runs[-1].notes.items():
                teller.note(f"octavo: {shown(url)}: {teller.hidden(note)} ({several(times, 'question')})")
    return runs


@asynccontextmanager
async def _embedder(spec: str | None, data: Data) -> AsyncIterator[Embedder | None]:
    opened = open_embedder(spec)
    # One question is asked three times and one text may go to several stores: a model need not read it again.
    embedder = None if opened is None else Cached(opened, data.messages + data.questions)
    try:
        yield embedder
    finally:
        if embedder is not None:
            await embedder.close()


@asynccontextmanager
async def _store(url: str, embedder: Embedder | None, vectors: str | None) -> AsyncIterator[Store]:
    async with open_store(url) as store:
        if embedder is None:
            yield store
            return
        async with (
            open_vectors(vectors or "memory://") as index,
            Indexed(store, index, embedder, owned=False) as indexed,
        ):
            yield indexed


def _tell_one(teller: Teller, data: Data, result: _Result) -> None:
    figures, run = result.figures, result.run
    rows = [["", "questions", *figures.scores], _row("all", figures.questions, figures.scores)]
    rows += [_row(name, each.questions, each.scores) for name, each in figures.by_category.items()]
    teller.say(_what(data))
    teller.say("")
    teller.say_lines(aligned(rows))
    teller.say("")
    teller.say(
        f"{result.store}: {several(run.records, 'record')} written in {run.write_seconds:.1f} s, "
        f"first answer after {run.first_answer_seconds:.1f} s"
    )
    teller.say(
        f"recall: p50 {figures.p50_ms:.1f} ms, p95 {figures.p95_ms:.1f} ms, {figures.per_second:,.0f} questions/s"
    )
    apart = "" if figures.told_apart is None else f"; of those asked of another talk {figures.told_apart:.1%}"
    teller.say(f"said to be probably absent: {figures.flagged:.1%} of the questions{apart}")


def _tell_several(teller: Teller, data: Data, results: list[_Result]) -> None:
    reference = results[0]
    rows = [["store", *reference.figures.scores, "p50 ms", "p95 ms", "same top 10"]]
    if data.sessions:
        rows[0].append("same sessions")
    for result in results:
        figures = result.figures
        row = [result.store, *(_share(score) for score in figures.scores.values())]
        row += [f"{figures.p50_ms:.1f}", f"{figures.p95_ms:.1f}"]
        likeness = compared(reference.run, result.run)
        for same in (likeness.same, likeness.same_sessions):
            if same is not None:
                row.append("" if result is reference else f"{same:.1%}")
        rows.append(row)
    teller.say(_what(data))
    teller.say("")
    teller.say_lines(aligned(rows))
    for result in results[1:]:
        if differing := compared(reference.run, result.run).differing:
            told = ", ".join(differing[:_MOST_TOLD])
            more = f" and {len(differing) - _MOST_TOLD:,} more" if len(differing) > _MOST_TOLD else ""
            teller.say(f"{result.store} differs from {reference.store} at {told}{more}")


def _what(data: Data) -> str:
    aside = []
    if data.skipped_questions:
        aside.append(f"{several(data.skipped_questions, 'question')} left out, whose evidence does not exist")
    if data.skipped_evidence:
        aside.append(f"{several(data.skipped_evidence, 'evidence id')} of no message")
    if data.unread_times:
        aside.append(f"{several(data.unread_times, 'time')} not understood")
    inside = f" ({'; '.join(aside)})" if aside else ""
    talks, messages, questions = (
        several(len(data.talks), "talk"),
        several(data.messages, "message"),
        several(data.questions, "question"),
    )
    return f"{data.format}: {talks}, {messages}, {questions}{inside}"


def _row(name: str, questions: int, scores: dict[str, float]) -> list[str]:
    return [name, f"{questions:,}", *(_share(score) for score in scores.values())]


def _share(score: float) -> str:
    return f"{score:.3f}".removeprefix("0")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a table: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


def _document(
    teller: Teller,
    path: Path,
    data: Data,
    results: list[_Result],
    wanted: _Wanted,
    seconds: float,
) -> None:
    reference = results[0].run
    told = []
    for result in results:
        likeness = None if result is results[0] else compared(reference, result.run)
        told.append({
            "store": result.store,
            "records": result.run.records,
            "write_seconds": round(result.run.write_seconds, 3),
            "first_answer_seconds": round(result.run.first_answer_seconds, 3),
            **msgspec.to_builtins(result.figures),
            "notes": {teller.hidden(note): times for note, times in result.run.notes.items()},
            "compared": msgspec.to_builtins(likeness),
        })  # fmt: skip
    teller.document(
        ok=True,
        command="bench recall",
        data=str(path),
        format=data.format,
        talks=len(data.talks),
        messages=data.messages,
        questions=data.questions,
        skipped_questions=data.skipped_questions,
        skipped_evidence=data.skipped_evidence,
        unread_times=data.unread_times,
        seed=wanted.seed,
        embedder=shown(wanted.embedder) if wanted.embedder else None,
        vectors=shown(wanted.vectors) if wanted.vectors else None,
        stores=told,
        seconds=round(seconds, 3),
    )
