"""The options of commands: how each sort is made, and those that several commands take."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from octavo.layers.values import CATEGORIES, DEFAULT_USER, LAYERS

F = TypeVar("F", bound=Callable[..., Any])
CONFIG = Path("config/memory.yaml")
STORE_DEFAULT = "[default: OCTAVO_URL, or database.dsn of the settings, or sqlite:///octavo.db]"
CATEGORY_NAMES = [name for names in CATEGORIES.values() for name in names]
#: In click's context: setting → the option that was given for it, and its value.
OVERRIDES = "octavo.overrides"


def combine(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; `--help` lists them in this order."""

    def apply(command: F) -> F:
        for decorate in reversed(decorators):
            command = decorate(command)
        return command

    return apply


def make(names: str, help_: str, *, setting: str | None = None, **more: Any) -> Callable[[F], F]:
    """An option as click has it; a default is shown. With `setting` it stands for that one, and is read from `Call.settings`."""
    shows = {"show_default": True} if more.get("default") is not None and "is_flag" not in more else {}
    overrides = _overrides(setting) if setting else {}
    return click.option(*names.split(), help=help_, **{**shows, **more, **overrides})


def text(names: str, metavar: str, help_: str, **more: Any) -> Callable[[F], F]:
    """An option that takes a word: `text("--tenant", "NAME", "Whose memory it is.")`."""
    return make(names, help_, metavar=metavar, **more)


def flag(names: str, help_: str, **more: Any) -> Callable[[F], F]:
    """An option that is given or not."""
    return make(names, help_, is_flag=True, **more)


def choice(names: str, values: Iterable[str], help_: str, **more: Any) -> Callable[[F], F]:
    """An option that takes one of these words."""
    return make(names, help_, type=click.Choice([*values]), **more)


def number(names: str, help_: str, least: int, most: int | None = None, **more: Any) -> Callable[[F], F]:
    """An option that takes a whole number."""
    return text(names, "N", help_, type=click.IntRange(least, most), **more)


def limit(default: int, help_: str = "No more than these.", least: int = 0) -> Callable[[F], F]:
    """`--limit`, how many at most."""
    return number("--limit -n", help_, least, default=default)


def _check_asked(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("it is empty; ask something", context, parameter)
    return value


def _overrides(setting: str) -> dict[str, Any]:
    def note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            name = parameter.opts[0] if isinstance(parameter, click.Option) else "URL"
            given = context.meta.setdefault(OVERRIDES, {})
            if setting in given:
                raise click.UsageError(
                    f"{given[setting][0]} and {name} name the same thing; give one of them"
                )
            given[setting] = (name, value)

    return {"callback": note, "expose_value": False}


# --- where, and how

configured = combine(
    text(
        "--config",
        "FILE",
        f"The settings. [default: {CONFIG}, if it is there]",
        type=click.Path(dir_okay=False),
    ),
    flag("--verbose", "Say which settings are not defaults, and what decided."),
)
store = combine(configured, text("--store url", "URL", f"The store. {STORE_DEFAULT}", setting="database.dsn"))
store_or_argument = combine(
    click.argument("named", metavar="[URL]", required=False, **_overrides("database.dsn")), store
)
where = combine(
    store, text("--tenant", "NAME", "Of this tenant. [default: as configured]", setting="service.tenant")
)
yes = flag("--yes -y", "Do not ask.")
resumable = combine(
    text(
        "--state",
        "FILE",
        "Where to keep how far it has come. [default: a file of this command's own]",
        type=click.Path(dir_okay=False, path_type=Path),
    ),
    flag("--restart", "Forget an interrupted run and begin again."),
)
printing = combine(
    flag("--json as_json", "Print one JSON document, for programs."),
    flag("--quiet -q", "Say nothing but errors."),
    flag("--debug", "Show the traceback of an error.", envvar="OCTAVO_DEBUG"),
)

# --- of memories

question = click.argument("question", callback=_check_asked)
owner = combine(
    text("--user user_id", "NAME", f"Whose memory it is. [default: {DEFAULT_USER}, unless --agent is given]"),
    text("--agent agent_id", "NAME", "The agent's own memory; with --user, the user's with this agent."),
)
session = text("--session session_id", "NAME", "Only of this conversation. [default: of all]")
reason = text("--reason", "TEXT", "Why, for the history.")
#: How a moment of the past is said.
AGO = "2026-03-01T12:00, which is local time, or 2h for two hours ago"
as_of = text("--as-of", "WHEN", f"What was known then: {AGO}.")


def layer(help_: str) -> Callable[[F], F]:
    """`--layer`, one of the two."""
    return choice("--layer", LAYERS, help_)


def category(help_: str) -> Callable[[F], F]:
    """`--category`, of either layer."""
    return choice("--category", CATEGORY_NAMES, help_, metavar="NAME")


def collections(help_: str, names: Iterable[str]) -> Callable[[F], F]:
    """`--collection`, any number of them."""
    return choice("--collection collections", names, help_, multiple=True, metavar="NAME")
