"""What all sections of the settings share: their checks, and how they are shown."""

import os
from typing import Any, ClassVar

import msgspec

from octavo.config.values import described

SHOWN_URL = {"secret": "url"}  # shown without its password
SECRET = {"secret": "all"}  # never shown
MOST = 1_000_000_000


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that belong together; wrong values are refused however they came, and secrets are not in its repr."""

    section: ClassVar[str]

    def __post_init__(self) -> None:
        for setting in described(type(self)):
            given = getattr(self, setting.name)
            # A path or a list is as good as a text or a tuple, and better kept as one that nobody can change.
            value = os.fspath(given) if isinstance(given, os.PathLike) else given
            value = tuple(value) if isinstance(value, list) else value
            if setting.path and isinstance(value, str):  # or a folder named ~ would be made
                value = os.path.expanduser(value)  # noqa: PTH111 - the text stays as it was written
            if value is not given:
                msgspec.structs.force_setattr(self, setting.name, value)
            setting.check(value, setting.key)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in shown_section(self).items())
        return f"{type(self).__name__}({inside})"

    def __rich_repr__(self) -> Any:
        yield from shown_section(self).items()


def shown_section(section: Section) -> dict[str, Any]:
    """One section with its secrets replaced by …"""
    return {
        setting.name: setting.shown(getattr(section, setting.name)) for setting in described(type(section))
    }
