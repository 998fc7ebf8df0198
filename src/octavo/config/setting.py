"""One setting, and the sections they stand in: what a value may be, how text becomes one, how it may be shown."""

import functools
import json
import os
import re
from typing import Any, get_args, get_type_hints
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Meta
from msgspec import inspect as types

from octavo.errors import ConfigError
from octavo.util.secrets import mask_url

PREFIX = "OCTAVO__"
MOST = 1_000_000_000
FILLED = Meta(min_length=1, pattern=r"\S")  # a text that is not empty
PATH = Meta(min_length=1, pattern=r"\S", extra={"path": "yes"})
URL = Meta(extra={"secret": "url"})  # shown without its password
SECRET = Meta(extra={"secret": "all"})  # never shown

_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_NOTHING = frozenset({"", "null", "none", "~"})


def within(least: float, most: float) -> Meta:
    """A number of at least `least` and at most `most`."""
    return Meta(ge=least, le=most)


def above(bound: float, most: float) -> Meta:
    """A number of more than `bound` and at most `most`."""
    return Meta(gt=bound, le=most)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it is declared."""

    section: str
    name: str
    type: Any  # as annotated: msgspec checks values by it
    kind: types.Type  # the same as msgspec sees it, without null
    optional: bool  # whether null is a value
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
        match self.kind:
            case types.LiteralType():
                words = f"one of {', '.join(get_args(self.type))}"
            case types.BoolType():
                words = "true or false"
            case types.VarTupleType(min_length=least):
                words = "a list of names" + (", not an empty one" if least else "")
            case types.IntType(gt=bound, ge=least, le=most) | types.FloatType(gt=bound, ge=least, le=most):
                number = "a whole number" if isinstance(self.kind, types.IntType) else "a number"
                begin = f"from {least:g} to" if bound is None else f"above {bound:g} and at most"
                words = f"{number} {begin} {most:,.0f}"
            case _:
                words = "text" + (", not empty" if getattr(self.kind, "min_length", None) else "")
        return f"{words}, or null" if self.optional else words

    def shown(self, value: Any) -> Any:
        """The value as anybody may see it."""
        if not self.secret or not isinstance(value, str):
            return list(value) if isinstance(value, tuple) else value
        if self.secret == "all":  # noqa: S105 - the name of a kind of secret
            return "…" if value else ""
        return mask_url(value)

    def read(self, text: str | list[str] | None, where: str, got: str = "") -> Any:
        """The value that a text from a file or a variable stands for; None is YAML's null.

        A refusal says `got` in place of the value, if that is given.
        """
        value: Any = text
        word = text.strip().lower() if isinstance(text, str) else None
        if self.optional and word in _NOTHING:
            value = None
        elif text is not None and isinstance(self.kind, types.VarTupleType):
            parts = text.split(",") if isinstance(text, str) else text
            value = tuple(part.strip() for part in parts if part.strip())
        elif isinstance(text, list):
            raise ConfigError(f"{where} is {self.expected}; got a list")
        elif text is not None and isinstance(self.kind, types.BoolType):
            value = _SWITCHES.get(word or "", text)
        elif text is not None and isinstance(self.kind, types.IntType | types.FloatType):
            try:
                value = int(text) if isinstance(self.kind, types.IntType) else float(text)
            except ValueError:
                value = text  # the check says it better
        self.check(value, where, got)
        return value

    def check(self, value: Any, where: str, got: str = "") -> None:
        """Refuse what this setting cannot be, naming where it came from and, unless it is secret, the value."""
        wrong = isinstance(value, str) and "\0" in value
        try:
            msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            wrong = True
        if wrong:  # raised out here: msgspec's own error must not hang on it
            raise ConfigError(f"{where} is {self.expected}; got {got or self._describe(value)}")

    def _describe(self, value: Any) -> str:
        if value is None:
            return "nothing: give a value or leave the line out"
        if not isinstance(value, (str, int, float, tuple)):
            return f"a {type(value).__name__}"
        if isinstance(value, str) and "\0" in value:
            return "text with a NUL in it"
        told = self.shown(value)
        # A URL may stand in the wrong line, and its password must not be told there either.
        return repr(mask_url(told)[:200] if isinstance(told, str) else told)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that belong together; wrong values are refused however they came, and secrets are not in its repr."""

    @classmethod
    def about(cls) -> str:
        """What the section is about, in one sentence."""
        return (cls.__doc__ or "").partition("\n")[0]

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            given = getattr(self, setting.name)
            # A path or a list is as good as a text or a tuple, and better kept as one that nobody can change.
            value = os.fspath(given) if isinstance(given, os.PathLike) else given
            value = tuple(value) if isinstance(value, list) else value
            if setting.path and isinstance(value, str):  # or a folder named ~ would be made
                value = os.path.expanduser(value)  # noqa: PTH111 - the text stays as it was written
            if value is not given:
                msgspec.structs.force_setattr(self, setting.name, value)
            setting.check(value, setting.key)

    def shown(self) -> dict[str, Any]:
        """The section with its secrets replaced by …"""
        return {each.name: each.shown(getattr(self, each.name)) for each in settings_of(type(self))}

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.shown().items())
        return f"{type(self).__name__}({inside})"

    def __rich_repr__(self) -> Any:
        yield from self.shown().items()


@functools.cache
def settings_of(section: type[Section]) -> tuple[Setting, ...]:
    """The settings of a section, read from its annotations; the text of the section says `name: why` of each."""
    # FailureQueue is failure_queue in a file.
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", section.__name__).lower()
    hints = get_type_hints(section, include_extras=True)
    reasons = dict(line.strip().partition(": ")[::2] for line in (section.__doc__ or "").splitlines())
    return tuple(
        _setting(name, field, hints[field.name], reasons.get(field.name, ""))
        for field in msgspec.structs.fields(section)
    )


def _setting(section: str, field: msgspec.structs.FieldInfo, type_: Any, why: str) -> Setting:
    told = types.type_info(type_)
    extra = (told.extra or {}) if isinstance(told, types.Metadata) else {}
    kind = told.type if isinstance(told, types.Metadata) else told
    kinds = kind.types if isinstance(kind, types.UnionType) else (kind,)
    return Setting(
        section=section,
        name=field.name,
        type=type_,
        kind=next(each for each in kinds if not isinstance(each, types.NoneType)),
        optional=len(kinds) > 1,
        path="path" in extra,
        secret=extra.get("secret", ""),
        why=why,
        default=field.default,
    )


def spell_yaml(value: Any) -> str:
    """A value as YAML has it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, str) and value:
        return value
    return json.dumps(value)


def local_path(dsn: str) -> str | None:
    """Where on this disk an embedded store is, "" for one in memory; None for a server, or what is no URL of ours."""
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return None  # whoever opens it says what is wrong with it
    scheme, path = parts.scheme.partition("+")[0], unquote(parts.path)
    if scheme == "sqlite" and not parts.netloc:
        path = path.removeprefix("/")
        return "" if path == ":memory:" else path
    if scheme == "file":  # `file://relative/folder` too
        return unquote(parts.netloc) + path or None
    return "" if scheme == "memory" else None
