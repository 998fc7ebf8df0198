"""What counting and tracing cost a request: the same requests to one process with neither, with numbers, and with both.

The application is called as uvicorn calls it, without a network, and the time of the processor is measured, in which neither
the disk nor other programs are waited for: so nothing hides the cost. What is added is taken from the thread of the event loop,
and compared with what a request takes of all threads. The ways take turns request by request, and medians are shown. What a span costs depends on whether its trace is kept: "one of ten" is nine parts of those that are not and one
part of those that are. The exporter sends nothing: that is the work of a thread of its own.
"""

import asyncio
import contextlib
import gc
import json
import random
import statistics
from pathlib import Path
from time import process_time, thread_time

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.places import Places
from octavo.config import Database, FailureQueue, Settings, Telemetry
from octavo.server import create_app
from octavo.util import tracing

FULL, QUICK = 600, 3  # requests of each kind
#: What is switched on, and the part of the traces that is kept.
WAYS = {
    "neither": (Telemetry(metrics=False), None),
    "metrics": (Telemetry(), None),
    "not kept": (Telemetry(), 0.0),
    "kept": (Telemetry(), 1.0),
}
_BODY = {"content": "The user likes green tea and works in Hamburg.", "memory_layer": "event"}
#: Each kind of request, as it is shown: its method, path and body; `{n}` is a number of its own.
REQUESTS = {
    "POST direct": ("POST", "/memory/user/u{n}", _BODY),
    "GET 20 memories": ("GET", "/memory/user/lin/events?limit=20", None),
    "POST query": ("POST", "/memory/query", {"query": "Where does the user work?", "user_id": "lin"}),
}


class _Nowhere(SpanExporter):
    """Takes spans as a collector would, at no cost of its own."""

    def export(self, spans):  # noqa: ARG002 - as it is called
        return SpanExportResult.SUCCESS


async def measured(places: Places, requests: int) -> str:
    """The table."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    tracing.start_tracing(provider=provider)
    tracer = tracing._tracer  # noqa: SLF001 - the switch looks for packages, which would be felt by the request after it
    times: dict[tuple[str, str], list[float]] = {}
    turns = random.Random(1)
    async with contextlib.AsyncExitStack() as stack:
        apps = {
            way: await stack.enter_async_context(running(places.path(), told))
            for way, (told, _) in WAYS.items()
        }
        gc.collect()
        gc.freeze()
        for kind, request in REQUESTS.items():
            for number in range(requests):
                for way in turns.sample([*WAYS], len(WAYS)):
                    share = WAYS[way][1]
                    tracing._tracer, tracing._share = (None if share is None else tracer), share  # noqa: SLF001
                    began, began_all = thread_time(), process_time()
                    await ask(apps[way], *request, number)
                    times.setdefault((kind, way), []).append(thread_time() - began)
                    times.setdefault((kind, "whole"), []).append(process_time() - began_all)
    tracing.stop_tracing()
    provider.shutdown()
    return _table(times)


def _table(times: dict[tuple[str, str], list[float]]) -> str:
    lines = [
        "| request | takes | metrics add | with traces, one of ten | with traces, all |",
        "|---|---|---|---|---|",
    ]
    for kind in REQUESTS:
        plain, metrics, unkept, kept = (statistics.median(times[kind, way]) for way in WAYS)
        whole = statistics.median(times[kind, "whole"])
        cells = [f"{whole * 1e6:.0f} µs"]
        more = (one - plain for one in (metrics, 0.9 * unkept + 0.1 * kept, kept))
        cells += [f"{one * 1e6:+.0f} µs ({one / whole * 100:+.1f} %)" for one in more]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


@contextlib.asynccontextmanager
async def running(folder: Path, telemetry: Telemetry):
    folder.mkdir(parents=True, exist_ok=True)
    app = create_app(
        Settings(
            database=Database(dsn=f"sqlite:///{folder}/octavo.db"),
            failure_queue=FailureQueue(directory=str(folder / "queue")),
            telemetry=telemetry,
        )
    )
    async with app.router.lifespan_context(app):
        for number in range(40):
            await ask(
                app, "POST", "/memory/user/lin", {**_BODY, "content": f"{number}: {_BODY['content']}"}, number
            )
        yield app


async def ask(app, method: str, path: str, body: dict | None, number: int) -> None:
    path, _, query = path.format(n=number).partition("?")
    sent = b"" if body is None else json.dumps(body).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1:8000"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(sent)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    waiting = [{"type": "http.request", "body": sent, "more_body": False}]
    statuses = []

    async def receive():
        if waiting:
            return waiting.pop()
        return await asyncio.Future()  # the caller stays

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    assert statuses == [200], (method, path, statuses)
