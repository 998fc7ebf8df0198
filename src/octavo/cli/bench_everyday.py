"""`octavo bench recall --everyday`: how often everyday questions find what was said, beside plain BM25."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

import octavo
from octavo.cli.command import Call, several, table
from octavo.errors import ConfigError
from octavo.kernel.ports import Embedder
from octavo.util.secrets import shown

if TYPE_CHECKING:
    from octavo.measure.everyday import Answered, Figures, Language, Part, Path, Person

_HEAD = (
    "hit@1", "hit@3", "shared @1", "shared @3", "unshared @1", "unshared @3", "false absence", "right absence",
)  # fmt: skip
_NAMES = {"en": "English", "zh": "Chinese"}


async def measure_everyday(
    call: Call,
    *,
    lang: "Language | None",
    part: "Part",
    path: "Path | None",
    spec: str | None,
    misses: bool,
) -> int:
    """Ask the everyday questions of each language along each path, and print what was found."""
    from octavo.measure.everyday import LANGUAGES, ask_people, figures_of, load_people
    from octavo.models import Cached, open_embedder

    languages = (lang,) if lang else LANGUAGES
    front = getattr(octavo, "AsyncMemory", None)
    paths = _paths(call, path, with_front=front is not None)
    people = {language: load_people(language, part) for language in languages}
    opened = open_embedder(spec)
    embedder: Embedder | None = None if opened is None else Cached(opened, 10_000)
    results: list[tuple[Figures, list[Answered]]] = []
    try:
        for language in languages:
            for way in paths:
                with call.progress(f"asked {_NAMES[language]} {way}", "question") as progress:
                    answered = await ask_people(
                        people[language], way, embedder, front=front, progress=progress
                    )
                results.append((figures_of(answered), answered))
    finally:
        if embedder is not None:
            await embedder.close()
    for language in languages:
        call.say(_people_text(language, part, people[language]))
    call.say("")
    call.say_lines(table([["", *_HEAD], *(_row(figures) for figures, _ in results)]))
    if misses:
        for figures, answered in results:
            _say_misses(call, figures, answered, listed=part == "dev")
    return call.document(
        part=part,
        embedder=shown(spec) if spec else None,
        people={language: len(each) for language, each in people.items()},
        figures=[msgspec.to_builtins(figures) for figures, _ in results],
        misses=[_miss(one) for _, answered in results for one in _missed(answered)]
        if misses and part == "dev"
        else None,
        seconds=call.seconds,
    )


def _paths(call: Call, path: "Path | None", *, with_front: bool) -> "list[Path]":
    """What is measured; plain BM25 stands beside it every time."""
    if path == "front" and not with_front:
        raise ConfigError("--path front: this Octavo has no octavo.AsyncMemory; take facts or messages")
    if path == "bm25":
        return ["bm25"]
    if path is not None:
        return [path, "bm25"]
    if not with_front:
        call.note("the path front is left out: this Octavo has no octavo.AsyncMemory")
        return ["facts", "messages", "bm25"]
    return ["facts", "messages", "front", "bm25"]


def _people_text(language: str, part: str, people: "Sequence[Person]") -> str:
    statements = sum(len(person.statements) for person in people)
    pairs = [pair for person in people for pair in person.pairs]
    answerable = [pair for pair in pairs if pair.answers]
    unshared = sum(not pair.shares for pair in answerable)
    return (
        f"{_NAMES[language]}, {part}: {len(people)} people, {several(statements, 'statement')}, "
        f"{several(len(pairs), 'question')}; {len(pairs) - len(answerable)} have no answer, "
        f"and {unshared} share no content word with theirs"
    )


def _row(figures: "Figures") -> list[str]:
    shares = (
        figures.hit_1, figures.hit_3, figures.shared_hit_1, figures.shared_hit_3, figures.unshared_hit_1,
        figures.unshared_hit_3, figures.false_absence, figures.right_absence,
    )  # fmt: skip
    cells = ["–" if share is None else f"{share:.3f}".removeprefix("0") for share in shares]
    return [f"{_NAMES[figures.language]} {figures.path}", *cells]


def _say_misses(call: Call, figures: "Figures", answered: "list[Answered]", *, listed: bool) -> None:
    """Each miss of the development half; of the other only how many there are, by kind."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(figures.misses.items()))
    call.say("")
    call.say(f"{_NAMES[figures.language]} {figures.path} misses: {kinds or 'none'}")
    if not listed:
        return
    for one in _missed(answered):
        pair = one.pair
        call.say(f"  {pair.kind}, {pair.person} {'/'.join(pair.answers)}: {pair.question}")
        for text in one.found or ("nothing was found",):
            call.say(f"    {text}")


def _missed(answered: "Sequence[Answered]") -> "list[Answered]":
    return [one for one in answered if one.pair.answers and one.place is None]


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
