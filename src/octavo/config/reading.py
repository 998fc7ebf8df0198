"""A settings file as text by section and key, with the line each stands on; what the text means is not decided here.

YAML's own guesses are not used: `no` is a text where a text is wanted, and false where a switch is wanted.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from octavo.errors import ConfigError
from octavo.util.secrets import shown

_QUOTED = re.compile(r"""(['"])(?!<).{3,}\1""")
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_PLAIN = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)


class Given(msgspec.Struct, frozen=True):
    """A value as it was written, and where."""

    text: str | list[str] | None
    where: str  # "config/memory.yaml, line 3"


class Key(msgspec.Struct, frozen=True):
    """A key as it was written, and where."""

    name: str
    where: str


def read_sections(path: str | Path) -> dict[Key, dict[Key, Given] | Given]:
    """What the file says. A section that is empty says nothing; a file that is empty says nothing at all."""
    import_yaml()
    root = _composed(Path(path))
    if root is None or _null(root):
        return {}
    file = _File(str(path))
    found: dict[Key, dict[Key, Given] | Given] = {}
    for key, node in file.pairs(root, "the file"):
        if _kind(node) == "mapping":
            found[key] = {inner: file.value(inner, held) for inner, held in file.pairs(node, key.name)}
        elif _null(node):
            found[key] = {}
        else:
            found[key] = file.value(key, node)
    return found


def import_yaml() -> Any:
    """The package that reads YAML, or the cure when it is missing."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError("a settings file needs PyYAML: pip install 'octavo[service]'") from error
    return yaml


def _composed(path: Path) -> Any:
    yaml = import_yaml()
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"there is no settings file at {path} (from {Path.cwd()}); an empty one means all defaults, "
            f"and `python -m octavo.config` prints one with every setting"
        ) from None
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror or error}") from error
    try:
        return yaml.compose(raw, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        trouble = _told(path, error)
    except RecursionError:
        trouble = f"{path} is nested too deeply to be a settings file"
    # Raised out here: the parser's own error quotes the line, and there may be a password in it.
    raise ConfigError(trouble)


def _told(path: Path, error: Any) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    told = [getattr(error, name, None) for name in ("context", "problem", "reason")]
    # A key or password without quotes may begin with * or & or !, and then its rest is what the parser quotes.
    problem = _QUOTED.sub("…", ", ".join(part for part in told if part) or "it is not YAML")
    cure = "; put quotes around it" if "…" in problem else ""
    cure = "; indent with spaces, not tabs" if "'\\t'" in problem else cure
    return f"{path}{at}: not a settings file that can be read: {problem}{cure}"


class _File:
    """The nodes of one file, with errors that name the place."""

    def __init__(self, path: str) -> None:
        self._path = path

    def where(self, node: Any) -> str:
        return f"{self._path}, line {node.start_mark.line + 1}"

    def pairs(self, node: Any, owner: str, within: tuple[Any, ...] = ()) -> list[tuple[Key, Any]]:
        """What a mapping holds, with what it merges in from anchors; a key that stands there twice is refused."""
        if _kind(node) != "mapping":
            raise ConfigError(
                f"{self.where(node)}: {owner} must hold keys with values, such as `database:`; got "
                f"{'a list' if _kind(node) == 'sequence' else 'a single value'}"
            )
        merged: dict[str, tuple[Key, Any]] = {}
        own: dict[str, tuple[Key, Any]] = {}
        for named, held in node.value:
            if _kind(named) != "scalar":
                raise ConfigError(
                    f"{self.where(named)}: a key in {owner} is a list or a map; it must be a name"
                )
            if named.tag == _MERGE:
                for pair in self._merged(named, held, (*within, node)):
                    merged.setdefault(pair[0].name, pair)
                continue
            if named.value in own:
                first = own[named.value][0].where.rpartition(" ")[2]
                raise ConfigError(
                    f"{self.where(named)}: {shown(named.value)!r} stands in {owner} twice, first in line {first}; keep one"
                )
            own[named.value] = (Key(named.value, self.where(named)), held)
        return list((merged | own).values())

    def _merged(self, named: Any, held: Any, within: tuple[Any, ...]) -> Iterator[tuple[Key, Any]]:
        for source in held.value if _kind(held) == "sequence" else [held]:
            # An anchor may stand around its own alias, and would be merged into itself for ever.
            if _kind(source) != "mapping" or any(source is outer for outer in within):
                raise ConfigError(f"{self.where(named)}: << takes the alias of another map")
            yield from self.pairs(source, "<<", within)

    def value(self, key: Key, node: Any) -> Given:
        if _kind(node) == "mapping":
            raise ConfigError(f"{self.where(node)}: {key.name} takes a value, not keys of its own")
        if _kind(node) == "scalar":
            return Given(self._text(key, node), self.where(node))
        texts = []
        for item in node.value:
            text = self._text(key, item) if _kind(item) == "scalar" else None
            if text is None:
                raise ConfigError(f"{self.where(item)}: {key.name} is a list of names; one of them is none")
            texts.append(text)
        return Given(texts, self.where(node))

    def _text(self, key: Key, node: Any) -> str | None:
        if node.tag not in _PLAIN:
            raise ConfigError(
                f"{self.where(node)}: {key.name} begins with a tag (!); settings take plain values, and a text with ! takes quotes"
            )
        text: str = node.value
        return None if _null(node) else text


def _kind(node: Any) -> str:
    return str(node.id)


def _null(node: Any) -> bool:
    return _kind(node) == "scalar" and node.tag == _NULL
