"""MemoryMetrics: a memory that measures another, with the documented summary and a page for Prometheus."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo.conversation.memories import BaseMemory
from octavo.conversation.messages import AIMessage
from octavo.conversation.wrapping import MemoryMetrics, percentile, prometheus, size_bytes
from octavo.errors import ConfigError


class Notes(BaseMemory):
    """A memory of one list; it fails when it is told to."""

    def __init__(self):
        self.notes = []
        self.broken = False

    memory_variables = ("notes",)

    def load_memory_variables(self, inputs):
        if self.broken:
            raise OSError("no disk")
        return {"notes": list(self.notes)}

    def save_context(self, inputs, outputs):
        if self.broken:
            raise OSError("no disk")
        self.notes.append(inputs["input"])

    def clear(self):
        self.notes.clear()


async def both(metrics, verb, how, *args):
    return getattr(metrics, verb)(*args) if how == "plain" else await getattr(metrics, f"a{verb}")(*args)


@pytest.mark.parametrize("how", ["plain", "awaited"])
async def test_it_measures_by_itself(how):
    """Loads, saves and clears are counted and timed without a word from the caller, and the answers are the memory's."""
    metrics = MemoryMetrics(Notes())
    await both(metrics, "save_context", how, {"input": "你好"}, {"output": "hi"})
    await both(metrics, "save_context", how, {"input": "more"}, {"output": "hi"})
    assert await both(metrics, "load_memory_variables", how, {}) == {"notes": ["你好", "more"]}
    await both(metrics, "clear", how)
    assert metrics.memory.notes == []
    summary = metrics.get_performance_summary()
    assert summary["memory_type"] == "Notes"
    assert summary["operation_counts"] == {"loads": 1, "saves": 2, "clears": 1, "errors": 0}
    assert summary["timing_stats"]["avg_load_time"] == metrics.metrics["total_load_time"] > 0
    assert summary["timing_stats"]["avg_save_time"] == pytest.approx(metrics.metrics["total_save_time"] / 2)
    size = len("notes你好more".encode())
    assert summary["memory_usage"]["current_memory_mb"] == size / 1024 / 1024


@pytest.mark.parametrize("how", ["plain", "awaited"])
async def test_errors(how):
    """An error reaches the caller, is counted and kept; the rate never exceeds 1."""
    metrics = MemoryMetrics(Notes())
    await both(metrics, "load_memory_variables", how, {})
    metrics.memory.broken = True
    for _ in range(3):
        with pytest.raises(OSError, match="no disk"):
            await both(metrics, "save_context", how, {"input": "x"}, {})
    summary = metrics.get_performance_summary()
    assert summary["operation_counts"] == {"loads": 1, "saves": 3, "clears": 0, "errors": 3}
    assert summary["error_rate"] == 0.75
    last = metrics.metrics["last_error"]
    assert (last["type"], last["message"]) == ("OSError", "no disk")
    for _ in range(9):
        metrics.record_error(ValueError("by hand"))
    assert metrics.get_performance_summary()["error_rate"] == 1


def test_percentiles_are_of_the_nearest_rank():
    assert percentile(range(1, 101), 95) == 95
    assert percentile(range(1, 21), 95) == 19
    assert percentile([3.0], 95) == 3.0
    metrics = MemoryMetrics(Notes())
    for at in range(1, 20):
        metrics.record_load_operation(at, 0)
    assert metrics.get_performance_summary()["timing_stats"]["p95_load_time"] == 0
    metrics.record_load_operation(20, 0)
    assert metrics.get_performance_summary()["timing_stats"]["p95_load_time"] == 19


def test_it_is_bounded_and_counts_on():
    """Of ten thousand operations the latest hundred are kept, and all are counted."""
    metrics = MemoryMetrics(Notes())
    for at in range(10_000):
        metrics.record_load_operation(0.5, at)
        metrics.record_save_operation(0.25)
    assert {len(metrics.metrics[name]) for name in ("load_times", "save_times", "memory_sizes")} == {100}
    assert (metrics.metrics["load_count"], metrics.metrics["total_save_time"]) == (10_000, 2500)
    assert metrics.memory_usage["memory_growth_rate"] == 1  # byte from one load to the next


