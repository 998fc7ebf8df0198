"""A Markdown text and the YAML front matter before it; head + body is the file, letter by letter."""

import functools
import hashlib
import math
import re
from typing import Any

import msgspec

from octavo.errors import ConfigError, InvalidRecord
from octavo.kernel.codec import MAX_DEPTH
from octavo.kernel.text import spell

_OPENS = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSES = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_TRUTH = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_BOM = "\ufeff"
_NOTHING = "---\n---\n"  # a head that says nothing, before a body that would be taken for one
_MOST_HEAD_CHARACTERS = 64 * 1024
_MOST_VALUES = 10_000  # a few aliases in YAML can stand for billions
_DEEPEST = MAX_DEPTH - 4  # a body of a record has other levels around this one


class Content(msgspec.Struct, frozen=True):
    """What a file says: `head` is everything before the body, as it was typed; `front` is its meaning."""

    head: str
    body: str
    front: dict[str, Any]

    @property
    def raw(self) -> bytes:
        return (self.head + self.body).encode()

    @property
    def md5(self) -> str:
        return md5(self.raw)


def md5(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()


def parsed(text: str) -> Content:
    """The text as head and body. What is no front matter (no end, a list, broken YAML) is body, as it stands."""
    opening = _OPENS.match(text)
    closing = _CLOSES.search(text, opening.end()) if opening else None
    if opening and closing and closing.end() <= _MOST_HEAD_CHARACTERS:
        front = _meaning(text[opening.end() : closing.start()])
        if front is not None:
            return Content(text[: closing.end()], text[closing.end() :], front)
    bare = text.startswith(_BOM)
    return Content(_BOM if bare else "", text[bare:], {})


def composed(body: str, front: dict[str, Any] | None, old: Content | None = None) -> Content:
    """A file that says this. A head that still holds is kept as it was typed; `front=None` keeps the old one."""
    if not isinstance(body, str):
        raise InvalidRecord(f"a document's body is text; got {type(body).__name__}")
    try:
        body.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"the text holds half a surrogate pair at {error.start}") from None
    front = (old.front if old else {}) if front is None else _given(front)
    heads = [old.head] if old is not None and spell(old.front) == spell(front) else []
    heads += [_dumped(front)] if front else ["", _NOTHING]
    for head in heads:
        found = parsed(head + body)
        if found.body == body and spell(found.front) == spell(front):
            return found
    raise InvalidRecord(f"this front matter cannot be written as YAML: {spell(front)[:80]}")


def _given(front: dict[str, Any]) -> dict[str, Any]:
    try:
        plain = _plain(msgspec.to_builtins(front, str_keys=True), [0])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(f"front matter must be a dict of plain values: {error}") from None
    if not isinstance(plain, dict):
        raise InvalidRecord(f"front matter must be a dict; got {type(front).__name__}")
    return plain


def _dumped(front: dict[str, Any]) -> str:
    spelled = _yaml().safe_dump(front, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{spelled}---\n"


def _meaning(spelled: str) -> dict[str, Any] | None:
    """What the YAML says, None when it is no mapping of plain values."""
    if not spelled.strip():
        return {}
    yaml = _yaml()
    wrong = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)
    try:
        _check_shape(spelled)
        front = _plain(yaml.load(spelled, Loader=_loader()), [0])
    except (
        yaml.YAMLError,
        *wrong,
    ):  # its constructors let all of these through, given `!!bool x` or `!!int ""`
        return None
    return {} if front is None else front if isinstance(front, dict) else None


def _check_shape(spelled: str) -> None:
    """Refuse what is too deep or too much before it is made: ten thousand open brackets take YAML minutes."""
    yaml = _yaml()
    depth = 0
    for number, event in enumerate(yaml.parse(spelled, Loader=_loader())):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if number > 2 * _MOST_VALUES or depth > _DEEPEST + 1:
            raise ValueError("too many values, or nested too deep")


def _plain(value: Any, seen: list[int], depth: int = 0) -> Any:
    """The value as JSON has it; ValueError when there is no such thing."""
    seen[0] += 1
    if seen[0] > _MOST_VALUES or depth > _DEEPEST:
        raise ValueError("too many values, or nested too deep")
    if isinstance(value, dict):
        return {
            name if isinstance(name, str) else spell(_plain(name, seen, depth + 1)): _plain(
                inner, seen, depth + 1
            )
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(inner, seen, depth + 1) for inner in value]
    if isinstance(value, str):
        value.encode()  # UnicodeEncodeError is a ValueError
        if "\0" in value:
            raise ValueError("it holds a NUL character")
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{value!r:.80} is not a plain value")


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError("front matter needs pyyaml: pip install 'octavo[service]'") from None
    return yaml


@functools.cache
def _loader() -> Any:
    """YAML's safe loader, less clever: a date and a `no` stay the texts that were typed, and `<<` is a key."""
    yaml = _yaml()
    tag = "tag:yaml.org,2002:"
    resolvers = {
        first: [
            (name, _TRUTH if name == f"{tag}bool" else pattern)
            for name, pattern in rules
            if name not in (f"{tag}timestamp", f"{tag}merge", f"{tag}value")  # JSON has no dates
        ]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, where there is one
    # A dict that takes others in twice, forty times over, would be made with 2**40 entries.
    own = {"yaml_implicit_resolvers": resolvers, "flatten_mapping": lambda _self, _node: None}
    return type("PlainLoader", (base,), own)
