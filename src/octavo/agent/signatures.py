"""A function as a model sees it: what its docstring and its signature say, and a model's arguments as values for it."""

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from octavo.agent.context import AgentContext
from octavo.errors import ConfigError

_GOOGLE = re.compile(r"^(Args|Arguments|Parameters|Params|参数)\s*[:：]\s*$")
_SECTION = re.compile(
    r"^(Returns?|Raises|Yields|Examples?|Notes?|Attributes|Warnings?|See Also|References|Todo|返回|返回值|示例|异常)"
    r"\s*[:：]?\s*$"
)
_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*[:：]\s*(.*)$")
_FIELD = re.compile(r"^:(param|parameter|arg|argument)\s+(?:[^:]+\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_OTHER_FIELD = re.compile(r"^:(returns?|rtype|raises?|type|yields?)\b")
_NUMPY_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")


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


_KINDS = inspect.Parameter


class InvalidArguments(ValueError):  # noqa: N818 - names say what is wrong, not that it is an error
    """Arguments a tool cannot be called with; the model is told, and may try again."""


class Signature:
    """What a function takes: `schema` says it to the model, `bound` checks what the model then gives.

    A parameter annotated `AgentContext` is not the model's to fill: it gets the context of the running conversation.
    """

    def __init__(self, name: str, function: Callable[..., Any], described: Docstring) -> None:
        try:
            parameters = inspect.signature(function, eval_str=True).parameters.values()
        except (TypeError, ValueError, NameError) as error:
            raise ConfigError(f"the signature of tool {name!r} cannot be read: {error}") from error
        self._name = name
        self._asked: list[inspect.Parameter] = []
        self._context: list[inspect.Parameter] = []
        self._open = False  # takes **anything
        for parameter in parameters:
            if parameter.kind is _KINDS.VAR_KEYWORD:
                self._open = True
            elif parameter.annotation is AgentContext:
                self._context.append(parameter)
            elif parameter.kind is not _KINDS.VAR_POSITIONAL:
                self._asked.append(parameter)
        self._ordered = [p for p in parameters if p.kind is _KINDS.POSITIONAL_ONLY]
        fields = [self._field(parameter, described) for parameter in self._asked]
        try:
            self._struct = msgspec.defstruct(
                "Arguments", fields, kw_only=True, forbid_unknown_fields=not self._open
            )
            self.schema = self._spelled()
        except TypeError as error:
            raise ConfigError(f"tool {name!r}: {self._culprit(described, error)}") from error

    def _field(self, parameter: inspect.Parameter, described: Docstring) -> tuple[str, Any, Any]:
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        said = described.parameters.get(parameter.name, "")
        if get_origin(kind) is Annotated:  # Annotated[str, "what it is for"]
            inner, *notes = get_args(kind)
            said = next((note for note in notes if isinstance(note, str)), said)
            metas = [note for note in notes if isinstance(note, Meta)]
            kind = Annotated[(inner, *metas)] if metas else inner
        if said:
            kind = Annotated[kind, Meta(description=said)]
        if parameter.default is parameter.empty:
            return (parameter.name, kind, msgspec.field())
        # What the model leaves out stays out, so that the function's own default holds.
        return (parameter.name, Union[kind, UnsetType], msgspec.field(default=UNSET))  # noqa: UP007 - types made at run time

    def _spelled(self) -> dict[str, Any]:
        _, components = msgspec.json.schema_components([self._struct], ref_template="{name}")
        schema = components.pop("Arguments")
        schema.pop("title")
        if not self._open:
            schema["additionalProperties"] = False
        inlined: dict[str, Any] = _inlined(schema, components, ())
        for parameter in self._asked:
            if parameter.default is not parameter.empty:
                try:
                    default = msgspec.to_builtins(parameter.default, str_keys=True)
                except TypeError:
                    continue  # the function's own business, such as a marker object
                inlined["properties"][parameter.name].setdefault("default", default)
        return inlined

    def _culprit(self, described: Docstring, error: TypeError) -> str:
        """The first parameter that has no JSON form by itself."""
        for parameter in self._asked:
            name, kind, _ = self._field(parameter, described)
            try:
                msgspec.json.schema(kind)
            except TypeError:
                return (
                    f"parameter {name!r} is annotated {parameter.annotation!r}, which a model cannot give; "
                    "take a str, number, list, dict, dataclass or TypedDict instead"
                )
        return str(error)

    def bind(self, arguments: Any, context: AgentContext) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named values for the function, or InvalidArguments saying what is wrong."""
        if isinstance(arguments, str):
            arguments = parse_arguments(arguments)
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                f"{self._name}: the arguments must be a JSON object; got {arguments!r:.80}"
            )
        try:
            # Models often write "3" for 3; whatever can be read as the type asked for is taken.
            checked = msgspec.convert(arguments, self._struct, strict=False)
        except (msgspec.ValidationError, TypeError) as error:
            raise InvalidArguments(f"{self._name}: {error}") from error
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


def parse_arguments(arguments: str) -> Any:
    """A model's arguments as it wrote them; none at all is an empty object."""
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidArguments(f"the arguments are no JSON ({error}): {arguments[:200]!r}") from error


def _inlined(schema: Any, components: dict[str, Any], within: tuple[str, ...]) -> Any:
    """The schema with its references replaced: not every server follows them."""
    if isinstance(schema, list):
        return [_inlined(one, components, within) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref")
    if isinstance(name, str) and name in components:
        if name in within:
            raise TypeError(f"{name} refers to itself, which no schema for a model can say")
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined(components[name], components, (*within, name)) | rest
    return {key: _inlined(value, components, within) for key, value in schema.items()}
