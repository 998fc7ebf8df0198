"""The settings file that says every default and why: `python -m octavo.config > config/memory.yaml`."""

import json
import textwrap
from typing import Any

from octavo.config.setting import settings_of
from octavo.config.settings import SECTIONS

_HEAD = """\
# The settings of Octavo's memory service. Every setting is here with its default; leave out what you do not change.
# Copied to config/memory.yaml it is found by itself. The environment overrides this file: OCTAVO__DATABASE__DSN stands for
# database.dsn, and so on. "<NAME>" is replaced by the environment variable NAME, so that no password has to stand here.
# Relative paths start at the working directory.
"""


def template() -> str:
    """A settings file with every setting, its default and its reason."""
    lines = [_HEAD]
    for name, section in SECTIONS.items():
        lines.append(f"# {section.about()}\n{name}:")
        for setting in settings_of(section):
            lines += [f"  # {line}" for line in textwrap.wrap(setting.why, 110)]
            lines.append(f"  {setting.name}: {spelled(setting.default)}")
        lines.append("")
    return "\n".join(lines)


def spelled(value: Any) -> str:
    """A value in YAML."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, str) and value:
        return value
    return json.dumps(value)
