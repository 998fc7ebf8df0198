"""Spans: named as OpenTelemetry names what is done to memories, nested as the calls are, and without what people said."""

import json
import logging
import time

import msgspec
import pytest
from faults import said
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from octavo import Add, Change, ConfigError, Indexed, Query, Record, Remove, Scope, open_store, open_vectors
from octavo.assemble import assemble
from octavo.config import Settings, Telemetry
from octavo.errors import StoreUnavailable
from octavo.search.recall import Recall
from octavo.testing.embedding import HashEmbedder
from octavo.util import tracing
from octavo.wraps import Journal, Metered, Wrap

LIN = Scope(user="wangxiu", session="s1")
MESSAGES = Query(collection="messages", scope=LIN)


@pytest.fixture
def spans():
    """`spans()` is what was ended since the last time, by name; tracing is off after the test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start_tracing(provider=provider)

    def ended():
        found = list(exporter.get_finished_spans())
        exporter.clear()
        return found

    ended.provider = provider
    yield ended
    tracing.stop_tracing()
    provider.shutdown()


def told(spans):
    """Everything that the spans say."""
    return " ".join(span.to_json() for span in spans)


def log_row():
    return Record(collection="log", kind="update", scope=LIN, text="changed")


WRITES = [
    ([Add([said("a", "x", LIN)])], "create_memory", "messages", 1),
    ([Add([said("a", "x", LIN), said("b", "y", LIN)]), Add([log_row()])], "create_memory", "messages", 3),
    ([Change(query=MESSAGES, mark=("m",)), Add([log_row()])], "update_memory", "messages", 1),
    ([Remove(MESSAGES)], "delete_memory", "messages", 0),
    ([Add([log_row()])], "create_memory", "log", 1),
    ([Remove(MESSAGES), Add([said("c", "z", LIN)])], "upsert_memory", "messages", 1),
    ([Add([said("a", "x", LIN)]), Add([Record(collection="events", text="e")])], "create_memory", "messages,events", 2),
]  # fmt: skip


@pytest.mark.parametrize(("ops", "name", "collections", "count"), WRITES)
async def test_writes_are_named_by_what_they_do(spans, ops, name, collections, count):
    async with Metered(open_store("memory://")) as store:
        await store.apply(ops)
    [span] = spans()
    assert (span.name, span.kind) == (name, SpanKind.INTERNAL)
    assert dict(span.attributes) == {
        "gen_ai.operation.name": name,
        "gen_ai.memory.store.id": collections,
        "gen_ai.memory.record.count": count,
        "octavo.verb": "apply",
    }


async def test_reads_are_spans_too(spans):
    async with Metered(open_store("memory://")) as store:
        await store.apply([Add([said("a", "x", LIN)])])
        spans()
        await store.find(MESSAGES)
        await store.tally(MESSAGES)
        await store.names("messages", "user")
        found = spans()
    assert [span.name for span in found] == ["octavo.store.find", "octavo.store.tally", "octavo.store.names"]
    assert {span.attributes["gen_ai.memory.store.id"] for span in found} == {"messages"}
    assert "wangxiu" not in told(found)


async def test_a_recall_shows_its_stages(spans):
    """One search_memory, and inside it the terms, the vectors, the ranking and the reading, with what each asked of the store."""
    indexed = Indexed(open_store("memory://"), open_vectors("memory://"), HashEmbedder())
    async with Metered(indexed) as store:
        await store.apply([Add([said("a", "the red house", LIN), said("b", "a blue house", LIN)])])
        await indexed.settle(60)
        spans()
        hits = await Recall(store).recall("red house", LIN)
    found = spans()
    by_name = {span.name: span for span in found}
    [search] = [span for span in found if span.name == "search_memory"]
    assert search.parent is None
    assert search.attributes["gen_ai.operation.name"] == "search_memory"
    assert search.attributes["gen_ai.memory.record.count"] == len(hits) == 2
    assert "messages" in search.attributes["gen_ai.memory.store.id"]
    for stage in ("terms", "vectors", "rank", "load"):
        assert by_name[f"octavo.recall.{stage}"].parent.span_id == search.context.span_id
    assert by_name["octavo.store.search"].parent.span_id == by_name["octavo.recall.terms"].context.span_id
    resembling = by_name["octavo.store.resembling"]
    assert resembling.parent.span_id == by_name["octavo.recall.vectors"].context.span_id
    assert {span.context.trace_id for span in found} == {search.context.trace_id}
    for word in ("red", "house", "wangxiu", '"a"'):
        assert word not in told(found)


async def test_contents_are_told_on_request(spans):
    tracing.start_tracing(contents=True, provider=spans.provider)
    async with Metered(open_store("memory://")) as store:
        await store.apply([Add([said("a", "the red house", LIN)])])
        await Recall(store).recall("red?", LIN)
    found = spans()
    [create] = [span for span in found if span.name == "create_memory"]
    assert json.loads(create.attributes["gen_ai.memory.records"]) == [{"id": "a", "content": "the red house"}]
    [search] = [span for span in found if span.name == "search_memory"]
    assert search.attributes["gen_ai.memory.query.text"] == "red?"
    [record] = json.loads(search.attributes["gen_ai.memory.records"])
    assert (record["id"], record["content"], set(record)) == (
        "a",
        "the red house",
        {"id", "content", "score"},
    )


class Away(Wrap):
    """A store that can be taken away."""

    away = True

    async def apply(self, ops):
        if self.away:
            raise StoreUnavailable("secret://password@host is away")
        return await self.inner.apply(ops)


async def test_the_journal_shows_what_it_queues_and_replays(spans, tmp_path):
    """Queued inside the write's span; replayed in a trace of its own, since nobody waits for it."""
    away = Away(open_store("memory://"))
    async with Metered(Journal(away, tmp_path, backoff=(0.01, 0.02), timeout=1)) as store:
        done = await store.write([Add([said("a", "x", LIN)])])
        assert done.status == "queued"
        found = spans()
        [write] = [span for span in found if span.name == "create_memory"]
        [queue] = [span for span in found if span.name == "octavo.journal.queue"]
        assert queue.parent.span_id == write.context.span_id
        assert write.attributes["octavo.write.status"] == "queued"
        away.away = False
        await store.replay_now()
        ends = time.monotonic() + 30
        replays = []
        while not replays and time.monotonic() < ends:
            replays = [span for span in spans() if span.name == "octavo.journal.replay"]
        assert replays[-1].parent is None
        assert replays[-1].attributes["octavo.writes"] == 1


