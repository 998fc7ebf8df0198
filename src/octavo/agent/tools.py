"""Tools: plain Python functions, sync or async, that a model may ask to have called."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from octavo.agent.context import AgentContext
from octavo.agent.signatures import Signature, read_docstring
from octavo.errors import ConfigError
from octavo.util.user_code import called

F = TypeVar("F", bound=Callable[..., Any])
_MOST_NAME = 64  # what OpenAI takes
_MARK = "__octavo_tool__"


class Tool:
    """A function as a model sees it: name, description and parameters come from the function itself."""

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, description: str | None = None
    ) -> None:
        if not callable(function):
            raise ConfigError(f"a tool must be a function; got {function!r}")
        marked: dict[str, str | None] = getattr(function, _MARK, {})
        inner = getattr(function, "func", function)  # functools.partial hides the name and the words
        given = name or marked.get("name") or getattr(inner, "__name__", "")
        if not given or given == "<lambda>" or len(given) > _MOST_NAME or any(c.isspace() for c in given):
            raise ConfigError(
                f"a tool needs a name of at most {_MOST_NAME} characters without spaces; got {given!r} "
                "(give one with @tool(name=…) or Tool(function, name=…))"
            )
        words = read_docstring(
            getattr(inner, "__doc__", None) if inspect.isroutine(inner) else _call_doc(inner)
        )
        self.function = function
        self.name = given
        self.description = description or marked.get("description") or words.summary
        self._signature = Signature(given, function, words)

    @classmethod
    def of(cls, given: Any) -> "Tool":
        """A tool as it is, or the tool a function makes."""
        return given if isinstance(given, Tool) else cls(given)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return self._signature.schema

    @property
    def spec(self) -> dict[str, Any]:
        """The tool as OpenAI's `tools` parameter spells it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def call(self, arguments: dict[str, Any] | str, context: AgentContext) -> Any:
        """Check the arguments and call the function; one that is not async runs in a thread, beside the event loop."""
        positional, named = self._signature.bind(arguments, context)
        return await called(self.function, *positional, **named)


@overload
def tool(function: F) -> F: ...
@overload
def tool(*, name: str | None = None, description: str | None = None) -> Callable[[F], F]: ...
def tool(
    function: F | None = None, *, name: str | None = None, description: str | None = None
) -> F | Callable[[F], F]:
    """Give a function another name or description for the model; it stays the function it was."""

    def mark(function: F) -> F:
        setattr(function, _MARK, {"name": name, "description": description})
        return function

    return mark if function is None else mark(function)


def tools_by_name(given: Any) -> dict[str, Tool]:
    """The tools of an agent, of a list or by their names already; ConfigError when two share a name."""
    found: dict[str, Tool] = {}
    for one in given.values() if isinstance(given, Mapping) else given or ():
        made = Tool.of(one)
        if made.name in found:
            raise ConfigError(f"two tools are named {made.name!r}; rename one with @tool(name=…)")
        found[made.name] = made
    return found


def result_text(result: Any) -> str:
    """A tool's result as the text that a model is told and a record keeps."""
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError):
        return str(result)


def _call_doc(function: Any) -> str | None:
    """The words of an object that can be called: those of the call, else its own."""
    return getattr(type(function).__call__, "__doc__", None) or getattr(function, "__doc__", None)
