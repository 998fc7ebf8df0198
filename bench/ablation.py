"""`python -m bench.ablation FILE… [--everyday] [--embedder SPEC] [--limit N]`: what each constant of the ranking is worth.

A row for each value of a constant, the shipped ones first, and two columns for each file: Hit@1 by session and any@10 by
turn where there are sessions; else any@1 with R@5, or with any@10 of MADial. `--everyday` adds hit@1 and hit@3 of the front
door on the development half of the everyday questions. With an embedder the rows are those of the vectors.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import octavo
from octavo import Scope, open_store
from octavo.kernel.model import Add, Record
from octavo.kernel.ports import Store
from octavo.kernel.terms import topics
from octavo.measure import Case, Data, load
from octavo.measure.everyday import ask_people, figures_of, load_people
from octavo.measure.formats import COLLECTION
from octavo.measure.metrics import BM25, hit_at, mean, recall_at
from octavo.models import Cached, open_embedder
from octavo.search import ranking, recall
from octavo.search.candidates import gather
from octavo.search.question import Question, queries
from octavo.search.ranking import Ranking
from octavo.vectors import open_vectors
from octavo.wraps import Indexed

LANGUAGES = {"en": "English", "zh": "Chinese"}
TENANT = "ablation"
SHIPPED, PLAIN = "**shipped**", "plain BM25"


def reciprocal_ranks(scores: Sequence[float]) -> list[float]:
    """Reciprocal ranks in place of standardised scores."""
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    places = {at: rank for rank, at in enumerate(order, 1)}
    return [60 / (60 + places[at]) for at in range(len(scores))]


def rank_whole(question: Question, candidates: Any) -> Ranking:
    """Rank by the question as a whole only."""
    return RANK(msgspec.structs.replace(question, parts=()), candidates)


RANK = ranking.rank
#: Beside the shipped value of each constant, which the first row has, these.
VALUES: dict[str, tuple[Any, ...]] = {
    "K1": (0.6, 1.2),
    "B": (0.1, 0.3, 0.75),
    "SESSION_K1": (0.6, 2.0),
    "SESSION_B": (0.4, 1.0),
    "PARTICLE": (0.0, 1.0),
    "SINGLE": (0.3, 1.0),
    "TOPIC": (0.0, 0.4, 1.0),
    "OVERVIEW": ({},),
    "OWN_FACT": (0.0, 0.4, 1.6),
    "OTHERS_FACT": (0.0, 1.2, 5.0),
    "LINK": (0.0, 0.6, 1.0),
    "ASKING": (0.0, 3.0),
    "NAMED": (1.0, 1.5),
    "SESSION": (0.0, 1.6),
    "TIME": (0.0, 3.0, 12.0),
    "_HALF_LIFE_DAYS": (5.0, 20.0),
    "NEIGHBOUR": (0.0, 0.1, 0.4),
    "RECENCY": (0.0, 0.1),
    "_LEAST_DEVIATION": (0.0, 0.1, 0.4),
}
OF_VECTORS: dict[str, tuple[Any, ...]] = {
    "VECTOR": (0.0, 0.5, 2.0),
    "VECTOR_NEIGHBOUR": (0.0, 0.6),
    "_AGREEING": (1e-9, 0.15, 0.6),
    "_DEPTH": (10, 40),
    "_LEAD": (1.0, 2.0),
    "EVOKED": (1.0, 2.0),
}
Change = tuple[Any, str, Any]


def variants(*, vectors: bool) -> dict[str, list[Change]]:
    """Every row of the table: its name, and what is changed for it."""
    rows: dict[str, list[Change]] = {SHIPPED: []}
    for name, others in (OF_VECTORS if vectors else VALUES).items():
        shipped = "by layer" if name == "OVERVIEW" else getattr(ranking, name)
        for value in others:
            rows[f"{name.strip('_')} {shipped} → {value or 0}"] = [(ranking, name, value)]
    if not vectors:
        rows["K1 1.2 and B 0.75, as plain BM25 has them"] = [(ranking, "K1", 1.2), (ranking, "B", 0.75)]
        rows["asked as a whole only"] = [(ranking, "rank", rank_whole), (recall, "rank", rank_whole)]
    rows["ranks fused, not scores"] = [(ranking, "standard", reciprocal_ranks)]
    return rows


@contextmanager
def changed(changes: list[Change]) -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


async def ask_file(
    store: Store, data: Data, rows: dict[str, list[Change]], *, madial: bool
) -> dict[str, list[float]]:
    """The two figures of each row: candidates are gathered once for each question, and ranked for each row."""
    await topics.load()
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for talk in data.talks:
        ended = max(said.created_at for said in talk.said)
        asked = queries(Scope(tenant=TENANT, user=talk.user), ended, {"collections": (COLLECTION,)})
        plain = BM25([said.text for said in talk.said])
        records = {said.id: said for said in talk.records(TENANT)}
        for case in talk.cases:
            question = Question.of(case.question, ended)
            candidates = await gather(store, question, asked)
            best = [talk.said[at] for at in plain.rank(case.question)[:10]]
            first = [said.scope.session or "" for said in best[:1]]
            scores[PLAIN].append(_score([said.id for said in best], first, case, data, madial=madial))
            for name, changes in rows.items():
                with changed(changes):
                    ranked = ranking.rank(question, candidates)
                    found = _best_ids(ranked, records)
                    first = _first_session(ranked) if data.sessions else []
                scores[name].append(_score(found, first, case, data, madial=madial))
    return {name: [mean(column) for column in zip(*both, strict=True)] for name, both in scores.items()}


def _best_ids(ranked: Ranking, records: dict[str, Record]) -> list[str]:
    """The ten best, as recall finds them: with what only the whole record tells."""
    best = [(at, records[ranked.found[at].id]) for at in ranked.order[:30]]
    scored = [(at, record, ranked.total[at] + ranked.told_by(at, record)) for at, record in best]
    scored = sorted(scored, key=lambda row: -row[2])[: ranking.LOOKED_AT]
    return [record.id for _, record, _ in ranked.linked(scored)]


def _first_session(ranked: Ranking) -> list[str]:
    by_session = ranked.by_session()
    best = max(by_session, key=by_session.__getitem__, default=None)
    return [match.scope.session or "" for match in ranked.found if match.scope.key == best][:1]


def _score(
    found: list[str], first: list[str], case: Case, data: Data, *, madial: bool
) -> tuple[float, float]:
    if data.sessions:
        return hit_at(1, first, case.sessions), hit_at(10, found, case.gold)
    later = hit_at(10, found, case.gold) if madial else recall_at(5, found, case.gold)
    return hit_at(1, found, case.gold), later


async def ask_everyday(language: Any, rows: dict[str, list[Change]], embedder: Any) -> dict[str, list[float]]:
    """Hit@1 and hit@3 of each row, by the front door."""
    people = load_people(language, "dev")
    found: dict[str, list[float]] = {}
    for name, changes in {PLAIN: [], **rows}.items():
        with changed(changes):
            path: Any = "bm25" if name == PLAIN else "front"
            figures = figures_of(await ask_people(people, path, embedder, front=octavo.AsyncMemory))
        found[name] = [figures.hit_1 or 0.0, figures.hit_3 or 0.0]
    return found


async def main(files: list[str], spec: str | None, *, limit: int, everyday: bool) -> None:
    """Measure every row on every file, and print the table."""
    opened = open_embedder(spec)
    embedder = None if opened is None else Cached(opened, 20_000)
    rows = variants(vectors=embedder is not None)
    columns: dict[str, dict[str, list[float]]] = {}
    for file in files:
        data, name = load(Path(file)).some(limit, 0), Path(file).stem.removesuffix("-dev")
        async with open_store("memory://") as inner, open_vectors("memory://") as index:
            store: Any = Indexed(inner, index, embedder, owned=False) if embedder else inner
            for talk in data.talks:
                await store.apply([Add(talk.records(TENANT))])
            if embedder is not None:
                await store.settle()
            columns[name] = await ask_file(store, data, rows, madial="madial" in name)
            if embedder is not None:
                await store.close()
    for language, name in LANGUAGES.items() if everyday else ():
        columns[f"everyday {name}"] = await ask_everyday(language, rows, embedder)
    print("| |", " | ".join(columns), "|")
    print("|---|" + "---|" * len(columns))
    for row in (PLAIN, *rows):
        figures = (
            ", ".join(f"{one:.3f}".removeprefix("0") for one in each[row]) for each in columns.values()
        )
        print(f"| {row} |", " | ".join(figures), "|", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="as `octavo bench recall --data` takes them")
    parser.add_argument("--everyday", action="store_true")
    parser.add_argument("--embedder", metavar="SPEC")
    parser.add_argument(
        "--limit", type=int, default=10**9, metavar="N", help="questions, drawn from all of a file"
    )
    given = parser.parse_args()
    if not given.files and not given.everyday:
        parser.error("name one or more files, or --everyday")
    asyncio.run(main(given.files, given.embedder, limit=given.limit, everyday=given.everyday))
