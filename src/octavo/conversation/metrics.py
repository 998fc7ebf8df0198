"""How a memory does: every call to it counted and timed, for people and for Prometheus."""

import contextlib
import math
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from octavo.conversation.base import BaseMemory
from octavo.conversation.messages import BaseMessage
from octavo.errors import ConfigError
from octavo.util.user_code import caught

LATEST = 100  # operations whose times and sizes are kept
_FEWEST = 20  # below so many, a 95th percentile says nothing and is 0
_GROWTH = 10  # sizes the growth rate looks back on
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN = ("memory_type", "operation", "quantile")

_FAMILIES = {
    "octavo_memory_operations_total": ("counter", "Calls to a memory, failed ones among them."),
    "octavo_memory_errors_total": ("counter", "Calls to a memory that failed."),
    "octavo_memory_operation_seconds": ("summary", "How long loads and saves took."),
    "octavo_memory_size_bytes": ("gauge", "The text that the latest load gave."),
    "octavo_memory_size_peak_bytes": ("gauge", "The most text that a load gave."),
}


class MemoryMetrics(BaseMemory):
    """A memory that measures another: use it in the other's place.

    Whoever calls the memory in another way can report by hand, with `record_load_operation` and its like.
    """

    def __init__(self, memory: BaseMemory, labels: Mapping[str, str] | None = None) -> None:
        self.memory = memory
        #: What tells this memory from others in `prometheus`, beside its type.
        self.labels = dict(labels or {})
        for name in self.labels:
            if not _LABEL.fullmatch(name) or name in _TAKEN:
                raise ConfigError(
                    f"{name!r} cannot be a label: it is letters, digits and _, and none of {', '.join(_TAKEN)}"
                )
        self.metrics: dict[str, Any] = {
            "load_count": 0,
            "save_count": 0,
            "clear_count": 0,
            "total_load_time": 0.0,
            "total_save_time": 0.0,
            "load_times": deque(maxlen=LATEST),
            "save_times": deque(maxlen=LATEST),
            "memory_sizes": deque(maxlen=LATEST),
            "error_count": 0,
            "last_error": None,
        }
        self.memory_usage = {"peak_memory_mb": 0.0, "current_memory_mb": 0.0, "memory_growth_rate": 0.0}
        self._recording = threading.Lock()  # one memory may be called from several threads

    @property
    def memory_type(self) -> str:
        """The kind of the memory that is measured."""
        return type(self.memory).__name__

    @property
    def memory_variables(self) -> list[str]:
        """The names under which the memory gives what it holds."""
        return self.memory.memory_variables

    def refuse_deadlock(self) -> None:
        """RuntimeError when the memory lives on the very event loop that would be blocked."""
        if isinstance(self.memory, BaseMemory):  # one of another library knows of no such danger
            self.memory.refuse_deadlock()

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the memory answers; the time it took and the size of the answer are recorded."""
        with self._measured("load") as answered:
            answered.update(await self.memory.aload_memory_variables(inputs))
        return answered

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Let the memory remember one turn; the time it took is recorded."""
        with self._measured("save"):
            await self.memory.asave_context(inputs, outputs)

    async def aclear(self) -> None:
        """Let the memory forget everything; what was measured stays."""
        with self._measured("clear"):
            await self.memory.aclear()

    def record_load_operation(self, execution_time: float, memory_size: int) -> None:
        """Count a load that took so many seconds and gave so many bytes."""
        with self._recording:
            self._timed("load", execution_time)
            self.metrics["memory_sizes"].append(memory_size)
            self._update_memory_usage(memory_size)

    def record_save_operation(self, execution_time: float) -> None:
        """Count a save that took so many seconds."""
        with self._recording:
            self._timed("save", execution_time)

    def record_error(self, error: Exception) -> None:
        """Count an error, and keep it as the last one."""
        told = {"type": type(error).__name__, "message": str(error), "timestamp": time.time()}
        with self._recording:
            self.metrics["error_count"] += 1
            self.metrics["last_error"] = told

    def get_performance_summary(self) -> dict[str, Any]:
        """What was measured so far; averages and percentiles are of the latest 100 operations."""
        with self._recording:
            load_times, save_times = list(self.metrics["load_times"]), list(self.metrics["save_times"])
            loads, saves = self.metrics["load_count"], self.metrics["save_count"]
            clears, errors = self.metrics["clear_count"], self.metrics["error_count"]
            usage = dict(self.memory_usage)
        return {
            "memory_type": self.memory_type,
            "operation_counts": {"loads": loads, "saves": saves, "clears": clears, "errors": errors},
            "timing_stats": {
                "avg_load_time": sum(load_times) / len(load_times) if load_times else 0,
                "avg_save_time": sum(save_times) / len(save_times) if save_times else 0,
                "p95_load_time": percentile(load_times, 95) if len(load_times) >= _FEWEST else 0,
                "p95_save_time": percentile(save_times, 95) if len(save_times) >= _FEWEST else 0,
            },
            "memory_usage": usage,
            # An error reported by hand may belong to no operation that was.
            "error_rate": min(1.0, errors / max(loads + saves + clears, 1)),
        }

    def prometheus(self) -> str:
        """The same numbers in Prometheus' text format."""
        return prometheus([self])

    def _update_memory_usage(self, current_size: int) -> None:
        size_mb = current_size / (1024 * 1024)
        self.memory_usage["current_memory_mb"] = size_mb
        self.memory_usage["peak_memory_mb"] = max(size_mb, self.memory_usage["peak_memory_mb"])
        recent = list(self.metrics["memory_sizes"])[-_GROWTH:]
        if len(recent) >= 2:  # bytes from one load to the next
            self.memory_usage["memory_growth_rate"] = (recent[-1] - recent[0]) / (len(recent) - 1)

    @contextlib.contextmanager
    def _measured(self, operation: str) -> Iterator[dict[str, Any]]:
        """Count and time what happens inside, whether or not it succeeds; a load puts its answer into what is yielded."""
        answered: dict[str, Any] = {}
        started = time.perf_counter()
        with caught() as outcome:
            yield answered
        seconds = time.perf_counter() - started
        if operation == "load" and outcome.error is None:
            self.record_load_operation(seconds, size_bytes(answered))
            return
        with self._recording:
            self._timed(operation, seconds)
        if outcome.error is not None:
            self.record_error(outcome.error)
            raise outcome.error

    def _timed(self, operation: str, seconds: float) -> None:
        self.metrics[f"{operation}_count"] += 1
        if operation != "clear":
            self.metrics[f"total_{operation}_time"] += seconds
            self.metrics[f"{operation}_times"].append(seconds)


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest of the values that `percent` of them do not exceed (the nearest rank)."""
    ranked = sorted(values)
    return ranked[max(math.ceil(len(ranked) * percent / 100), 1) - 1]


def size_bytes(value: Any) -> int:
    """The bytes of all text in a value: in messages and documents too, and in what lists and dictionaries hold."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, BaseMessage):
        return size_bytes(value.content)
    if isinstance(value, Mapping):
        return sum(size_bytes(key) + size_bytes(held) for key, held in value.items())
    if isinstance(value, list | tuple | set):
        return sum(map(size_bytes, value))
    text = getattr(value, "page_content", None) or getattr(value, "content", None)
    return size_bytes(text) if isinstance(text, str | list) else 0


