"""`python -m bench.rerank [FILE…] [--everyday] [--embedder SPEC] [--limit N]`: what re-ranking gives, and what it costs.

A server on loopback that speaks /rerank stands in for a cross-encoder, whose weights are in no package: it scores by an
embedder's cosine, or without one by the share of the question's terms that a text has. The rows are the weight of its
opinion beside the order that there was; `replaced` is its opinion alone. Milliseconds are of the whole recall, one after the
other, with texts that the server has read before: the round trip, not a model's time.
"""

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import octavo
from octavo import Scope, open_store
from octavo.kernel.model import Add
from octavo.kernel.terms.terms import terms
from octavo.measure import Data, load
from octavo.measure.everyday import ask_people, figures_of, load_people
from octavo.measure.formats import COLLECTION
from octavo.measure.metrics import hit_at, mean, percentile
from octavo.models import Cached, open_embedder
from octavo.models.rerankers import open_reranker
from octavo.search import recall
from octavo.wraps.reranked import Reranked

TENANT = "rerank"
WEIGHTS = {"words alone": None, "0.5": 0.5, "1.0": 1.0, "2.0": 2.0, "replaced": 1e9}


class Judge:
    """Scores texts for the server, in an event loop of its own."""

    def __init__(self, spec: str | None) -> None:
        opened = open_embedder(spec)
        self.embedder = None if opened is None else Cached(opened, 50_000)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def score(self, question: str, texts: list[str]) -> list[float]:
        if self.embedder is None:
            asked = set(terms(question))
            return [len(asked & set(terms(text))) / (len(asked) or 1) for text in texts]
        [own] = await self.embedder.embed([question], asking=True)
        vectors = await self.embedder.embed(texts)
        return [sum(a * b for a, b in zip(own, vector, strict=True)) for vector in vectors]


@contextmanager
def serving(judge: Judge) -> Iterator[str]:
    """The address of a server that asks this judge."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            work = asyncio.run_coroutine_threadsafe(judge.score(body["query"], body["documents"]), judge.loop)
            results = [{"index": at, "relevance_score": score} for at, score in enumerate(work.result())]
            answer = json.dumps({"results": results}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


def second_model(store: Any, url: str) -> Any:
    """The store with that server beside it."""
    return Reranked(store, open_reranker("openai:judge", base_url=url), timeout=600)


async def ask_file(data: Data, url: str) -> dict[str, list[float]]:
    """Any@1, any@10, p50 and p95 of each weight."""
    scores: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WEIGHTS}
    async with open_store("memory://") as inner:
        store = second_model(inner, url)
        for talk in data.talks:
            await inner.apply([Add(talk.records(TENANT))])
        for talk in data.talks:
            ended = max(said.created_at for said in talk.said)
            asking = recall.Recall(store, clock=lambda ended=ended: ended)
            for case in talk.cases:
                where = {"scope": Scope(tenant=TENANT, user=talk.user), "collections": (COLLECTION,)}
                await asking.recall(case.question, **where)  # so that the server has read it all
                for name, weight in WEIGHTS.items():
                    recall.RERANK = weight or 0.0
                    started = time.perf_counter()
                    hits = await asking.recall(case.question, rerank=weight is not None, **where)
                    took = (time.perf_counter() - started) * 1000
                    found = [hit.record.id for hit in hits]
                    scores[name].append((hit_at(1, found, case.gold), hit_at(10, found, case.gold), took))
    return {name: _figures(each) for name, each in scores.items()}


def _figures(each: list[tuple[float, float, float]]) -> list[float]:
    first, ten, took = ([row[at] for row in each] for at in range(3))
    return [mean(first), mean(ten), percentile(0.5, took), percentile(0.95, took)]


async def ask_everyday(language: Any, url: str) -> dict[str, list[float]]:
    """Hit@1 and hit@3 of each weight, by the front door, on the development half."""
    people, found = load_people(language, "dev"), {}
    for name, weight in WEIGHTS.items():
        recall.RERANK = weight or 0.0

        def front(store: Any, weight: float | None = weight) -> Any:
            return octavo.AsyncMemory(store if weight is None else second_model(store, url))

        figures = figures_of(await ask_people(people, "front", front=front))
        found[name] = [figures.hit_1 or 0.0, figures.hit_3 or 0.0]
    return found


async def main(files: list[str], spec: str | None, *, limit: int, everyday: bool) -> None:
    """Measure every weight on every file, and print a table for each."""
    with serving(Judge(spec)) as url:
        for file in files:
            found = await ask_file(load(Path(file)).some(limit, 0), url)
            _print(f"{Path(file).stem}: any@1, any@10, p50 ms, p95 ms", found)
        for language in ("en", "zh") if everyday else ():
            _print(f"everyday {language}: hit@1, hit@3", await ask_everyday(language, url))


def _print(title: str, found: dict[str, list[float]]) -> None:
    print(f"\n{title}")
    for name, figures in found.items():
        told = (f"{one:.1f}" if at > 1 else f"{one:.3f}".removeprefix("0") for at, one in enumerate(figures))
        print(f"{name:12}", "  ".join(told), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="as `octavo bench recall --data` takes them")
    parser.add_argument("--everyday", action="store_true")
    parser.add_argument("--embedder", metavar="SPEC")
    parser.add_argument("--limit", type=int, default=10**9, metavar="N")
    given = parser.parse_args()
    asyncio.run(main(given.files, given.embedder, limit=given.limit, everyday=given.everyday))
