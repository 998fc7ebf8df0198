"""`octavo bench`: how well and how fast memory works on data of the caller's own."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

import octavo
from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, pluralize
from octavo.cli.commands import root
from octavo.cli.tables import figures as aligned
from octavo.errors import ConfigError, OctavoError
from octavo.kernel.ports import Embedder
from octavo.util.disk import open_file
from octavo.util.secrets import mask_url

if TYPE_CHECKING:
    from octavo.measure import AskedQuestion, Compared, Data, Run, Summary
    from octavo.measure.everyday import Answered, EverydayFigures, Language, Part, Person
    from octavo.measure.everyday import Path as Way

_MOST_TOLD = 10  # questions that differ between two stores; --json names them all
_LANGUAGES: "dict[Language, str]" = {"en": "English", "zh": "Chinese"}
_WAYS: "tuple[Way, ...]" = ("facts", "messages", "front", "bm25")
_EVERYDAY = {  # the columns of everyday figures, by their names in the document
    "hit@1": "hit_1", "hit@3": "hit_3", "shared @1": "shared_hit_1", "shared @3": "shared_hit_3",
    "unshared @1": "unshared_hit_1", "unshared @3": "unshared_hit_3",
    "false absence": "false_absence", "right absence": "right_absence",
}  # fmt: skip


@root.group("bench")
def bench() -> None:
    """Measure how well memory works, on your own data.

    Every measurement takes --json, --quiet and --debug.

    \b
    Example: octavo bench recall --data locomo.json
    """


@bench.command("recall")
@option.text(
    "--data path",
    "FILE",
    "Conversations with questions and the turns that answer them.",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@option.choice("--format form", ["locomo", "memdaily"], "The format of FILE. [default: recognised]")
@option.text(
    "--store urls",
    "URL",
    "Where the data is written and asked for; given several times, the others are compared with the first.",
    multiple=True,
    default=("memory://",),
    show_default="memory://",
)
@option.text("--embedder", "SPEC", "Find by meaning too: fastembed:<model or folder> or openai:<model>.")
@option.text("--vectors", "URL", "Where the embedder's vectors are kept. [default: in memory, exact]")
@option.number("--limit -n", "Ask N questions, drawn from all.", 1)
@option.text(
    "--seed",
    "N",
    "For what is drawn: the order of writing and, with --limit, the questions.",
    type=int,
    default=0,
)
@option.text(
    "--out",
    "FILE",
    "Write every question with what was found to FILE, one JSON object a line.",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
)
@option.flag("--everyday", "Ask the everyday questions that come with Octavo, instead of those of FILE.")
@option.choice("--lang", _LANGUAGES, "Of the everyday ones: one language. [default: both]")
@option.choice(
    "--part",
    ["dev", "held", "strangers"],
    "Of the everyday ones: which part; nobody tunes on held and strangers.",
    default="dev",
)
@option.choice("--path way", _WAYS, "Of the everyday ones: one way to remember. [default: all]")
@option.flag("--misses", "List every everyday question that was missed; of what is put aside only how many.")
@as_command
async def recall_command(
    call: CommandCall,
    path: Path | None,
    out: Path | None,
    *,
    urls: tuple[str, ...],
    form: str | None,
    embedder: str | None,
    vectors: str | None,
    limit: int | None,
    seed: int,
    everyday: bool,
    lang: Any,
    part: Any,
    way: Any,
    misses: bool,
) -> int:
    """Ask questions with known answers, and score what recall finds.

    FILE is in the format of LoCoMo or MemDaily. Its conversations are written to the store under a tenant of their
    own, which is emptied at the end. With --everyday, invented people's questions are asked of a memory in this process.

    \b
    Example: octavo bench recall --data locomo.json --store sqlite:///octavo.db --out answers.jsonl
    """
    if everyday:
        if path or out or vectors or limit or urls != ("memory://",):
            raise ConfigError(
                "--everyday takes --lang, --part, --path, --embedder and --misses, and no data or store"
            )
        return await _measure_everyday(call, lang, part, way, embedder, misses=misses)
    if path is None:
        raise ConfigError(
            "what is asked? Give --data FILE, or --everyday for the questions that come with Octavo"
        )
    if lang or way or misses:
        raise ConfigError("--lang, --path and --misses belong to --everyday")
    # Loaded here, so that the other commands need not wait for what only this one uses.
    from octavo.measure import Trial, compare_runs, load, new_tenant, open_measured, summary

    if vectors and not embedder:
        raise ConfigError("--vectors needs --embedder, which makes the vectors")
    data = load(path, form, seed)
    if limit is not None:
        data = data.some(limit, seed)
    results: list[_Result] = []
    tenant = new_tenant()
    with open(out or os.devnull, "wb", opener=open_file) as file:  # noqa: ASYNC230 - before anything is awaited

        def keep(store: str, asked: "AskedQuestion") -> None:
            file.write(msgspec.json.encode({"store": store, **msgspec.to_builtins(asked)}) + b"\n")

        try:
            async with _open_embedder(embedder, data.messages + data.questions) as opened:
                for url in urls:
                    async with (
                        open_measured(url, opened, vectors) as store,
                        Trial(store, data, seed=seed, tenant=tenant) as trial,
                    ):
                        where = f" {mask_url(url)}" if len(urls) > 1 else ""
                        with call.progress(f"wrote{where}") as progress:
                            await trial.write(progress)
                        if opened is not None:
                            with call.progress(f"embedded{where}") as progress:
                                await trial.embed(progress)
                        with call.progress(f"asked{where}", "question") as progress:
                            run = await trial.ask(progress, partial(keep, mask_url(url)))
                    likeness = compare_runs(results[0].run, run) if results else None
                    results.append(_Result(mask_url(url), run, summary(run), likeness))
                    for note, times in run.notes.items():
                        call.note(f"{mask_url(url)}: {call.mask(note)} ({pluralize(times, 'question')})")
        except (OctavoError, OSError):
            call.done = 0  # or it would be said that so many records are kept
            raise
    call.say(_data_text(data))
    call.say("")
    if len(results) == 1:
        _say_one(call, results[0])
    else:
        _say_several(call, data, results)
    return call.document(
        data=str(path),
        format=data.format,
        talks=len(data.talks),
        messages=data.messages,
        questions=data.questions,
        skipped_questions=data.skipped_questions,
        skipped_evidence=data.skipped_evidence,
        unread_times=data.unread_times,
        seed=seed,
        embedder=mask_url(embedder) if embedder else None,
        vectors=mask_url(vectors) if vectors else None,
        stores=[_document(call, result) for result in results],
        seconds=call.seconds,
    )


class _Result(msgspec.Struct):
    """One store's answers, and what they come to."""

    store: str
    run: "Run"
    figures: "Summary"
    likeness: "Compared | None"  # to the first store's


