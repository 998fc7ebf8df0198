"""What `/metrics` says: the numbers of all workers of a server, added up, without the name of anybody."""

import asyncio
import logging
import platform
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from octavo import __version__
from octavo.errors import OctavoError
from octavo.kernel.ids import now
from octavo.kernel.ports import IndexesLater, Pools
from octavo.kernel.shapes import SHAPES
from octavo.server.problems import problem
from octavo.util.cache import hits_and_misses, used_bytes
from octavo.util.disk import replace_file
from octavo.util.metrics import OTHER, Family, Meter, Samples, merge_samples, prometheus_page
from octavo.wraps.metered import STORE_FAMILIES

if TYPE_CHECKING:
    from octavo.server.app import TenantMemories

_REQUEST_SECONDS = "octavo_http_request_seconds"
_REQUESTS = "octavo_http_requests_total"
_LOOP_LAG = "octavo_event_loop_lag_seconds"
_INDEX = "octavo_index_waiting"
#: The methods that have a name in metrics and spans.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE = "none"  # refused before its route was looked for, or there is none

_FAMILIES = (
    Family("octavo_build_info", "gauge", "1, with what runs here.", ("version", "python", "store")),
    Family("octavo_workers", "gauge", "Processes of this server whose numbers these are."),
    Family(_REQUEST_SECONDS, "histogram", "How long requests took, by the template of their route.", ("method", "route")),
    Family(_REQUESTS, "counter", "Requests that were answered.", ("method", "route", "status")),
    Family("octavo_http_requests_in_flight", "gauge", "Requests under way."),
    *STORE_FAMILIES,
    Family("octavo_store_up", "gauge", "0 while a worker's queue waits for the store, else 1.", merge="min"),
    Family("octavo_writes_total", "counter", "Writes by what became of them.", ("status",)),
    Family("octavo_queue_waiting", "gauge", "Writes that wait for the store."),
    Family("octavo_queue_oldest_seconds", "gauge", "How long the oldest of them has waited.", merge="max"),
    Family("octavo_queue_dead_letters", "gauge", "Writes that were given up, and wait for somebody to look.", merge="max"),
    Family("octavo_queue_bad_lines", "gauge", "Damaged lines in the queue's folder.", merge="max"),
    Family("octavo_queue_replayed_total", "counter", "Queued writes that reached the store."),
    Family("octavo_queue_buried_total", "counter", "Queued writes that became dead letters."),
    Family(_INDEX, "gauge", "Records that wait to be indexed; counted up to some thousands.", ("index",), "max"),
    Family("octavo_pool_connections", "gauge", "Connections to the database.", ("state",)),
    Family("octavo_pool_limit", "gauge", "How many connections there may be."),
    Family("octavo_cache_requests_total", "counter", "What was asked of the caches.", ("outcome",)),
    Family("octavo_cache_bytes", "gauge", "What the caches hold."),
    Family(_LOOP_LAG, "histogram", "How late the event loop came to what was due."),
)  # fmt: skip
#: Everything on the page, by name.
FAMILIES = {family.name: family for family in _FAMILIES}
_GAUGES = frozenset(family.name for family in _FAMILIES if family.kind == "gauge")

_BEAT_SECONDS = 0.5  # between two looks at the event loop
_WRITE_SECONDS = 2.0  # between two snapshots for the other workers
_STALE_SECONDS = 10.0  # after which a worker is taken to have ended: what it counted stays, its gauges do not
_ASK_SECONDS = 5.0  # for which what was asked of the store is good enough
_PATIENCE_SECONDS = 1.0  # for the store to say it
_MOST_LAG = 10_000  # records of a collection that are counted as waiting
_log = logging.getLogger("octavo.server")
_Rows = dict[str, list[tuple[tuple[str, ...], list[float]]]]
_decoder = msgspec.json.Decoder(_Rows)