def prometheus(measured: Iterable[MemoryMetrics]) -> str:
    """What several memories measured, in Prometheus' text format; their `labels` tell them apart."""
    samples: dict[str, list[str]] = {name: [] for name in _FAMILIES}

    def sample(family: str, value: float, ending: str = "", **labels: str) -> None:
        samples[family].append(f"{family}{ending}{_labels(labels)} {value!r}")

    for one in measured:
        summary = one.get_performance_summary()
        whose = {**one.labels, "memory_type": one.memory_type}
        counts, usage = summary["operation_counts"], summary["memory_usage"]
        for operation in ("load", "save", "clear"):
            sample("octavo_memory_operations_total", counts[f"{operation}s"], **whose, operation=operation)
        for operation in ("load", "save"):
            timed = {**whose, "operation": operation}
            if p95 := summary["timing_stats"][f"p95_{operation}_time"]:
                sample("octavo_memory_operation_seconds", p95, **timed, quantile="0.95")
            total = one.metrics[f"total_{operation}_time"]
            sample("octavo_memory_operation_seconds", total, "_sum", **timed)
            sample("octavo_memory_operation_seconds", counts[f"{operation}s"], "_count", **timed)
        sample("octavo_memory_errors_total", counts["errors"], **whose)
        for family, name in (("size", "current"), ("size_peak", "peak")):
            size = round(usage[f"{name}_memory_mb"] * 1024 * 1024)
            sample(f"octavo_memory_{family}_bytes", size, **whose)
    # All samples of a family stand together, or a scraper refuses the page.
    lines = [
        line
        for name, (kind, help_text) in _FAMILIES.items()
        for line in (f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *samples[name])
    ]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