@asynccontextmanager
async def _open_embedder(spec: str | None, texts: int) -> AsyncIterator[Embedder | None]:
    """The embedder that is named; a text that is asked or kept again, in another store, it need not read again."""
    from octavo.models import Cached, open_embedder

    opened = open_embedder(spec)
    embedder = None if opened is None else Cached(opened, texts)
    try:
        yield embedder
    finally:
        if embedder is not None:
            await embedder.close()


def _say_one(call: CommandCall, result: _Result) -> None:
    figures, run = result.figures, result.run
    rows = [["", "questions", *figures.scores]]
    scored = [("all", figures.questions, figures.scores)]
    scored += [(name, each.questions, each.scores) for name, each in figures.by_category.items()]
    rows += [[name, f"{count:,}", *map(_share, scores.values())] for name, count, scores in scored]
    call.say_lines(aligned(rows))
    call.say("")
    call.say(
        f"{result.store}: {pluralize(run.records, 'record')} written in {run.write_seconds:.1f} s, "
        f"first answer after {run.first_answer_seconds:.1f} s"
    )
    call.say(
        f"recall: p50 {figures.p50_ms:.1f} ms, p95 {figures.p95_ms:.1f} ms, {figures.per_second:,.0f} questions/s"
    )
    apart = "" if figures.told_apart is None else f"; of those asked of another talk {figures.told_apart:.1%}"
    if figures.adversarial is not None:
        apart += f"; of those that ask one speaker for what another said {figures.adversarial:.1%}"
    call.say(f"said to be probably absent: {figures.flagged:.1%} of the questions{apart}")


def _say_several(call: CommandCall, data: "Data", results: list[_Result]) -> None:
    reference = results[0]
    rows = [["store", *reference.figures.scores, "p50 ms", "p95 ms", "same top 10"]]
    if data.sessions:
        rows[0].append("same sessions")
    for result in results:
        figures = result.figures
        row = [result.store, *map(_share, figures.scores.values())]
        row += [f"{figures.p50_ms:.1f}", f"{figures.p95_ms:.1f}"]
        same = result.likeness and (result.likeness.same, result.likeness.same_sessions)
        row += [f"{each:.1%}" for each in same or () if each is not None]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    call.say_lines(aligned(rows))
    for result in results[1:]:
        if differing := result.likeness.differing if result.likeness else []:
            first = ", ".join(differing[:_MOST_TOLD])
            more = f" and {len(differing) - _MOST_TOLD:,} more" if len(differing) > _MOST_TOLD else ""
            call.say(f"{result.store} differs from {reference.store} at {first}{more}")


