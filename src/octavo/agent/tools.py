"""The conversation an agent is in, and its tools: plain Python functions that a model may ask to have called."""

import inspect
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, overload

import msgspec
from msgspec import UNSET, Meta, UnsetType

from octavo.errors import ConfigError, InvalidRecord
from octavo.kernel.codec import MAX_NAME_BYTES, is_name
from octavo.kernel.ids import now
from octavo.util.user_code import call_function

F = TypeVar("F", bound=Callable[..., Any])
_MOST_NAME = 64  # what OpenAI takes
_MARK = "__octavo_tool__"

_GOOGLE = re.compile(r"^(Args|Arguments|Parameters|Params|参数)\s*[:：]\s*$")
_SECTION = re.compile(
    r"^(Returns?|Raises|Yields|Examples?|Notes?|Attributes|Warnings?|See Also|References|Todo|返回|返回值|示例|异常)"
    r"\s*[:：]?\s*$"
)
_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*[:：]\s*(.*)$")
_FIELD = re.compile(r"^:(param|parameter|arg|argument)\s+(?:[^:]+\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_OTHER_FIELD = re.compile(r"^:(returns?|rtype|raises?|type|yields?)\b")
_NUMPY_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")


class AgentContext(msgspec.Struct, kw_only=True):
    """One conversation. `messages` are what the model is shown before the next one, without the system prompt."""

    session_id: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    user_id: str | None = None
    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    created_at: datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        check_name("session_id", self.session_id)
        if self.user_id is not None:
            check_name("user_id", self.user_id)


def check_name(what: str, name: str) -> str:
    """A name that every store can keep, or InvalidRecord: found out here, it does not cost the events of a whole run."""
    if not isinstance(name, str) or not is_name(name):
        raise InvalidRecord(
            f"{what} must be a text of 1 to {MAX_NAME_BYTES} bytes that can be stored; got {name!r:.60}"
        )
    return name


class Docstring(NamedTuple):
    """The words for the model: what the function is for, and what each parameter means."""

    summary: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> Docstring:
    """Read Google's `Args:`, NumPy's underlined `Parameters` and Sphinx's `:param x:`."""
    said: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, item, margin = "", "", 0
    lines = inspect.cleandoc(docstring or "").splitlines()
    for number, line in enumerate(lines):
        words, indent = line.strip(), len(line) - len(line.lstrip())
        below = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if indent == 0 and below and set(below) == {"-"}:
            section, item = "numpy" if words == "Parameters" else "other", ""
        elif indent == 0 and _GOOGLE.match(words):
            section, item, margin = "google", "", 0
        elif indent == 0 and _SECTION.match(words):
            section, item = "other", ""
        elif field := _FIELD.match(words):
            section, item, margin = "sphinx", field[2], indent
            parameters[item] = [field[3]]
        elif _OTHER_FIELD.match(words):
            section, item = "other", ""
        elif section == "":
            said.append(line)
        elif section == "google":
            margin = margin or indent
            if indent == 0 and words:  # the section has ended and prose goes on
                section, item = "", ""
                said.append(line)
            elif indent <= margin and (found := _ITEM.match(words)):
                item = found[1]
                parameters[item] = [found[2]]
            elif item:
                parameters[item].append(words)
        elif section == "numpy":
            if indent == 0 and (found := _NUMPY_ITEM.match(words)):
                item = found[1]
                parameters[item] = []
            elif item and set(words) != {"-"}:
                parameters[item].append(words)
        elif section == "sphinx" and item and indent > margin:
            parameters[item].append(words)
    return Docstring(
        "\n".join(said).strip(),
        {name: " ".join(" ".join(words).split()) for name, words in parameters.items()},
    )


class InvalidArguments(ValueError):  # noqa: N818 - names say what is wrong, not that it is an error
    """Arguments a tool cannot be called with; the model is told, and may try again."""


class Tool:
    """A function as a model sees it: name, description and parameters come from the function itself.

    `parameters` is the JSON schema of its arguments. A parameter annotated `AgentContext` is not the model's to fill: it
    gets the context of the running conversation.
    """

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
        words = getattr(inner, "__doc__", None)
        if not inspect.isroutine(inner):  # an object that can be called: the words of the call, else its own
            words = getattr(type(inner).__call__, "__doc__", None) or words
        described = read_docstring(words)
        self.function = function
        self.name = given
        self.description = description or marked.get("description") or described.summary
        self._read_signature(described)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def spec(self) -> dict[str, Any]:
        """The tool as OpenAI's `tools` parameter spells it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def call(self, arguments: dict[str, Any] | str, context: AgentContext) -> Any:
        """Check the arguments and call the function; one that is not async runs in a thread, beside the event loop."""
        positional, named = self._bind(arguments, context)
        return await call_function(self.function, *positional, **named)

    def _read_signature(self, described: Docstring) -> None:
        try:
            parameters = inspect.signature(self.function, eval_str=True).parameters.values()
        except (TypeError, ValueError, NameError) as error:
            raise ConfigError(f"the signature of tool {self.name!r} cannot be read: {error}") from error
        self._open = any(p.kind is p.VAR_KEYWORD for p in parameters)  # takes **anything
        plain = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        self._context = [p for p in plain if p.annotation is AgentContext]
        self._asked = [p for p in plain if p.annotation is not AgentContext]
        self._ordered = [p for p in plain if p.kind is p.POSITIONAL_ONLY]
        fields = [self._field(parameter, described) for parameter in self._asked]
        try:
            self._struct = msgspec.defstruct(
                "Arguments", fields, kw_only=True, forbid_unknown_fields=not self._open
            )
            self.parameters = self._schema()
        except TypeError as error:
            raise ConfigError(f"tool {self.name!r}: {error}") from error

    def _field(self, parameter: inspect.Parameter, described: Docstring) -> tuple[str, Any, Any]:
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        said = described.parameters.get(parameter.name, "")
        if get_origin(kind) is Annotated:  # Annotated[str, "what it is for"]
            inner, *notes = get_args(kind)
            said = next((note for note in notes if isinstance(note, str)), said)
            metas = [note for note in notes if isinstance(note, Meta)]
            kind = Annotated[(inner, *metas)] if metas else inner
        try:
            msgspec.json.schema(kind)
        except TypeError as error:
            raise ConfigError(
                f"tool {self.name!r}: parameter {parameter.name!r} is annotated {parameter.annotation!r}, which a model "
                "cannot give; take a str, number, list, dict, dataclass or TypedDict instead"
            ) from error
        if said:
            kind = Annotated[kind, Meta(description=said)]
        if parameter.default is parameter.empty:
            return (parameter.name, kind, msgspec.field())
        # What the model leaves out stays out, so that the function's own default holds.
        return (parameter.name, Union[kind, UnsetType], msgspec.field(default=UNSET))  # noqa: UP007 - types made at run time

    def _schema(self) -> dict[str, Any]:
        _, components = msgspec.json.schema_components([self._struct], ref_template="{name}")
        schema = components.pop("Arguments")
        schema.pop("title")
        if not self._open:
            schema["additionalProperties"] = False
        inlined: dict[str, Any] = _inline(schema, components, ())
        for parameter in self._asked:
            if parameter.default is not parameter.empty:
                try:
                    default = msgspec.to_builtins(parameter.default, str_keys=True)
                except TypeError:
                    continue  # the function's own business, such as a marker object
                inlined["properties"][parameter.name].setdefault("default", default)
        return inlined

    def _bind(self, arguments: Any, context: AgentContext) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named values for the function, or InvalidArguments saying what is wrong."""
        if isinstance(arguments, str):
            arguments = parse_arguments(arguments)
        if not isinstance(arguments, dict):
            raise InvalidArguments(f"{self.name}: the arguments must be a JSON object; got {arguments!r:.80}")
        try:
            # Models often write "3" for 3; whatever can be read as the type asked for is taken.
            checked = msgspec.convert(arguments, self._struct, strict=False)
        except (msgspec.ValidationError, TypeError) as error:
            raise InvalidArguments(f"{self.name}: {error}") from error
        values: dict[str, Any] = {
            name: value
            for name in self._struct.__struct_fields__
            if (value := getattr(checked, name)) is not UNSET
        }
        if self._open:
            values |= {key: value for key, value in arguments.items() if key not in values}
        values |= {parameter.name: context for parameter in self._context}
        positional = [values.pop(p.name, p.default) for p in self._ordered]
        return positional, values


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
    if not isinstance(given, Iterable | None):
        raise ConfigError(f"tools are a list of functions; got {given!r}")
    found: dict[str, Tool] = {}
    for one in given.values() if isinstance(given, Mapping) else given or ():
        made = one if isinstance(one, Tool) else Tool(one)
        if made.name in found:
            raise ConfigError(f"two tools are named {made.name!r}; rename one with @tool(name=…)")
        found[made.name] = made
    return found


def result_text(result: Any) -> str:
    """A tool's result as the text that a model is told and a record keeps."""
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result, enc_hook=lambda other: other.model_dump(mode="json")).decode()
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError, UnicodeError):
        return str(result)


def parse_arguments(arguments: str) -> Any:
    """A model's arguments as it wrote them; none at all is an empty object."""
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidArguments(f"the arguments are no JSON ({error}): {arguments[:200]!r}") from error


def _inline(schema: Any, components: dict[str, Any], within: tuple[str, ...]) -> Any:
    """The schema with its references replaced: not every server follows them."""
    if isinstance(schema, list):
        return [_inline(one, components, within) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref")
    if isinstance(name, str) and name in components:
        if name in within:
            raise TypeError(f"{name} refers to itself, which no schema for a model can say")
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline(components[name], components, (*within, name)) | rest
    return {key: _inline(value, components, within) for key, value in schema.items()}
