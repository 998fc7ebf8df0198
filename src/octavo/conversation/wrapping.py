"""Memories around other memories: several as one, and one that is measured, for people and for Prometheus."""

import contextlib
import math
import re
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from octavo.conversation.memories import BaseMemory, log
from octavo.conversation.messages import BaseMessage
from octavo.errors import ConfigError
from octavo.util.metrics import Family, Kind, Meter, Samples, merge_samples, prometheus_page
from octavo.util.user_code import catch_error

LATEST = 100  # operations whose times and sizes are kept, and failures
_FEWEST = 20  # below so many, a 95th percentile says nothing and is 0
_GROWTH = 10  # sizes the growth rate looks back on
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN = ("memory_type", "operation", "le")
_SECONDS = "octavo_memory_operation_seconds"
_FAMILIES: tuple[tuple[str, Kind, str, tuple[str, ...]], ...] = (
    (
        "octavo_memory_operations_total",
        "counter",
        "Calls to a memory, failed ones among them.",
        ("operation",),
    ),
    ("octavo_memory_errors_total", "counter", "Calls to a memory that failed.", ()),
    (_SECONDS, "histogram", "How long loads and saves took.", ("operation",)),
    ("octavo_memory_size_bytes", "gauge", "The text that the latest load gave.", ()),
    ("octavo_memory_size_peak_bytes", "gauge", "The most text that a load gave.", ()),
)

Operation: TypeAlias = Literal["load", "save", "clear"]
M = TypeVar("M", bound=BaseMemory)
T = TypeVar("T")
_SPOKEN: dict[Operation, str] = {"load": "加载", "save": "保存", "clear": "清除"}


def _check_memory(memory: BaseMemory) -> BaseMemory:
    if not hasattr(memory, "memory_variables"):
        raise TypeError(
            f"a memory has memory_variables, load_memory_variables and so on; got {memory!r}"[:300]
        )
    return memory


class Failure(NamedTuple):
    """What a member could not do, why, and when."""

    memory: BaseMemory
    operation: Operation
    error: Exception
    at: float

    def __str__(self) -> str:
        return f"记忆 {type(self.memory).__name__} {_SPOKEN[self.operation]}失败: {self.error}"


