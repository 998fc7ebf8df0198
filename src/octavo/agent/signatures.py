"""A function's signature as JSON schema for a model, and a model's arguments as values for the function."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from octavo.agent.context import AgentContext
from octavo.agent.docstrings import Described
from octavo.errors import ConfigError

_KINDS = inspect.Parameter


class InvalidArguments(ValueError):  # noqa: N818 - names say what is wrong, not that it is an error
    """Arguments a tool cannot be called with; the model is told, and may try again."""


class Signature:
    """What a function takes: `schema` says it to the model, `bound` checks what the model then gives.

    A parameter annotated `AgentContext` is not the model's to fill: it gets the context of the running conversation.
    """

    def __init__(self, name: str, function: Callable[..., Any], described: Described) -> None:
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

    def _field(self, parameter: inspect.Parameter, described: Described) -> tuple[str, Any, Any]:
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

    def _culprit(self, described: Described, error: TypeError) -> str:
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

    def bound(self, arguments: Any, context: AgentContext) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named values for the function, or InvalidArguments saying what is wrong."""
        if isinstance(arguments, str):
            arguments = parsed(arguments)
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


def parsed(arguments: str) -> Any:
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
