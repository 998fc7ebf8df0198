"""One setting: what it may be, how text becomes its value, and how its value may be shown."""

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from octavo.errors import ConfigError
from octavo.util.secrets import shown

PREFIX = "OCTAVO__"

_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_NOTHING = frozenset({"", "null", "none", "~"})


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it is declared."""

    section: str
    name: str
    kind: type  # bool, int, float, str or tuple
    optional: bool
    choices: tuple[str, ...]
    at_least: float | None
    above: float | None
    at_most: float | None
    filled: bool  # whether an empty text or list is refused
    path: bool
    secret: str  # "" when it is none, "url" when a password may stand in it, "all"
    why: str
    default: Any

    @property
    def key(self) -> str:
        """Its name in a file, such as database.dsn."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return f"{PREFIX}{self.section}__{self.name}".upper()

    @property
    def expected(self) -> str:
        """What its value may be, in words."""
        if self.choices:
            words = f"one of {', '.join(self.choices)}"
        elif self.kind is bool:
            words = "true or false"
        elif self.kind is tuple:
            words = "a list of names" + (", not an empty one" if self.filled else "")
        elif self.kind is str:
            words = "text" + (", not empty" if self.filled else "")
        else:
            words = ("a whole number" if self.kind is int else "a number") + self._range()
        return f"{words}, or null" if self.optional else words

    def _range(self) -> str:
        most = "" if self.at_most is None else f"{self.at_most:,.0f}"
        if self.above is not None:
            return f" above {self.above:g}" + (f" and at most {most}" if most else "")
        if self.at_least is None:
            return f" of at most {most}" if most else ""
        return f" from {self.at_least:g} to {most}" if most else f" of {self.at_least:g} or more"

    def shown(self, value: Any) -> Any:
        """The value as anybody may see it."""
        if not self.secret or not isinstance(value, str):
            return list(value) if isinstance(value, tuple) else value
        if self.secret == "all":  # noqa: S105 - the name of a kind of secret
            return "…" if value else ""
        return shown(value)

    def read(self, text: str | list[str] | None, where: str, got: str = "") -> Any:
        """The value that a text from a file or a variable stands for; None is YAML's null.

        A refusal says `got` in place of the value, if that is given.
        """
        value: Any = text
        if text is None or (self.optional and isinstance(text, str) and text.strip().lower() in _NOTHING):
            value = None
        elif self.kind is tuple:
            parts = text.split(",") if isinstance(text, str) else text
            value = tuple(part.strip() for part in parts if part.strip())
        elif isinstance(text, list):
            raise ConfigError(f"{where} is {self.expected}; got a list")
        elif self.kind is bool and text.strip().lower() in _SWITCHES:
            value = _SWITCHES[text.strip().lower()]
        elif self.kind in (int, float):
            try:
                value = self.kind(text)
            except ValueError:  # the check below says it better
                value = text
        self.check(value, where, got)
        return value

    def check(self, value: Any, where: str, got: str = "") -> None:
        """Refuse what this setting cannot be, naming where it came from and, unless it is secret, the value."""
        if not (value is None and self.optional) and not self._fits(value):
            raise ConfigError(f"{where} is {self.expected}; got {got or self._named(value)}")

    def _named(self, value: Any) -> str:
        if value is None:
            return "nothing: give a value or leave the line out"
        if not isinstance(value, (str, int, float, tuple)):
            return f"a {type(value).__name__}"
        if isinstance(value, str) and "\0" in value:
            return "text with a NUL in it"
        told = self.shown(value)
        # A URL may stand in the wrong line, and its password must not be told there either.
        return repr(shown(told)[:200] if isinstance(told, str) else told)

    def _fits(self, value: Any) -> bool:
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if self.kind is tuple:
            names = isinstance(value, tuple) and all(isinstance(name, str) for name in value)
            return names and bool(value or not self.filled)
        if self.kind is str:
            return isinstance(value, str) and "\0" not in value and bool(value.strip() or not self.filled)
        if self.kind is bool or isinstance(
            value, bool
        ):  # True is an int to Python, but no number to a reader
            return isinstance(value, bool) and self.kind is bool
        if not isinstance(value, int if self.kind is int else (int, float)):
            return False
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
        )


@functools.cache
def described(section: Any) -> tuple[Setting, ...]:
    """The settings of a section, read from its annotations."""
    hints = get_type_hints(section, include_extras=True)
    return tuple(
        _setting(section.section, field, *get_args(hints[field.name]))
        for field in msgspec.structs.fields(section)
    )


def _setting(section: str, field: msgspec.structs.FieldInfo, kind: Any, *metas: msgspec.Meta) -> Setting:
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    [bare] = [part for part in parts if part is not types.NoneType]
    if get_origin(bare) is Annotated:
        bare, *more = get_args(bare)
        metas = (*metas, *more)

    def told(name: str) -> Any:
        return next((had for meta in metas if (had := getattr(meta, name)) is not None), None)

    literal = get_origin(bare) is Literal
    extra: Mapping[str, str] = told("extra") or {}
    return Setting(
        section=section,
        name=field.name,
        kind=str if literal else get_origin(bare) or bare,
        optional=len(parts) > 1,
        choices=get_args(bare) if literal else (),
        at_least=told("ge"),
        above=told("gt"),
        at_most=told("le"),
        filled=bool(told("min_length")),
        path="path" in extra,
        secret=extra.get("secret", ""),
        why=told("description"),
        default=field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default,
    )
