"""A YAML file as text, with the line each key and value stands on; what the text means is not decided here.

YAML's own guesses are not used: `no` is a text where a text is wanted, and false where a switch is wanted.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from octavo.errors import ConfigError
from octavo.util.secrets import shown

_QUOTED = re.compile(r"""(['"])(?!<).{3,}\1""")
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)


class YamlFile:
    """The nodes of one file, with errors that name the line."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self.root: Any = self._compose()

    def pairs(self, node: Any, owner: str) -> Iterator[tuple[str, str, Any]]:
        """What a map holds, with what it merges in: each key, the line it is on, and its node. Nothing holds nothing."""
        if self.is_null(node):
            return
        if not self.is_mapping(node):
            kind = "a list" if node.id == "sequence" else "a single value"
            raise ConfigError(
                f"{self._line(node)}: {owner} must hold keys with values, such as `database:`; got {kind}"
            )
        found: dict[str, tuple[str, Any]] = {}
        for key, held in node.value:
            if key.id != "scalar":
                raise ConfigError(
                    f"{self._line(key)}: a key in {owner} is a list or a map; it must be a name"
                )
            if key.value in found:
                first = found[key.value][0].rpartition(" ")[2]
                raise ConfigError(
                    f"{self._line(key)}: {shown(key.value)!r} stands in {owner} twice, first in line {first}; keep one"
                )
            found[key.value] = (self._line(key), held)
        merged = {}
        if found.pop("<<", None) is not None:
            self._try(lambda yaml: yaml.SafeLoader("").flatten_mapping(node))
            merged = {key.value: (self._line(key), held) for key, held in node.value}
        for name, (line, held) in (merged | found).items():
            yield name, line, held

    def text(self, name: str, node: Any) -> tuple[str, str | list[str] | None]:
        """The line of a value, and its text or texts; None where nothing or null is written."""
        if self.is_mapping(node):
            raise ConfigError(f"{self._line(node)}: {name} takes a value, not keys of its own")
        if node.id == "scalar":
            return self._line(node), self._plain(name, node)
        texts = [self._plain(name, item) if item.id == "scalar" else None for item in node.value]
        known = [text for text in texts if text is not None]
        if len(known) < len(texts):
            raise ConfigError(f"{self._line(node)}: {name} is a list of names; one of them is none")
        return self._line(node), known

    def is_null(self, node: Any) -> bool:
        """Whether nothing is written there."""
        return node is None or (node.id == "scalar" and node.tag == "tag:yaml.org,2002:null")

    def is_mapping(self, node: Any) -> bool:
        """Whether keys are written there."""
        return bool(node.id == "mapping")

    def _plain(self, name: str, node: Any) -> str | None:
        if node.tag not in _TAGS:
            raise ConfigError(
                f"{self._line(node)}: {name} begins with a tag (!); settings take plain values, and a text with ! takes quotes"
            )
        text: str = node.value
        return None if self.is_null(node) else text

    def _line(self, node: Any) -> str:
        return f"{self._path}, line {node.start_mark.line + 1}"

    def _compose(self) -> Any:
        path = Path(self._path)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            raise ConfigError(
                f"there is no settings file at {path} (from {Path.cwd()}); an empty one means all defaults, "
                f"and `python -m octavo.config` prints one with every setting"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"the settings file {path} cannot be read: {error.strerror or error}"
            ) from error
        return self._try(lambda yaml: yaml.compose(raw, Loader=yaml.SafeLoader))

    def _try(self, work: Any) -> Any:
        """What the parser makes of it, or a ConfigError without the line that the parser quotes: a password may be in it."""
        yaml = import_yaml()
        try:
            return work(yaml)
        except yaml.YAMLError as error:
            trouble = self._sentence(error)
        except RecursionError:
            trouble = f"{self._path} is nested too deeply to be a settings file"
        raise ConfigError(trouble)  # out here, so that the parser's own error does not hang on it

    def _sentence(self, error: Any) -> str:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        at = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        parts = [getattr(error, name, None) for name in ("context", "problem", "reason")]
        # A key or password without quotes may begin with * or & or !, and then its rest is what the parser quotes.
        problem = _QUOTED.sub("…", ", ".join(part for part in parts if part) or "it is not YAML")
        cure = "; put quotes around it" if "…" in problem else ""
        cure = "; indent with spaces, not tabs" if "'\\t'" in problem else cure
        return f"{self._path}{at}: not a settings file that can be read: {problem}{cure}"


def import_yaml() -> Any:
    """The package that reads YAML, or the cure when it is missing."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError("a settings file needs PyYAML: pip install 'octavo[service]'") from error
    return yaml
