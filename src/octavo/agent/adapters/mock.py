"""A language model for tests and demonstrations: it says what its script says, offline."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from octavo.agent.adapters.base import Message, ModelAdapter, ModelConfig, Reply, ToolCall
from octavo.errors import ConfigError

#: One step of a script: an answer, calls of tools, an error to raise, or a function that makes one of these.
Step: TypeAlias = (
    str
    | Reply
    | ToolCall
    | Sequence[ToolCall]
    | BaseException
    | type[BaseException]
    | Callable[[list[Message]], Any]
)


class MockAdapter(ModelAdapter):
    """Answers from a script, one step for each time it is asked; after the last, or without one, it repeats what was said.

    Everything it was asked is kept in `asked` (the messages) and `offered` (the tools).
    """

    def __init__(self, config: ModelConfig | None = None, script: Iterable[Step] = ()) -> None:
        super().__init__(config if config is not None else ModelConfig(model_name="mock"))
        if isinstance(script, str):  # a string is a sequence too: each letter would be an answer
            script = (script,)
        self.script: deque[Step] = deque(script)
        self.asked: list[list[Message]] = []
        self.offered: list[list[dict[str, Any]]] = []

    @staticmethod
    def call(tool_name: str, /, **arguments: Any) -> ToolCall:
        """A step that calls a tool with these arguments."""
        return ToolCall(name=tool_name, arguments=arguments)

    async def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Reply:
        """The next step of the script."""
        self.asked.append([dict(message) for message in messages])
        self.offered.append(list(tools))
        step: Any = self.script.popleft() if self.script else _repeated
        if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
            raise step
        if callable(step):
            step = step(self.asked[-1])
        return _reply(step)


def _reply(step: Any) -> Reply:
    if isinstance(step, Reply):
        return step
    if isinstance(step, str):
        return Reply(content=step)
    if isinstance(step, ToolCall):
        return Reply(tool_calls=(step,))
    if isinstance(step, Sequence) and step and all(isinstance(one, ToolCall) for one in step):
        return Reply(tool_calls=tuple(step))
    raise ConfigError(
        f"a step of the script must be a text, MockAdapter.call(…) or a list of them; got {step!r}"
    )


def _repeated(messages: list[Message]) -> str:
    """What is said without a script: the result of a tool, or what the user said."""
    if not messages:
        return "Mock response"
    return f"Mock response to: {messages[-1].get('content') or ''}"
