"""Several memories as one: each gives its own variables, and one that fails does not take the others with it."""

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from octavo.conversation.base import BaseMemory, log
from octavo.util.user_code import caught

LATEST = 100  # operations whose times are kept, and failures

Operation: TypeAlias = Literal["load", "save", "clear"]
M = TypeVar("M", bound=BaseMemory)
_SPOKEN: dict[Operation, str] = {"load": "加载", "save": "保存", "clear": "清除"}


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
        self.memories = list(memories)
        self.failures: deque[Failure] = deque(maxlen=LATEST)
        self._operations = 0
        self._load_times: deque[float] = deque(maxlen=LATEST)
        self._save_times: deque[float] = deque(maxlen=LATEST)

    @property
    def memories(self) -> list[BaseMemory]:
        """The members; assigning others checks them as at the beginning."""
        return self._memories

    @memories.setter
    def memories(self, memories: Sequence[BaseMemory]) -> None:
        members = list(memories)
        _validate_members(members)
        self._memories = members

    @property
    def memory_variables(self) -> list[str]:
        """The names of all members, in their order."""
        return [name for memory in self.memories for name in memory.memory_variables]

    def refuse_deadlock(self) -> None:
        """RuntimeError when a member lives on the very event loop that would be blocked."""
        for memory in self.memories:
            if isinstance(memory, BaseMemory):  # one of another library knows of no such danger
                memory.refuse_deadlock()

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What each member holds that is worth telling with these inputs."""
        data: dict[str, Any] = {}
        asked = self._asked(inputs)
        with self._timed(self._load_times):
            for memory in self.memories:
                with self._surviving(memory, "load"):
                    data.update(await memory.aload_memory_variables(asked))
        return data

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Let each member remember the turn."""
        asked = self._asked(inputs)
        with self._timed(self._save_times):
            for memory in self.memories:
                with self._surviving(memory, "save"):
                    await memory.asave_context(asked, outputs)

    async def aclear(self) -> None:
        """Let each member forget everything."""
        for memory in self.memories:
            with self._surviving(memory, "clear"):
                await memory.aclear()

    def get_memory_by_type(self, memory_type: type[M]) -> M | None:
        """The first member of this type, or None."""
        return next((memory for memory in self.memories if isinstance(memory, memory_type)), None)

    def get_combined_stats(self) -> dict[str, Any]:
        """What was done so far; times and averages are of the latest 100 loads and saves."""
        load_times, save_times = list(self._load_times), list(self._save_times)
        return {
            "memory_count": len(self.memories),
            "memory_types": [type(memory).__name__ for memory in self.memories],
            "total_operations": self._operations,
            "load_times": load_times,
            "save_times": save_times,
            "average_load_time": sum(load_times) / len(load_times) if load_times else 0,
            "average_save_time": sum(save_times) / len(save_times) if save_times else 0,
            "memory_variables": self.memory_variables,
            "failures": [str(failure) for failure in self.failures],
        }

    def _asked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs without what the members gave: to each, the variables of the others would look like input."""
        given = set(self.memory_variables)
        return {key: value for key, value in inputs.items() if key not in given}

    @contextlib.contextmanager
    def _timed(self, times: deque[float]) -> Iterator[None]:
        started = time.perf_counter()
        yield
        times.append(time.perf_counter() - started)
        self._operations += 1

    @contextlib.contextmanager
    def _surviving(self, memory: BaseMemory, operation: Operation) -> Iterator[None]:
        with caught() as outcome:
            yield
        if outcome.error is not None:
            failure = Failure(memory, operation, outcome.error, time.time())
            self.failures.append(failure)
            log.warning("%s", failure, exc_info=outcome.error)


def _validate_members(members: Sequence[BaseMemory]) -> None:
    if not members:
        raise ValueError("至少需要一个记忆组件")
    names = [name for memory in members for name in memory.memory_variables]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ValueError(f"记忆变量名冲突: {name}")
