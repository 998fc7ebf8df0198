"""Settings: an option wins over the environment, that over a file, that over the default; what is wrong is refused by name."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from octavo.config.reading import Given, Key, read_sections
from octavo.config.settings import SECTIONS, Settings, every_setting
from octavo.config.values import PREFIX, Setting
from octavo.errors import ConfigError
from octavo.util.secrets import shown

URL_VARIABLE = "OCTAVO_URL"
_NAMED = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")


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
    table = {setting.key: setting for setting in every_setting()}
    overrides = _overrides(environ)
    options = options or {}

    def decide(setting: Setting, origin: str, value: Any) -> None:
        values[setting.section][setting.name] = value
        origins[setting.key] = origin

    if path is not None:
        for setting, given in _chosen(read_sections(path), table):
            # What wins over it cures a bad value, or a variable that is not set here.
            if setting.key not in overrides and setting.key not in options:
                decide(setting, given.where, _read(setting, given, environ))
    for key, (variable, text) in overrides.items():
        if key not in options:
            value = table[key].read(text, f"the environment variable {variable}")
            decide(table[key], variable, value)
    for key, (option, value) in options.items():
        table[key].check(value, option)
        decide(table[key], option, value)
    try:
        settings = Settings(**{name: kind(**values[name]) for name, kind in SECTIONS.items()})  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(str(error) if path is None else f"{path}: {error}") from None
    return Resolved(settings, origins)


def _chosen(
    sections: Mapping[Key, dict[Key, Given] | Given], table: Mapping[str, Setting]
) -> list[tuple[Setting, Given]]:
    chosen = []
    for section, held in sections.items():
        if section.name not in SECTIONS:
            raise _unknown(f"{section.where}: ", section.name, list(SECTIONS), table)
        if isinstance(held, Given):
            keys = ", ".join(setting.name for setting in table.values() if setting.section == section.name)
            raise ConfigError(
                f"{held.where}: {section.name} must hold keys with values, one to a line; it has {keys}"
            )
        for key, given in held.items():
            setting = table.get(f"{section.name}.{key.name}")
            if setting is None:
                names = [known.name for known in table.values() if known.section == section.name]
                raise _unknown(f"{key.where}: ", key.name, names, table, f" in {section.name}")
            chosen.append((setting, given))
    return chosen


def _unknown(
    where: str, name: str, known: list[str], table: Mapping[str, Setting], inside: str = ""
) -> ConfigError:
    # A key that stands in the wrong section, or outside of any, is known elsewhere.
    elsewhere = [had for had in table.values() if name.lower() in (had.name, had.key)]
    if len(elsewhere) == 1:
        cure = f"did you mean {elsewhere[0].name} in {elsewhere[0].section}?"
    elif near := difflib.get_close_matches(name.lower(), known, 1):
        cure = f"did you mean {near[0]}?"
    else:
        cure = f"known: {', '.join(known)}"
    return ConfigError(f"{where}unknown key {shown(name)!r}{inside}; {cure}")


def _overrides(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Setting → the variable that overrides it, and its text, which is taken as it is."""
    table = {setting.variable: setting for setting in every_setting()}
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        setting = table.get(variable.upper())
        if setting is None:
            near = difflib.get_close_matches(variable.upper(), table, 1)
            cure = (
                f"did you mean {near[0]}?"
                if near
                else f"it is {PREFIX}SECTION__KEY, as in OCTAVO__DATABASE__DSN"
            )
            raise ConfigError(f"the environment variable {variable} names no setting; {cure}")
        if setting.key in found:
            raise ConfigError(
                f"{setting.key} is set twice in the environment: {found[setting.key][0]}, {variable}"
            )
        found[setting.key] = (variable, environ[variable])
    return _with_url(found, environ.get(URL_VARIABLE))


def _with_url(found: dict[str, tuple[str, str]], url: str | None) -> dict[str, tuple[str, str]]:
    if not url:
        return found
    variable, dsn = found.get("database.dsn", (URL_VARIABLE, url))
    if dsn != url:  # whichever won, somebody would look for records where none are
        raise ConfigError(
            f"{URL_VARIABLE} and {variable} name different stores, {shown(url)} and {shown(dsn)}; unset one of them"
        )
    return {**found, "database.dsn": (variable, url)}


def _read(setting: Setting, given: Given, environ: Mapping[str, str]) -> Any:
    where = f"{given.where}: {setting.key}"
    written = given.text
    if written is None:
        return setting.read(None, where)
    if isinstance(written, str):
        text = _filled(setting, written, where, environ)
        # What came from a variable may be a secret that stands in the wrong line: its name says enough.
        return setting.read(text, where, "" if text == written else f"what {shown(written)!r} stands for")
    return setting.read([_filled(setting, part, where, environ) for part in written], where)


def _filled(setting: Setting, text: str, where: str, environ: Mapping[str, str]) -> str:
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

    return _NAMED.sub(value, text)