class Metrics:
    """The numbers of this worker, and through a folder that they share those of all others.

    A scrape reaches one worker. It writes down its own numbers first and then reads everybody's, its own too: so no sum is
    ever smaller than one that another worker told before, which Prometheus would take for a restart.
    """

    def __init__(self, memories: "TenantMemories", meter: Meter, folder: Path | None = None) -> None:
        self.meter = meter
        self.under_way: Callable[[], int] = lambda: 0
        self._memories = memories
        self._folder = folder
        self._name = f"{secrets.token_hex(8)}.json"
        self._writing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: Samples = {}  # what was asked of the store last
        self._asked_at = -_ASK_SECONDS

    def start(self) -> None:
        """Watch the event loop, and tell the other workers."""
        self._tasks.append(asyncio.create_task(self._watch_loop()))
        if self._folder is not None:
            self._tasks.append(asyncio.create_task(self._keep_telling()))

    async def close(self) -> None:
        """Leave behind what was counted, and no gauges."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._write(gauges=False)

    def count_request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """One more request, under labels of which there are few."""
        labels = (method if method in METHODS else OTHER, route or _NO_ROUTE)
        self.meter.time(_REQUEST_SECONDS, labels, seconds)
        self.meter.count(_REQUESTS, (*labels, str(status)))

    async def page(self) -> str:
        """The page, of all workers."""
        await self._write()
        parts = [self._snapshot()] if self._folder is None else await asyncio.to_thread(self._read)
        about = (__version__, platform.python_version(), self._scheme)
        alone: Samples = {
            "octavo_build_info": {about: [1]},
            "octavo_workers": {(): [sum("octavo_store_up" in part for part in parts)]},
            **await self._ask_store(),
        }
        return prometheus_page(_FAMILIES, merge_samples(FAMILIES, [*parts, alone]))

    @property
    def _scheme(self) -> str:
        return self._memories.settings.database.dsn.partition("://")[0].partition("+")[0].lower()

    def _snapshot(self, *, gauges: bool = True) -> Samples:
        meter, assembled = self.meter, self._memories.assembled
        for outcome, count in zip(("hit", "miss"), hits_and_misses(), strict=True):
            meter.set("octavo_cache_requests_total", count, (outcome,))
        meter.set("octavo_cache_bytes", used_bytes())
        meter.set("octavo_http_requests_in_flight", self.under_way())
        meter.set("octavo_store_up", 0 if self._memories.down() else 1)
        if (journal := assembled.journal) is not None:
            status = journal.status()
            for word in ("stored", "queued", "refused"):
                meter.set("octavo_writes_total", getattr(status, word), (word,))
            age = 0.0 if status.oldest_at is None else (now() - status.oldest_at).total_seconds()
            meter.set("octavo_queue_waiting", status.waiting)
            meter.set("octavo_queue_oldest_seconds", max(age, 0.0))
            meter.set("octavo_queue_dead_letters", status.dead)
            meter.set("octavo_queue_bad_lines", status.bad_lines)
            meter.set("octavo_queue_replayed_total", status.replayed)
            meter.set("octavo_queue_buried_total", status.buried)
        if isinstance(assembled.store, Pools) and (pool := assembled.store.pool_use()) is not None:
            meter.set("octavo_pool_connections", pool.busy, ("busy",))
            meter.set("octavo_pool_connections", pool.idle, ("idle",))
            meter.set("octavo_pool_limit", pool.most)
        samples = meter.snapshot()
        return samples if gauges else {name: rows for name, rows in samples.items() if name not in _GAUGES}

    async def _ask_store(self) -> Samples:
        """How far the indexes are behind, which only the store knows; left out while it is away."""
        if (asked_at := time.monotonic()) - self._asked_at < _ASK_SECONDS:
            return self._waiting
        self._asked_at, self._waiting = asked_at, {}
        assembled = self._memories.assembled
        rows: dict[tuple[str, ...], list[float]] = {}
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                if not self._memories.down() and isinstance(assembled.store, IndexesLater):
                    lags = [await assembled.store.lag(collection, _MOST_LAG) for collection in SHAPES]
                    rows["terms",] = [sum(lags)]
                if not self._memories.down() and assembled.indexed is not None:
                    rows["vectors",] = [(await assembled.indexed.status()).waiting]
        except (OctavoError, TimeoutError) as error:
            _log.warning("how far the indexes are behind could not be asked: %s", error)
        self._waiting = {_INDEX: rows} if rows else {}
        return self._waiting

    # --- with the other workers

    async def _write(self, *, gauges: bool = True) -> None:
        if self._folder is None:
            return
        async with self._writing:  # or an older snapshot could be written over a newer one
            rows: _Rows = {name: [*each.items()] for name, each in self._snapshot(gauges=gauges).items()}
            page = [msgspec.json.encode(rows)]
            await asyncio.to_thread(replace_file, self._folder / self._name, page, sync=False)

    def _read(self) -> list[Samples]:
        """What each worker wrote last."""
        parts: list[Samples] = []
        for path in sorted((self._folder or Path()).glob("*.json")):
            rows = _decoder.decode(path.read_bytes())
            ended = time.time() - path.stat().st_mtime > _STALE_SECONDS
            parts.append({name: dict(each) for name, each in rows.items() if not (ended and name in _GAUGES)})
        return parts

    async def _keep_telling(self) -> None:
        while True:
            await self._write()
            await asyncio.sleep(_WRITE_SECONDS)

    async def _watch_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BEAT_SECONDS
            await asyncio.sleep(_BEAT_SECONDS)
            self.meter.time(_LOOP_LAG, (), max(loop.time() - due, 0.0))


async def answer_metrics(metrics: Metrics | None, _: Request) -> Response:
    """The page for Prometheus."""
    if metrics is None:
        return problem(404, "nothing is counted here: telemetry.metrics is false")
    return PlainTextResponse(await metrics.page(), media_type="text/plain; version=0.0.4")
