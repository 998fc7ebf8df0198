"""Everyday questions: what people say to an assistant, what is asked about it afterwards, and how often it is found.

A file holds invented people, one JSON object a line: statements (`person`, `id`, `text`, in the order in which they were said)
and pairs (`person`, `question`, `kind`, `answers`, `answer`, `shares`, `language`). `dev_*` may be tuned on; `held_*` and
`strangers_*`, the latest, begin with a note that says that nobody does.

A fresh memory is told what a person said, and asked the questions. Each path is one way through Octavo: `facts` extracts from
every statement and searches the facts, `messages` searches the messages themselves, `front` is `octavo.AsyncMemory`, and
`bm25` is what plain BM25 makes of the same messages.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.errors import ConfigError, ModelError
from octavo.kernel.model import Add, Query, Record, Scope
from octavo.kernel.ports import Embedder, Store
from octavo.layers import LayeredMemory
from octavo.measure import open_measured
from octavo.measure.formats import COLLECTION as MESSAGES
from octavo.measure.metrics import BM25, mean
from octavo.search.recall import Recall
from octavo.wraps import Indexed

__all__ = [
    "LANGUAGES",
    "PARTS",
    "PATHS",
    "Answered",
    "EverydayFigures",
    "Language",
    "Pair",
    "Part",
    "Path",
    "Person",
    "Statement",
    "ask_people",
    "figures_of",
    "load_people",
    "read_people",
]

Language: TypeAlias = Literal["en", "zh"]
Part: TypeAlias = Literal["dev", "held", "strangers"]
Kind: TypeAlias = Literal["first", "third", "smalltalk", "two_facts", "overview", "no_answer", "update"]

LANGUAGES: tuple[Language, ...] = ("en", "zh")
PARTS: tuple[Part, ...] = ("dev", "held", "strangers")
Path: TypeAlias = Literal["facts", "messages", "front", "bm25"]
PATHS: tuple[Path, ...] = ("facts", "messages", "front", "bm25")

_FIRST = 3  # hits that are looked at
_SESSION = "everyday"
_KEPT_WORDS = (MESSAGES, "observations")  # where what a person typed is kept as it was typed
_PATIENCE_SECONDS = 120.0  # for the vectors of one person's statements


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something a person said; small talk answers nothing."""

    person: str
    id: str
    text: str


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and the statements any of which answers it; a question of `no_answer` has none."""

    person: str
    question: str
    kind: Kind
    answers: tuple[str, ...]  # ids of statements
    # A fact made of such a statement answers when it holds one of these; any does when empty.
    answer: tuple[str, ...]
    shares: bool  # whether the question shares a content word with one of those statements
    language: Language


class Person(msgspec.Struct, frozen=True):
    """All that one person said, in order, and all that is asked."""

    name: str
    language: Language
    statements: tuple[Statement, ...]
    pairs: tuple[Pair, ...]


def load_people(language: Language, part: Part = "dev") -> list[Person]:
    """The people of one part, in one language."""
    return read_people(files(__package__).joinpath(f"{part}_{language}.jsonl").read_bytes(), language)


def read_people(data: bytes, language: Language) -> list[Person]:
    """The people of a file in the form of those that come with Octavo."""
    statements: dict[str, list[Statement]] = {}
    pairs: dict[str, list[Pair]] = {}
    for line in data.splitlines():
        row = msgspec.json.decode(line, type=dict[str, object])
        if "note" in row:
            continue
        if "text" in row:
            said = msgspec.convert(row, Statement)
            statements.setdefault(said.person, []).append(said)
        else:
            pair = msgspec.convert(row, Pair)
            pairs.setdefault(pair.person, []).append(pair)
    return [Person(name, language, tuple(said), tuple(pairs[name])) for name, said in statements.items()]


class _Hit(msgspec.Struct, frozen=True):
    """Something found: the statements it comes from, and whether it is a statement itself."""

    text: str
    statements: frozenset[str]
    verbatim: bool


class _Found(msgspec.Struct, frozen=True):
    hits: Sequence[_Hit]  # best first
    absent: bool | None  # said to be probably absent; None where the path does not say


_Ask: TypeAlias = Callable[[str], Awaitable[_Found]]
_Tell: TypeAlias = Callable[[Person, Store], Awaitable[_Ask]]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One question of one path, and what came of it."""

    pair: Pair
    path: Path
    rank: int | None  # of the first right hit, from 1; None when it is not among the first three
    absent: bool | None
    found: tuple[str, ...]  # texts of the first three


class EverydayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Shares from 0 to 1 over the answers of one language and path; None where nothing was asked or said."""

    language: Language
    path: Path
    answerable: int
    unanswerable: int
    hit_1: float | None
    hit_3: float | None
    shared_hit_1: float | None  # of pairs whose question shares a content word with its statement
    shared_hit_3: float | None
    unshared_hit_1: float | None
    unshared_hit_3: float | None
    false_absence: float | None  # answerable questions called probably absent
    right_absence: float | None  # unanswerable ones
    misses: dict[Kind, int]  # answerable questions without a right hit among the first three, by kind


async def ask_people(
    people: Sequence[Person],
    path: Path,
    embedder: Embedder | None = None,
    *,
    front: Callable[[Store], Any] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> list[Answered]:
    """Tell each person's statements to a memory of its own, in order, and ask every question.

    `front` makes the memory of the path `front`, which is above this package: `octavo.AsyncMemory`.
    """
    tell: _Tell
    match path:
        case "facts":
            tell = _facts
        case "messages":
            tell = _messages
        case "bm25":
            tell = _plain
        case "front" if front is not None:
            tell = partial(_front, front)
        case _:
            raise ConfigError(f"the path {path} cannot be asked here; take facts, messages or bm25")
    answered: list[Answered] = []
    total = sum(len(person.pairs) for person in people)
    for person in people:
        async with _tell_person(person, tell, None if path == "bm25" else embedder) as ask:
            for pair in person.pairs:
                answered.append(_judge(pair, path, await ask(pair.question)))
                if progress is not None:
                    progress(len(answered), total)
    return answered


def figures_of(answered: Sequence[Answered]) -> EverydayFigures:
    """What the answers of one language and path come to."""
    asked = [one for one in answered if one.pair.answers]
    unanswerable = [one for one in answered if not one.pair.answers]
    shared, unshared = ([one for one in asked if one.pair.shares is shares] for shares in (True, False))
    missed: dict[Kind, int] = {}
    for one in asked:
        if one.rank is None:
            missed[one.pair.kind] = missed.get(one.pair.kind, 0) + 1
    return EverydayFigures(
        language=answered[0].pair.language,
        path=answered[0].path,
        answerable=len(asked),
        unanswerable=len(unanswerable),
        hit_1=_hit_share(1, asked),
        hit_3=_hit_share(_FIRST, asked),
        shared_hit_1=_hit_share(1, shared),
        shared_hit_3=_hit_share(_FIRST, shared),
        unshared_hit_1=_hit_share(1, unshared),
        unshared_hit_3=_hit_share(_FIRST, unshared),
        false_absence=_absent_share(asked),
        right_absence=_absent_share(unanswerable),
        misses=missed,
    )


def _hit_share(first: int, answered: Sequence[Answered]) -> float | None:
    if not answered:
        return None
    return mean([float(one.rank is not None and one.rank <= first) for one in answered])


def _absent_share(answered: Sequence[Answered]) -> float | None:
    said = [float(one.absent) for one in answered if one.absent is not None]
    return mean(said) if said else None


def _judge(pair: Pair, path: Path, found: _Found) -> Answered:
    right = (at for at, hit in enumerate(found.hits[:_FIRST], 1) if _answers(hit, pair))
    texts = tuple(hit.text for hit in found.hits[:_FIRST])
    return Answered(pair=pair, path=path, rank=next(right, None), absent=found.absent, found=texts)


def _answers(hit: _Hit, pair: Pair) -> bool:
    """Whether a hit is an answering statement itself, or a fact made of one that holds the answer."""
    if hit.statements.isdisjoint(pair.answers):
        return False
    if hit.verbatim or not pair.answer:
        return True
    text = hit.text.casefold()
    return any(phrase.casefold() in text for phrase in pair.answer)


# --- the paths: each tells a person's statements, and hands over how to ask


@asynccontextmanager
async def _tell_person(person: Person, tell: _Tell, embedder: Embedder | None) -> AsyncIterator[_Ask]:
    async with open_measured("memory://", embedder, None) as store:
        ask = await tell(person, store)
        if isinstance(store, Indexed):
            try:
                await store.settle(_PATIENCE_SECONDS)
            except TimeoutError:
                status = await store.status()
                raise ModelError(f"not every statement could be embedded: {status.last_error}") from None
        yield ask


async def _facts(person: Person, store: Store) -> _Ask:
    memory = LayeredMemory(store)
    said = {
        (await memory.extract(statement.text, user_id=person.name)).source_id: statement.id
        for statement in person.statements
    }

    async def ask(question: str) -> _Found:
        found = await memory.recall(question, user_id=person.name, top_k=_FIRST)
        hits = [
            _Hit(one.memory.content, _find_statements(one.memory.sources, said), verbatim=False)
            for one in found
        ]
        return _Found(hits, found.probably_absent)

    return ask


async def _messages(person: Person, store: Store) -> _Ask:
    scope = Scope(user=person.name, agent="", session=_SESSION)
    for statement in person.statements:
        said = Record(collection=MESSAGES, scope=scope, id=statement.id, kind="user", text=statement.text)
        await store.apply([Add([said])])
    recall = Recall(store)

    async def ask(question: str) -> _Found:
        found = await recall.recall(question, scope, _FIRST, collections=(MESSAGES,))
        hits = [_Hit(hit.record.text, frozenset([hit.record.id]), verbatim=True) for hit in found]
        return _Found(hits, found.probably_absent)

    return ask


async def _front(make: Callable[[Store], Any], person: Person, store: Store) -> _Ask:
    memory = make(store)
    for statement in person.statements:
        await memory.add(statement.text, user_id=person.name, session_id=_SESSION)
    texts = {statement.text: statement.id for statement in person.statements}
    said: dict[str, str] = {}
    for collection in _KEPT_WORDS:
        kept = await store.find(Query(collection=collection, scope=Scope(user=person.name)))
        said |= {record.id: texts[record.text] for record in kept if record.text in texts}

    async def ask(question: str) -> _Found:
        found = await memory.search(question, user_id=person.name, limit=_FIRST)
        hits = [
            _Hit(hit.text, _find_statements([hit.id, *hit.sources], said), verbatim=hit.text in texts)
            for hit in found
        ]
        return _Found(hits, found.probably_absent)

    return ask


async def _plain(person: Person, _: Store) -> _Ask:
    texts = [statement.text for statement in person.statements]
    index = BM25(texts)

    async def ask(question: str) -> _Found:
        best = index.rank(question)[:_FIRST]
        hits = [_Hit(texts[at], frozenset([person.statements[at].id]), verbatim=True) for at in best]
        return _Found(hits, absent=None)

    return ask


def _find_statements(ids: Iterable[str], said: dict[str, str]) -> frozenset[str]:
    return frozenset(said[one] for one in ids if one in said)
