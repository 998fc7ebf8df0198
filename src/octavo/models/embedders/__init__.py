"""One spec opens any embedder; nothing is imported until it is asked for."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, UnionType
from typing import Any, get_args
from urllib.parse import parse_qsl

from octavo.errors import ConfigError
from octavo.kernel.ports import Embedder
from octavo.models.embedders.answers import RefusedText
from octavo.models.embedders.cached import Cached
from octavo.models.embedders.fast import FastEmbedder
from octavo.models.embedders.function import FunctionEmbedder
from octavo.models.embedders.openai_compatible import OpenAIEmbedder

__all__ = [
    "SPECS",
    "Cached",
    "FastEmbedder",
    "FunctionEmbedder",
    "OpenAIEmbedder",
    "RefusedText",
    "open_embedder",
]

#: What stands before the colon of a spec → the class it opens.
SPECS: Mapping[str, Callable[..., Embedder]] = MappingProxyType({
    "fastembed": FastEmbedder,
    "openai": OpenAIEmbedder,
})  # fmt: skip

# Not among the known ones: it is for tests, and a misspelt spec must not end there.
_FOR_TESTS = "hash-for-tests"


def open_embedder(spec: Any = None, **options: Any) -> Embedder | None:
    """The embedder a spec names, or None for none; models load on first use.

    A spec is `fastembed:<hub name or folder>` or `openai:<model>`, with options as in a URL (`?threads=2`) or as
    keywords, which win; or a function, with a `name`; or an embedder already, which is returned as it is.
    """
    if spec is None or (isinstance(spec, str) and spec.strip().lower() in ("", "none")):
        _refuse(options, "no embedder")
        return None
    if isinstance(spec, str):
        return _named(spec.strip(), options)
    if isinstance(spec, Embedder) and not isinstance(spec, type):
        _refuse(options, "an embedder that is already open")
        return spec
    if callable(spec) and not isinstance(spec, type):
        options.setdefault("name", getattr(spec, "name", ""))
        return FunctionEmbedder(spec, **_taken(FunctionEmbedder, options, "a function", skip=1))
    raise ConfigError(f"an embedder is opened from a spec or a function, not from {type(spec).__name__}")


def _named(spec: str, options: dict[str, Any]) -> Embedder:
    kind, _, rest = spec.partition(":")
    model, _, asked = rest.partition("?")
    if spec == _FOR_TESTS:
        try:
            made: Callable[..., Embedder] = importlib.import_module("octavo.testing.embedding").HashEmbedder
        except ImportError as error:
            raise ConfigError(f"{_FOR_TESTS} needs: pip install 'octavo[testing]'") from error
        return made(**_taken(made, options, kind))
    if kind not in SPECS:
        # Only what cannot hold a key is shown.
        shown = kind if kind.isprintable() and len(kind) <= 40 else "…"
        known = ", ".join(["none", *(f"{name}:<model>" for name in SPECS)])
        raise ConfigError(f"unknown embedder {shown!r}; known: {known}")
    if not model:
        raise ConfigError(f"the spec {kind!r} names no model; it is {kind}:<model>")
    given: dict[str, Any] = dict(parse_qsl(asked, keep_blank_values=True)) | options
    return SPECS[kind](model, **_taken(SPECS[kind], given, kind, skip=1))


def _taken(made: Any, options: dict[str, Any], kind: str, skip: int = 0) -> dict[str, Any]:
    """The options as the class takes them: those that come as text made into what they stand for."""
    parameters = dict(list(inspect.signature(made).parameters.items())[skip:])
    if unknown := sorted(options.keys() - parameters.keys()):
        raise ConfigError(f"{kind} takes no option {unknown[0]!r}; it takes {', '.join(sorted(parameters))}")
    return {name: _typed(name, value, parameters[name].annotation) for name, value in options.items()}


def _typed(name: str, value: Any, annotation: Any) -> Any:
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    if not isinstance(value, str) or str in kinds:
        return value
    if bool in kinds:
        if value.lower() not in ("true", "false", "1", "0"):
            raise ConfigError(f"{name} is true or false; got {value!r}")
        return value.lower() in ("true", "1")
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(value)
            except ValueError:
                raise ConfigError(f"{name} is a number; got {value!r}") from None
    raise ConfigError(f"{name} cannot be given as text")


def _refuse(options: dict[str, Any], kind: str) -> None:
    if options:
        raise ConfigError(f"{kind} takes no options; got {', '.join(sorted(options))}")