def test_usage_grows_and_shrinks():
    metrics = MemoryMetrics(Notes())
    for size in (2 * 1024 * 1024, 1024 * 1024):
        metrics.record_load_operation(0.1, size)
    usage = metrics.get_performance_summary()["memory_usage"]
    assert usage == {"peak_memory_mb": 2, "current_memory_mb": 1, "memory_growth_rate": -1024 * 1024}
    usage["peak_memory_mb"] = 0
    assert metrics.memory_usage["peak_memory_mb"] == 2


def test_sizes():
    """Bytes of text, wherever it stands."""
    assert size_bytes({"a": ["你", AIMessage("ok"), 7, None]}) == 1 + 3 + 2


def samples(page):
    """The samples of a page, as Prometheus' own parser reads it."""
    return {
        sample_key(sample.name, **sample.labels): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def sample_key(name, **labels):
    return (name, *sorted(labels.items()))


def test_prometheus():
    """The page has the same numbers, a type for each family, and each family in one piece."""
    one = MemoryMetrics(Notes(), labels={"session": 'a"b\\c\nd'})
    two = MemoryMetrics(Notes(), labels={"session": "two"})
    for _ in range(20):
        one.record_load_operation(0.5, 1000)
    one.record_error(OSError("x"))
    page = prometheus([one, two])
    assert page.endswith("\n")
    found = samples(page)
    first = {"session": 'a"b\\c\nd', "memory_type": "Notes"}
    loads = {**first, "operation": "load"}
    assert found[sample_key("octavo_memory_operations_total", **loads)] == 20
    assert found[sample_key("octavo_memory_operation_seconds_sum", **loads)] == 10
    assert found[sample_key("octavo_memory_operation_seconds_count", **loads)] == 20
    assert found[sample_key("octavo_memory_operation_seconds_bucket", **loads, le="0.25")] == 0
    assert found[sample_key("octavo_memory_operation_seconds_bucket", **loads, le="0.5")] == 20
    assert found[sample_key("octavo_memory_errors_total", **first)] == 1
    assert found[sample_key("octavo_memory_size_bytes", **first)] == 1000
    assert found[sample_key("octavo_memory_errors_total", session="two", memory_type="Notes")] == 0
    typed = re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE)
    assert len(typed) == len({name for name, _ in typed}) == 5
    families = [
        re.sub(r"_(sum|count|bucket)$", "", line.partition("{")[0])
        for line in page.splitlines()
        if line[0] != "#"
    ]
    assert list(dict.fromkeys(families)) == [name for name, _ in typed]
    runs = [name for at, name in enumerate(families) if at == 0 or families[at - 1] != name]
    assert len(runs) == len(set(runs))
    assert one.prometheus() == prometheus([one])
    families = {family.name: family.type for family in text_string_to_metric_families(page)}
    assert families["octavo_memory_operation_seconds"] == "histogram"
    assert families["octavo_memory_operations"] == "counter"


def test_memories_with_the_same_labels_are_one():
    """Or the page would have a line twice, and be refused."""
    pair = [MemoryMetrics(Notes()), MemoryMetrics(Notes())]
    for metrics in pair:
        metrics.record_save_operation(0.01)
    found = samples(prometheus(pair))
    saves = {"memory_type": "Notes", "operation": "save"}
    assert found[sample_key("octavo_memory_operations_total", **saves)] == 2
    assert found[sample_key("octavo_memory_operation_seconds_count", **saves)] == 2


@pytest.mark.parametrize("name", ["memory_type", "operation", "le", "two words", "__own", "1st", ""])
def test_labels_that_cannot_be(name):
    with pytest.raises(ConfigError, match="cannot be a label"):
        MemoryMetrics(Notes(), labels={name: "x"})
