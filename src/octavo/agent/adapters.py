"""Language models as an agent calls them: any OpenAI-compatible endpoint, or a script for tests."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.ids import new_id
from octavo.models.openai_server import OpenAIServer

#: A message as OpenAI's chat endpoint spells it: role, content, and for tools their calls and ids.
Message: TypeAlias = dict[str, Any]


class ModelConfig(msgspec.Struct, kw_only=True, repr_omit_defaults=True):
    """Which model, and how it is asked; what is None is left to the server."""

    model_name: str
    temperature: float | None = None
    max_tokens: int | None = None
    api_key: str | None = None
    base_url: str | None = None
    timeout: float = 60.0
    max_retries: int = 2
    #: Further arguments of the request, as they are.
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.model_name, str) or not self.model_name.strip():
            raise ConfigError(f"model_name must name a model; got {self.model_name!r}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be 1 or more; got {self.max_tokens}")
        if not self.timeout > 0:
            raise ConfigError(f"timeout must be more than 0 seconds; got {self.timeout}")
        if self.max_retries < 0:
            raise ConfigError(f"max_retries must be 0 or more; got {self.max_retries}")

    def __rich_repr__(self) -> Any:
        """What is shown, by repr too: never the key, nor a password in the address."""
        for name in self.__struct_fields__:
            if name == "api_key" and self.api_key:
                yield name, "…"
            elif name == "base_url" and self.base_url and "@" in self.base_url:
                yield name, "…@" + self.base_url.rpartition("@")[2]
            elif name != "extra" or self.extra:
                yield name, getattr(self, name)

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__() if value is not None)
        return f"ModelConfig({', '.join(shown)})"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model's wish to have a tool called; arguments that are no JSON object stay the text they came as."""

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)
    id: str = msgspec.field(default_factory=lambda: new_id("call_"))


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer: words, calls of tools, or both; without calls it is final."""

    content: str = ""
    tool_calls: Sequence[ToolCall] = ()


class ModelAdapter(ABC):
    """A language model behind one method. Subclass it, fill in `complete`, and an agent can use it."""

    def __init__(self, config: ModelConfig | None = None) -> None:
        self.config = config if config is not None else ModelConfig(model_name=type(self).__name__)

    @abstractmethod
    async def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Reply:
        """Answer these messages; `tools` are what may be called, as OpenAI's `tools` parameter spells them."""

    async def close(self) -> None:  # noqa: B027 - nothing to let go of, unless a subclass says so
        """Let go of connections; a second call does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


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
        step: Any = self.script.popleft() if self.script else _repeat
        if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
            raise step
        if callable(step):
            step = step(self.asked[-1])
        return _step_reply(step)


def _step_reply(step: Any) -> Reply:
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


def _repeat(messages: list[Message]) -> str:
    """What is said without a script: the result of a tool, or what the user said."""
    if not messages:
        return "Mock response"
    return f"Mock response to: {messages[-1].get('content') or ''}"


class OpenAIAdapter(ModelAdapter):
    """A model behind an OpenAI-compatible server; the package retries what may pass, and the rest is ModelError.

    Key and address come from OPENAI_API_KEY and OPENAI_BASE_URL where the configuration has none. A client handed in
    is used as it is, and stays open.
    """

    def __init__(self, config: ModelConfig, *, client: Any = None) -> None:
        super().__init__(config)
        self._server = OpenAIServer(
            config.base_url,
            config.api_key,
            timeout=config.timeout,
            max_retries=config.max_retries,
            client=client,
        )

    def __repr__(self) -> str:
        return f"OpenAIAdapter({self.config.model_name!r} at {self._server.where})"  # never the key

    async def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Reply:
        """Ask once; calls of tools come back parsed."""
        choice = await self._server.complete(repr(self), **self._request(messages, tools))
        return _message_reply(choice.message)

    def _request(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        config = self.config
        request: dict[str, Any] = {"model": config.model_name, "messages": list(messages)}
        if tools:  # servers refuse an empty list
            request["tools"] = list(tools)
        if config.temperature is not None:
            request["temperature"] = config.temperature
        if config.max_tokens is not None:
            # OpenAI's newer models refuse the old name; many other servers know no other.
            name = "max_tokens" if self._server.base_url else "max_completion_tokens"
            request[name] = config.max_tokens
        return request | config.extra

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        await self._server.close()


def _message_reply(message: Any) -> Reply:
    calls = [call for call in message.tool_calls or () if getattr(call, "function", None) is not None]
    return Reply(
        content=message.content or getattr(message, "refusal", None) or "",
        tool_calls=[
            ToolCall(
                id=call.id or new_id("call_"),
                name=call.function.name or "",
                arguments=call.function.arguments if call.function.arguments is not None else "",
            )
            for call in calls
        ],
    )
