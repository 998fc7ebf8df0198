"""What an agent needs of a language model: one answer to one list of messages."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.ids import new_id

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
    extra: dict[str, Any] = msgspec.field(
        default_factory=dict
    )  # further arguments of the request, as they are

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