class CombinedMemory(BaseMemory):
    """All of these memories, asked and told together.

    A member that fails is passed over: the failure is logged and kept in `failures`, the latest last.
    """

    def __init__(self, memories: Sequence[BaseMemory]) -> None:
        self.memories = memories
        self.failures: deque[Failure] = deque(maxlen=LATEST)
        self._operations = 0  # loads and saves
        self._times: dict[Operation, deque[float]] = {
            "load": deque(maxlen=LATEST),
            "save": deque(maxlen=LATEST),
        }

    @property
    def memories(self) -> list[BaseMemory]:
        """The members; assigning others checks them as at the beginning."""
        return self._memories

    @memories.setter
    def memories(self, memories: Sequence[BaseMemory]) -> None:
        if not isinstance(memories, Iterable):
            raise TypeError(f"memories are a list of memories; got {memories!r}"[:300])
        members = [_check_memory(memory) for memory in memories]
        if not members:
            raise ValueError("至少需要一个记忆组件")
        names = [name for memory in members for name in memory.memory_variables]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise ValueError(f"记忆变量名冲突: {name}")
        self._memories = members

    @property
    def memory_variables(self) -> list[str]:
        """The names of all members, in their order."""
        return [name for memory in self.memories for name in memory.memory_variables]

    def refuse_deadlock(self) -> None:
        """RuntimeError when a member lives on the very event loop that would be blocked."""
        _refuse_deadlock(self.memories)

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What each member holds that is worth telling with these inputs."""
        asked = self._pick_inputs(inputs)
        told = await self._ask_each("load", lambda memory: memory.aload_memory_variables(asked))
        return {name: value for variables in told for name, value in variables.items()}

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Let each member remember the turn."""
        asked = self._pick_inputs(inputs)
        await self._ask_each("save", lambda memory: memory.asave_context(asked, outputs))

    async def aclear(self) -> None:
        """Let each member forget everything."""
        await self._ask_each("clear", lambda memory: memory.aclear())

    def get_memory_by_type(self, memory_type: type[M]) -> M | None:
        """The first member of this type, or None."""
        return next((memory for memory in self.memories if isinstance(memory, memory_type)), None)

    def get_combined_stats(self) -> dict[str, Any]:
        """What was done so far; times and averages are of the latest 100 loads and saves."""
        stats = self._combined_stats
        return {
            **stats,
            "average_load_time": _average(stats["load_times"]),
            "average_save_time": _average(stats["save_times"]),
            "memory_variables": self.memory_variables,
            "failures": [str(failure) for failure in self.failures],
        }

    @property
    def _combined_stats(self) -> dict[str, Any]:
        return {
            "memory_count": len(self.memories),
            "memory_types": [type(memory).__name__ for memory in self.memories],
            "total_operations": self._operations,
            "load_times": list(self._times["load"]),
            "save_times": list(self._times["save"]),
        }

    def _pick_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs without what the members gave: to each, the variables of the others would look like input."""
        given = set(self.memory_variables)
        return {key: value for key, value in inputs.items() if key not in given}

    async def _ask_each(self, operation: Operation, work: Callable[[BaseMemory], Awaitable[T]]) -> list[T]:
        """What each member answers, without those that fail."""
        started = time.perf_counter()
        answers: list[T] = []
        for memory in self.memories:
            with catch_error() as outcome:
                answers.append(await work(memory))
            if outcome.error is not None:
                failure = Failure(memory, operation, outcome.error, time.time())
                self.failures.append(failure)
                log.warning("%s", failure, exc_info=outcome.error)
        if operation in self._times:
            self._times[operation].append(time.perf_counter() - started)
            self._operations += 1
        return answers


class MemoryMetrics(BaseMemory):
    """A memory that measures another: use it in the other's place.

    Whoever calls the memory in another way can report by hand, with `record_load_operation` and its like.
    """

    def __init__(self, memory: BaseMemory, labels: Mapping[str, str] | None = None) -> None:
        self.memory = _check_memory(memory)
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
        self._meter = Meter()
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
        _refuse_deadlock([self.memory])

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the memory answers; the time it took and the size of the answer are recorded."""
        with self._measure("load") as answered:
            answered.update(await self.memory.aload_memory_variables(inputs))
        return answered

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Let the memory remember one turn; the time it took is recorded."""
        with self._measure("save"):
            await self.memory.asave_context(inputs, outputs)

    async def aclear(self) -> None:
        """Let the memory forget everything; what was measured stays."""
        with self._measure("clear"):
            await self.memory.aclear()

    def record_load_operation(self, execution_time: float, memory_size: int) -> None:
        """Count a load that took so many seconds and gave so many bytes."""
        with self._recording:
            self._count("load", execution_time)
            sizes, usage, size_mb = self.metrics["memory_sizes"], self.memory_usage, memory_size / 2**20
            sizes.append(memory_size)
            usage["current_memory_mb"] = size_mb
            usage["peak_memory_mb"] = max(size_mb, usage["peak_memory_mb"])
            recent = list(sizes)[-_GROWTH:]
            if len(recent) >= 2:  # bytes from one load to the next
                usage["memory_growth_rate"] = (recent[-1] - recent[0]) / (len(recent) - 1)

    def record_save_operation(self, execution_time: float) -> None:
        """Count a save that took so many seconds."""
        with self._recording:
            self._count("save", execution_time)

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
                "avg_load_time": _average(load_times),
                "avg_save_time": _average(save_times),
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

    @contextlib.contextmanager
    def _measure(self, operation: Operation) -> Iterator[dict[str, Any]]:
        """Count and time what happens inside, whether or not it succeeds; a load puts its answer into what is yielded."""
        answered: dict[str, Any] = {}
        started = time.perf_counter()
        with catch_error() as outcome:
            yield answered
        seconds = time.perf_counter() - started
        if operation == "load" and outcome.error is None:
            self.record_load_operation(seconds, size_bytes(answered))
            return
        with self._recording:
            self._count(operation, seconds)
        if outcome.error is not None:
            self.record_error(outcome.error)
            raise outcome.error

    def _count(self, operation: Operation, seconds: float) -> None:
        self.metrics[f"{operation}_count"] += 1
        if operation != "clear":
            self.metrics[f"total_{operation}_time"] += seconds
            self.metrics[f"{operation}_times"].append(seconds)
            self._meter.time(_SECONDS, (operation,), seconds)

    def _samples(self) -> Samples:
        """What was measured, under the labels of each family; without those that tell this memory from others."""
        meter, counts = self._meter, self.get_performance_summary()["operation_counts"]
        for operation in ("load", "save", "clear"):
            meter.set("octavo_memory_operations_total", counts[f"{operation}s"], (operation,))
        meter.set("octavo_memory_errors_total", counts["errors"])
        meter.set("octavo_memory_size_bytes", round(self.memory_usage["current_memory_mb"] * 2**20))
        meter.set("octavo_memory_size_peak_bytes", round(self.memory_usage["peak_memory_mb"] * 2**20))
        return meter.snapshot()


def prometheus(measured: Iterable[MemoryMetrics]) -> str:
    """What several memories measured, in Prometheus' text format; their `labels` tell them apart."""
    measured = list(measured)
    own = tuple(dict.fromkeys(name for one in measured for name in one.labels))
    families = {
        name: Family(name, kind, about, (*own, "memory_type", *labels))
        for name, kind, about, labels in _FAMILIES
    }
    parts: list[Samples] = []
    for one in measured:
        whose = (*(str(one.labels.get(name, "")) for name in own), one.memory_type)
        parts.append(
            {
                name: {(*whose, *labels): numbers for labels, numbers in rows.items()}
                for name, rows in one._samples().items()  # noqa: SLF001 - of this module
            }
        )
    return prometheus_page(families.values(), merge_samples(families, parts))


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


def _refuse_deadlock(memories: Iterable[BaseMemory]) -> None:
    for memory in memories:
        if isinstance(memory, BaseMemory):  # one of another library knows of no such danger
            memory.refuse_deadlock()


def _average(times: Sequence[float]) -> float:
    return sum(times) / len(times) if times else 0
