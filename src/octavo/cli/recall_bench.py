"""A measurement of recall, from the file of questions to the table."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from octavo.cli.output import Output, several, table
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


async def measure_recall(
    out: Output,
    path: Path,
    answers: Path | None,
    *,
    urls: tuple[str, ...],
    form: str | None,
    embedder: str | None,
    vectors: str | None,
    limit: int | None,
    seed: int,
) -> int:
    """Measure, print what came of it, and return the exit status."""
    if vectors and not embedder:
        raise ConfigError("--vectors needs --embedder, which makes the vectors")
    begun = time.monotonic()
    data = load(path, form, seed)
    if limit is not None:
        data = data.some(limit, seed)
    results: list[_Result] = []
    tenant = new_tenant()
    with open(answers or os.devnull, "wb", opener=open_file) as file:  # noqa: ASYNC230 - before anything is awaited

        def keep(store: str, asked: Asked) -> None:
            file.write(msgspec.json.encode({"store": store, **msgspec.to_builtins(asked)}) + b"\n")

        try:
            async with _open_embedder(embedder, data) as opened:
                for url in urls:
                    async with (
                        _open_store(url, opened, vectors) as store,
                        Trial(store, data, seed=seed, tenant=tenant) as trial,
                    ):
                        where = f" {shown(url)}" if len(urls) > 1 else ""
                        with out.progress(f"wrote{where}") as progress:
                            await trial.write(progress)
                        if opened is not None:
                            with out.progress(f"embedded{where}") as progress:
                                await trial.embed(progress)
                        with out.progress(f"asked{where}", "question") as progress:
                            run = await trial.ask(progress, partial(keep, shown(url)))
                    results.append(_Result(shown(url), run, summary(run)))
                    for note, times in run.notes.items():
                        out.note(f"octavo: {shown(url)}: {out.hidden(note)} ({several(times, 'question')})")
        except (OctavoError, OSError):
            out.done = 0  # or it would be said that so many records are kept
            raise
    out.say(_data_text(data))
    out.say("")
    if len(results) == 1:
        _say_one(out, results[0])
    else:
        _say_several(out, data, results)
    return out.document(
        data=str(path),
        format=data.format,
        talks=len(data.talks),
        messages=data.messages,
        questions=data.questions,
        skipped_questions=data.skipped_questions,
        skipped_evidence=data.skipped_evidence,
        unread_times=data.unread_times,
        seed=seed,
        embedder=shown(embedder) if embedder else None,
        vectors=shown(vectors) if vectors else None,
        stores=[_document(out, result, results[0]) for result in results],
        seconds=round(time.monotonic() - begun, 3),
    )


@asynccontextmanager
async def _open_embedder(spec: str | None, data: Data) -> AsyncIterator[Embedder | None]:
    opened = open_embedder(spec)
    # One question is asked three times and one text may go to several stores: a model need not read it again.
    embedder = None if opened is None else Cached(opened, data.messages + data.questions)
    try:
        yield embedder
    finally:
        if embedder is not None:
            await embedder.close()


@asynccontextmanager
async def _open_store(url: str, embedder: Embedder | None, vectors: str | None) -> AsyncIterator[Store]:
    async with open_store(url) as store:
        if embedder is None:
            yield store
            return
        async with (
            open_vectors(vectors or "memory://") as index,
            Indexed(store, index, embedder, owned=False) as indexed,
        ):
            yield indexed


def _say_one(out: Output, result: _Result) -> None:
    figures, run = result.figures, result.run
    rows = [["", "questions", *figures.scores]]
    scored = [("all", figures.questions, figures.scores)]
    scored += [(name, each.questions, each.scores) for name, each in figures.by_category.items()]
    rows += [[name, f"{count:,}", *map(_share, scores.values())] for name, count, scores in scored]
    out.say_lines(table(rows))
    out.say("")
    out.say(
        f"{result.store}: {several(run.records, 'record')} written in {run.write_seconds:.1f} s, "
        f"first answer after {run.first_answer_seconds:.1f} s"
    )
    out.say(
        f"recall: p50 {figures.p50_ms:.1f} ms, p95 {figures.p95_ms:.1f} ms, {figures.per_second:,.0f} questions/s"
    )
    apart = "" if figures.told_apart is None else f"; of those asked of another talk {figures.told_apart:.1%}"
    out.say(f"said to be probably absent: {figures.flagged:.1%} of the questions{apart}")


def _say_several(out: Output, data: Data, results: list[_Result]) -> None:
    reference = results[0]
    rows = [["store", *reference.figures.scores, "p50 ms", "p95 ms", "same top 10"]]
    if data.sessions:
        rows[0].append("same sessions")
    for result in results:
        figures = result.figures
        row = [result.store, *map(_share, figures.scores.values())]
        row += [f"{figures.p50_ms:.1f}", f"{figures.p95_ms:.1f}"]
        likeness = compared(reference.run, result.run)
        for same in (likeness.same, likeness.same_sessions):
            if same is not None:
                row.append("" if result is reference else f"{same:.1%}")
        rows.append(row)
    out.say_lines(table(rows))
    for result in results[1:]:
        if differing := compared(reference.run, result.run).differing:
            first = ", ".join(differing[:_MOST_TOLD])
            more = f" and {len(differing) - _MOST_TOLD:,} more" if len(differing) > _MOST_TOLD else ""
            out.say(f"{result.store} differs from {reference.store} at {first}{more}")


def _data_text(data: Data) -> str:
    """What the file holds, with what was left out in brackets."""
    aside = []
    if data.skipped_questions:
        aside.append(f"{several(data.skipped_questions, 'question')} left out, whose evidence does not exist")
    if data.skipped_evidence:
        aside.append(f"{several(data.skipped_evidence, 'evidence id')} of no message")
    if data.unread_times:
        aside.append(f"{several(data.unread_times, 'time')} not understood")
    inside = f" ({'; '.join(aside)})" if aside else ""
    counts = {"talk": len(data.talks), "message": data.messages, "question": data.questions}
    held = ", ".join(several(count, thing) for thing, count in counts.items())
    return f"{data.format}: {held}{inside}"


def _share(score: float) -> str:
    return f"{score:.3f}".removeprefix("0")


def _document(out: Output, result: _Result, reference: _Result) -> dict[str, Any]:
    likeness = None if result is reference else compared(reference.run, result.run)
    return {
        "store": result.store,
        "records": result.run.records,
        "write_seconds": round(result.run.write_seconds, 3),
        "first_answer_seconds": round(result.run.first_answer_seconds, 3),
        **msgspec.to_builtins(result.figures),
        "notes": {out.hidden(note): times for note, times in result.run.notes.items()},
        "compared": msgspec.to_builtins(likeness),
    }
