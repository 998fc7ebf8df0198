"""Settings: an option wins over the environment, that over a file, that over the default; what is wrong is refused by name."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from octavo.config.setting import PREFIX, Setting
from octavo.config.settings import SECTIONS, Settings, every_setting
from octavo.config.yaml_file import YamlFile
from octavo.errors import ConfigError
from octavo.util.secrets import shown

URL_VARIABLE = "OCTAVO_URL"
_VARIABLE = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")
_Text = str | list[str] | None  # as a file has it


class Resolved(msgspec.Struct, frozen=True):
    """Settings, and where each of them comes from that is not a default."""

    settings: Settings
    origins: dict[str, str]  # database.dsn → "OCTAVO_URL" or "config/memory.yaml, line 3"

    def origin(self, key: str) -> str:
        """What decided a setting."""
        return self.origins.get(key, "the default")


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
    overrides = _overrides(environ)

    def decide(setting: Setting, origin: str, value: Any) -> None:
        values[setting.section][setting.name] = value
        origins[setting.key] = origin

    for setting, where, text in _in_file(path):
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
    try:
        settings = Settings(**{name: kind(**values[name]) for name, kind in SECTIONS.items()})  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(str(error) if path is None else f"{path}: {error}") from None
    return Resolved(settings, origins)


def _in_file(path: str | Path | None) -> Iterator[tuple[Setting, str, _Text]]:
    """The settings of a file, each with its line and its text; unknown keys are refused."""
    if path is None:
        return
    file, table = YamlFile(path), {setting.key: setting for setting in every_setting()}
    for section, line, held in file.pairs(file.root, "the file"):
        if section not in SECTIONS:
            raise _unknown_key(line, section, list(SECTIONS))
        names = [setting.name for setting in table.values() if setting.section == section]
        if not file.is_null(held) and not file.is_mapping(held):
            raise ConfigError(
                f"{line}: {section} must hold keys with values, one to a line; it has {', '.join(names)}"
            )
        for name, key_line, node in file.pairs(held, section):
            if name not in names:
                raise _unknown_key(key_line, name, names, f" in {section}")
            yield table[f"{section}.{name}"], *file.text(name, node)


def _unknown_key(line: str, name: str, known: list[str], inside: str = "") -> ConfigError:
    # A key that stands in the wrong section, or outside of any, is known elsewhere.
    elsewhere = [had for had in every_setting() if name.lower() in (had.name, had.key)]
    if len(elsewhere) == 1:
        cure = f"did you mean {elsewhere[0].name} in {elsewhere[0].section}?"
    elif near := difflib.get_close_matches(name.lower(), known, 1):
        cure = f"did you mean {near[0]}?"
    else:
        cure = f"known: {', '.join(known)}"
    return ConfigError(f"{line}: unknown key {shown(name)!r}{inside}; {cure}")


def _overrides(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Setting → the variable that overrides it, and its text, which is taken as it is."""
    table = {setting.variable: setting.key for setting in every_setting()}
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        key = table.get(variable.upper())
        if key is None:
            near = difflib.get_close_matches(variable.upper(), table, 1)
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
                f"{URL_VARIABLE} and {variable} name different stores, {shown(url)} and {shown(dsn)}; unset one of them"
            )
    return found


def _read(setting: Setting, line: str, text: _Text, environ: Mapping[str, str]) -> Any:
    where = f"{line}: {setting.key}"
    if isinstance(text, str):
        filled = _fill(setting, text, where, environ)
        # What came from a variable may be a secret that stands in the wrong line: its name says enough.
        return setting.read(filled, where, "" if filled == text else f"what {shown(text)!r} stands for")
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
