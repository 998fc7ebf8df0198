"""Settings from a file and the environment, which wins; whatever is wrong is refused by its name."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from octavo.config.reading import Given, Key, read_sections
from octavo.config.settings import SECTIONS, Settings, every_setting
from octavo.config.values import PREFIX, Setting
from octavo.errors import ConfigError
from octavo.secrets import shown

_NAMED = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")


def load_settings(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file, of OCTAVO__SECTION__KEY variables, which win, and of defaults for all others.

    Without a path there is no file: the variables and the defaults alone. A text `"<NAME>"` in the file, or as part of a
    longer one, is the environment variable NAME.
    """
    values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    table = {setting.key: setting for setting in every_setting()}
    overrides = _overrides(environ)
    if path is not None:
        for setting, given in _chosen(read_sections(path), table):
            if (
                setting.key not in overrides
            ):  # an override cures a bad value, or a variable that is not set here
                values[setting.section][setting.name] = _read(setting, given, environ)
    for key, (variable, text) in overrides.items():
        setting = table[key]
        values[setting.section][setting.name] = setting.read(text, f"the environment variable {variable}")
    try:
        return Settings(**{name: kind(**values[name]) for name, kind in SECTIONS.items()})  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(str(error) if path is None else f"{path}: {error}") from None


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
    return found


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