def _data_text(data: "Data") -> str:
    """What the file holds, with what was left out in brackets."""
    aside = []
    if data.skipped_questions:
        left_out = pluralize(data.skipped_questions, "question")
        aside.append(f"{left_out} left out, whose evidence does not exist")
    if data.skipped_evidence:
        aside.append(f"{pluralize(data.skipped_evidence, 'evidence id')} of no message")
    if data.unread_times:
        aside.append(f"{pluralize(data.unread_times, 'time')} not understood")
    inside = f" ({'; '.join(aside)})" if aside else ""
    counts = {"talk": len(data.talks), "message": data.messages, "question": data.questions}
    held = ", ".join(pluralize(count, thing) for thing, count in counts.items())
    return f"{data.format}: {held}{inside}"


def _share(score: float | None) -> str:
    return "–" if score is None else f"{score:.3f}".removeprefix("0")


def _document(call: CommandCall, result: _Result) -> dict[str, Any]:
    return {
        "store": result.store,
        "records": result.run.records,
        "write_seconds": round(result.run.write_seconds, 3),
        "first_answer_seconds": round(result.run.first_answer_seconds, 3),
        **msgspec.to_builtins(result.figures),
        "notes": {call.mask(note): times for note, times in result.run.notes.items()},
        "compared": msgspec.to_builtins(result.likeness),
    }


# --- everyday questions


async def _measure_everyday(
    call: CommandCall,
    lang: "Language | None",
    part: "Part",
    way: "Way | None",
    spec: str | None,
    *,
    misses: bool,
) -> int:
    """Ask the everyday questions of each language in each way, beside plain BM25, and print what was found."""
    from octavo.measure.everyday import ask_people, figures_of, load_people

    people = {language: load_people(language, part) for language in _LANGUAGES if lang in (None, language)}
    results: list[tuple[EverydayFigures, list[Answered]]] = []
    async with _open_embedder(spec, 10_000) as embedder:
        for language, asked in people.items():
            for each in _WAYS:
                if way is None or each in (way, "bm25"):
                    with call.progress(f"asked {_LANGUAGES[language]} {each}", "question") as progress:
                        answered = await ask_people(
                            asked, each, embedder, front=octavo.AsyncMemory, progress=progress
                        )
                    results.append((figures_of(answered), answered))
    for language, asked in people.items():
        call.say(_people_text(language, part, asked))
    call.say("")
    call.say_lines(aligned([["", *_EVERYDAY], *(_everyday_row(figures) for figures, _ in results)]))
    if misses:
        for figures, answered in results:
            _say_misses(call, figures, answered, listed=part == "dev")
    listed = [_miss(one) for _, answered in results for one in _find_missed(answered)]
    return call.document(
        part=part,
        embedder=mask_url(spec) if spec else None,
        people={language: len(each) for language, each in people.items()},
        figures=[msgspec.to_builtins(figures) for figures, _ in results],
        misses=listed if misses and part == "dev" else None,
        seconds=call.seconds,
    )


def _everyday_row(figures: "EverydayFigures") -> list[str]:
    shares = [_share(getattr(figures, name)) for name in _EVERYDAY.values()]
    return [f"{_LANGUAGES[figures.language]} {figures.path}", *shares]


def _people_text(language: "Language", part: str, people: "Sequence[Person]") -> str:
    statements = sum(len(person.statements) for person in people)
    pairs = [pair for person in people for pair in person.pairs]
    answerable = [pair for pair in pairs if pair.answers]
    unshared = sum(not pair.shares for pair in answerable)
    return (
        f"{_LANGUAGES[language]}, {part}: {len(people)} people, {pluralize(statements, 'statement')}, "
        f"{pluralize(len(pairs), 'question')}; {len(pairs) - len(answerable)} have no answer, "
        f"and {unshared} share no content word with theirs"
    )


def _say_misses(
    call: CommandCall, figures: "EverydayFigures", answered: "list[Answered]", *, listed: bool
) -> None:
    """Each miss of the development half; of the other only how many there are, by kind."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(figures.misses.items()))
    call.say("")
    call.say(f"{_LANGUAGES[figures.language]} {figures.path} misses: {kinds or 'none'}")
    if not listed:
        return
    for one in _find_missed(answered):
        pair = one.pair
        call.say(f"  {pair.kind}, {pair.person} {'/'.join(pair.answers)}: {pair.question}")
        for found in one.found or ("nothing was found",):
            call.say(f"    {found}")


def _find_missed(answered: "Sequence[Answered]") -> "list[Answered]":
    return [one for one in answered if one.pair.answers and one.rank is None]


def _miss(one: "Answered") -> dict[str, object]:
    pair = one.pair
    return {
        "path": one.path,
        "language": pair.language,
        "kind": pair.kind,
        "person": pair.person,
        "question": pair.question,
        "answers": pair.answers,
        "absent": one.absent,
        "found": one.found,
    }