async def test_of_a_failure_the_class_is_told_and_no_word(spans):
    with pytest.raises(StoreUnavailable):
        await Metered(Away(open_store("memory://"))).apply([Add([said("a", "x", LIN)])])
    [span] = spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert span.attributes["error.type"] == "StoreUnavailable"
    assert span.events == ()
    assert "password" not in told([span])


async def test_what_is_nonsense_has_a_span_as_well(spans):
    store = Metered(open_store("memory://"))
    for ops in ("nonsense", [7], [Add(records=[7])], []):
        try:
            await store.apply(ops)
        except Exception:
            logging.getLogger(__name__).debug("refused, as without spans")
    assert [span.name for span in spans()] == ["upsert_memory"] * 4


async def test_the_settings_are_the_switch(monkeypatch):
    """Off unless told; told where the package is missing, it says what to install."""
    assert not tracing.is_tracing()
    assert tracing.span("x") is tracing.span("y")
    assert tracing.current_ids() == {}
    off = assemble(Settings())
    assert not tracing.is_tracing()
    await off.close()
    try:
        on = assemble(Settings(telemetry=Telemetry(metrics=False, traces=True)))
        assert tracing.is_tracing()
        assert (type(on.store), on.meter) == (Metered, None)
        await on.close()
    finally:
        tracing.stop_tracing()
    monkeypatch.setattr("octavo.util.system._is_missing", lambda name: True)
    with pytest.raises(ConfigError, match=r"telemetry.traces needs .*pip install 'octavo\[otel\]'"):
        assemble(msgspec.structs.replace(Settings(), telemetry=Telemetry(traces=True)))
