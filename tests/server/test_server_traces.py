"""Traces of a server: a request goes on with its caller's trace, through recall, store and queue, and the log names it."""

import http.server
import json
import logging
import threading
import time

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from octavo.config import Settings
from octavo.server.problems import JsonLines, Secrets, access_log
from octavo.util import tracing
from running_server import octavo_serves

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start_tracing(provider=provider)
    exporter.provider = provider
    yield exporter
    tracing.stop_tracing()
    provider.shutdown()


def ended(exporter, name):
    """All spans, once there is one of that name: the span of a request ends after its caller was answered."""
    ends = time.monotonic() + 30
    while name not in {span.name for span in exporter.get_finished_spans()} and time.monotonic() < ends:
        time.sleep(0.01)
    return exporter.get_finished_spans()


def of_trace(exporter, name):
    return [span for span in ended(exporter, name) if format(span.context.trace_id, "032x") == TRACE]


def test_a_request_goes_on_with_its_callers_trace(sqlite_server, spans):
    """HTTP, recall and its stages, and the verbs of the store: one trace; no path, no name, no word of it in a span."""
    with sqlite_server().client() as client:
        body = {"content": "drinks green tea", "category": "preference", "memory_layer": "profile"}
        assert client.post("/memory/user/wangxiu", json=body, headers=HEADERS).status_code == 200
        asked = {"query": "tea", "user_id": "wangxiu"}
        assert client.post("/memory/query", json=asked, headers=HEADERS).json()["count"] == 1
    found = of_trace(spans, "POST /memory/query")
    names = {span.name for span in found}
    assert {
        "POST /memory/{memory_type}/{entity_id}",
        "POST /memory/query",
        "create_memory",
        "search_memory",
    } <= names
    assert {"octavo.recall.terms", "octavo.recall.rank", "octavo.recall.load", "octavo.store.search"} <= names
    servers = [span for span in found if span.kind is SpanKind.SERVER]
    assert [format(span.parent.span_id, "016x") for span in servers] == [PARENT, PARENT]
    by_id = {span.context.span_id: span for span in found}
    for span in found:  # each hangs on another of this trace, or on the caller's
        assert span in servers or span.parent.span_id in by_id
    [posted] = [span for span in servers if span.name.endswith("{entity_id}")]
    assert dict(posted.attributes) == {
        "http.request.method": "POST",
        "http.route": "/memory/{memory_type}/{entity_id}",
        "http.response.status_code": 200,
    }
    told = " ".join(span.to_json() for span in found)
    for word in ("wangxiu", "green", "tea"):
        assert f'"{word}' not in told
        assert f"/{word}" not in told


def test_without_a_caller_it_begins_one(sqlite_server, spans):
    """Whatever stands in the header; a path that is no route is not named, nor a method that is none."""
    with sqlite_server().client() as client:
        client.get("/secretname", headers={"traceparent": "nonsense"})
        client.request("BREW", "/secretname")
    servers = [span for span in ended(spans, "_OTHER") if span.kind is SpanKind.SERVER]
    assert [span.name for span in servers] == ["GET", "_OTHER"]
    assert {span.parent for span in servers} == {None}
    assert "secretname" not in " ".join(span.to_json() for span in servers)


def test_some_requests_are_traced(sqlite_server, spans):
    """Of those without a trace the share that is asked for; of the others, those whose callers keep theirs."""
    provider = spans.provider
    tracing.start_tracing(provider=provider, share=0.0)
    with sqlite_server().client() as client:
        for _ in range(3):
            client.post("/memory/query", json={"query": "tea", "user_id": "wangxiu"})
        client.get("/users", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        client.get("/stats", headers=HEADERS)
        found = ended(spans, "GET /stats")
        assert [span.name for span in found if span.kind is SpanKind.SERVER] == ["GET /stats"]
        assert "search_memory" not in {span.name for span in found}
        spans.clear()
        tracing.start_tracing(provider=provider, share=0.5)
        for _ in range(40):
            client.get("/health/live")
        client.get("/stats", headers=HEADERS)
    lived = [span for span in ended(spans, "GET /stats") if span.name == "GET /health/live"]
    assert 5 <= len(lived) <= 35


def test_parts_of_a_batch_hang_on_it(sqlite_server, spans):
    with sqlite_server().client() as client:
        client.post("/batch", json={"requests": [{"path": "/stats"}]}, headers=HEADERS)
    found = {span.name: span for span in of_trace(spans, "POST /batch")}
    part, batch = found["GET /stats"], found["POST /batch"]
    assert (part.kind, part.parent.span_id) == (SpanKind.INTERNAL, batch.context.span_id)


def test_a_failure_of_the_server_is_an_error(sqlite_server, spans):
    server = sqlite_server()

    async def broken(_):
        raise ZeroDivisionError("secretname")

    server.app.state.memories.assembled.store.inner.tally = broken
    with server.client() as client:
        assert client.get("/stats").status_code == 500
    [span] = [span for span in ended(spans, "GET /stats") if span.name == "GET /stats"]
    assert span.status.status_code is StatusCode.ERROR
    assert "secretname" not in span.to_json()


def test_the_log_names_the_trace(sqlite_server, spans):
    """Each line of JSON, of a request and of anything else that happens during one; without a trace there are no such fields."""
    lines, formatter = [], JsonLines(Secrets(Settings()))

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(json.loads(formatter.format(record)))

    handler, level = Kept(), access_log.level
    access_log.addHandler(handler)
    access_log.setLevel(logging.INFO)
    try:
        with sqlite_server().client() as client:
            client.get("/stats", headers=HEADERS)
        ended = time.monotonic() + 30  # the line comes after the answer
        while not lines and time.monotonic() < ended:
            time.sleep(0.01)
    finally:
        access_log.removeHandler(handler)
        access_log.setLevel(level)
    [line] = lines
    [span] = [span for span in of_trace(spans, "GET /stats") if span.name == "GET /stats"]
    assert (line["trace_id"], line["span_id"]) == (TRACE, format(span.context.span_id, "016x"))
    record = logging.LogRecord("octavo.x", logging.WARNING, "", 0, "said", (), None)
    assert "trace_id" not in json.loads(formatter.format(record))
    with tracing.span("here"):
        assert len(json.loads(formatter.format(record))["trace_id"]) == 32


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what an exporter sends."""

    def do_POST(self):
        self.server.got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def test_a_served_process_sends_its_spans(tmp_path):
    """By OTLP, to where the environment says, and the last ones before it ends."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        collector.got = []
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            env = {
                "OCTAVO__TELEMETRY__TRACES": "on",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
                "OTEL_BSP_SCHEDULE_DELAY": "600000",
            }
            with octavo_serves(f"sqlite:///{tmp_path}/a.db", tmp_path, env=env) as url:
                assert httpx.get(f"{url}/stats", headers=HEADERS, trust_env=False).status_code == 200
            lines = [json.loads(line) for line in (tmp_path / "serve.log").read_text().splitlines()]
            assert TRACE in {line.get("trace_id") for line in lines}
        finally:
            collector.shutdown()
            thread.join()
    assert {path for path, _ in collector.got} == {"/v1/traces"}
    sent = b"".join(body for _, body in collector.got)
    assert b"GET /stats" in sent
    assert b"octavo" in sent
    assert bytes.fromhex(TRACE) in sent
