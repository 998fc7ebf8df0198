"""What every command shares: its options, the settings it works by, its errors and its exit status."""

import asyncio
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import click
import msgspec

from octavo.cli.output import Output, several
from octavo.errors import ConfigError, OctavoError
from octavo.events.retention import age, before
from octavo.kernel.ids import now
from octavo.kernel.model import utc
from octavo.kernel.text import spell
from octavo.util.file_modes import make_folder, share_with_group
from octavo.util.secrets import shown

if TYPE_CHECKING:
    from octavo.config import Resolved, Settings

F = TypeVar("F", bound=Callable[..., Any])
CONFIG = Path("config/memory.yaml")
STORE_DEFAULT = "[default: OCTAVO_URL, or database.dsn of the settings]"
_OVERRIDES = (
    "octavo.overrides"  # in click's context: setting → the option that was given for it, and its value
)


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; `--help` lists them in this order."""

    def apply(command: F) -> F:
        for decorate in reversed(decorators):
            command = decorate(command)
        return command

    return apply


def text(names: str, metavar: str, help_: str, **more: Any) -> Callable[[F], F]:
    """An option that takes a word: `text("--tenant", "NAME", "Whose memory it is.")`."""
    return click.option(*names.split(), metavar=metavar, help=help_, **more)


def flag(names: str, help_: str, **more: Any) -> Callable[[F], F]:
    """An option that is given or not."""
    return click.option(*names.split(), is_flag=True, help=help_, **more)


def limit(default: int, help_: str = "No more than these.") -> Callable[[F], F]:
    """`--limit`, how many at most."""
    at_least_none = click.IntRange(min=0)
    return text("--limit -n", "N", help_, type=at_least_none, default=default, show_default=True)


def override(setting: str) -> dict[str, Any]:
    """What makes an option or argument stand for a setting; the command reads it from `Call.settings`."""

    def note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            name = parameter.opts[0] if isinstance(parameter, click.Option) else "URL"
            context.meta.setdefault(_OVERRIDES, {})[setting] = (name, value)

    return {"callback": note, "expose_value": False}


configured = options(
    click.option(
        "--config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help=f"The settings. [default: {CONFIG}, if it is there]",
    ),
    flag("--verbose", "Say which settings are not defaults, and what decided."),
)
store_option = options(
    configured, text("--store url", "URL", f"The store. {STORE_DEFAULT}", **override("database.dsn"))
)
store_argument = options(click.argument("url", required=False, **override("database.dsn")))
resumable = options(
    text(
        "--state",
        "FILE",
        "Where to keep how far it has come. [default: a file of this command's own]",
        type=click.Path(dir_okay=False, path_type=Path),
    ),
    flag("--restart", "Forget an interrupted run and begin again."),
)
_printing = options(
    flag("--json as_json", "Print one JSON document, for programs."),
    flag("--quiet -q", "Say nothing but errors."),
    flag("--debug", "Show the traceback of an error.", envvar="OCTAVO_DEBUG"),
)


class Call(Output):
    """One call of a command: what it prints, and the settings it works by."""

    def __init__(self, context: click.Context, given: dict[str, Any]) -> None:
        super().__init__(
            command=" ".join(context.command_path.split()[1:]),
            json=given.pop("as_json"),
            quiet=given.pop("quiet"),
            debug=given.pop("debug"),
        )
        self.overrides: dict[str, tuple[str, Any]] = context.meta.get(_OVERRIDES, {})
        self.config: str | None = given.pop("config", None)
        self._verbose: bool = given.pop("verbose", False)
        values = [*given.values(), *(value for _, value in self.overrides.values())]
        texts = [each for value in values for each in (value if isinstance(value, tuple) else [value])]
        self.urls = [each for each in texts if isinstance(each, str) and ":" in each]

    @functools.cached_property
    def resolved(self) -> "Resolved":
        """What the options, the environment and the settings file come to, and what decided each."""
        from octavo.config import resolve_settings

        found = resolve_settings(self._path, self.overrides)
        settings = found.settings
        if settings.files.group_access:
            share_with_group()
        key = settings.extraction.api_key and f"?api_key={settings.extraction.api_key}"
        self.urls += [url for url in (settings.database.dsn, settings.vector.url, key) if url]
        if self._verbose:
            self._tell_settings(found)
        return found

    @property
    def settings(self) -> "Settings":
        """The settings this command works by."""
        return self.resolved.settings

    @property
    def by_file(self) -> bool:
        """Whether a settings file is read."""
        return self._path is not None

    @property
    def _path(self) -> Path | None:
        default = CONFIG if CONFIG.exists() else None
        return default if self.config is None else Path(self.config)

    def is_set(self, setting: str) -> bool:
        """Whether the environment or the settings file decides a setting."""
        from octavo.config import resolve_settings

        return setting in resolve_settings(self._path).origins

    def unqueued_settings(self) -> "Settings":
        """The settings for a command that waits for the store or fails: it does not stay to deliver what it queued."""
        replace = msgspec.structs.replace
        return replace(
            self.settings,
            service=replace(self.settings.service, dedup_window=0),
            failure_queue=replace(self.settings.failure_queue, enabled=False),
        )

    def check_can_ask(self) -> None:
        """Refuse what needs a person's consent where there is none to give it."""
        if self.json:
            raise ConfigError("--json needs --yes: there is nobody to ask")

    def existing_store(self) -> str:
        """The URL of the store that is named; ConfigError when it should be on this disk and is not."""
        return check_exists(self.settings.database.dsn)

    def state_file(self, state: Path | None, restart: bool, noun: str, *names: object) -> Path | None:
        """Where a move keeps how far it has come: the file that is named, or the one of these names."""
        state = state or _default_state(noun, *names)
        self.resumable = state is not None
        if state is None:
            self.note(
                f"octavo: no place for the state of this {noun} (see --state); interrupted, it starts over"
            )
            return None
        if restart:
            state.unlink(missing_ok=True)
        if state.exists():
            self.note(f"continuing an interrupted {noun}; --restart begins again")
        return state

    def run(self, work: Callable[[], int | Coroutine[Any, Any, int]]) -> int:
        """Do the work, and return the exit status; what goes wrong is said in one sentence."""
        onward = "; run the same command again to continue"
        try:
            done = work()
            return done if isinstance(done, int) else asyncio.run(done)
        except KeyboardInterrupt:
            if self.thing:
                self.note(f"octavo: stopped after {several(self.done, self.thing)}{onward * self.resumable}")
            return 130
        except BrokenPipeError:
            raise  # whoever read stdout has gone away; click ends the process without a word
        except ConfigError as error:
            self.fail(error)
            return 2
        except (OctavoError, OSError) as error:
            self.fail(error)
            if self.done:
                self.note(f"octavo: {several(self.done, 'record')} kept before that{onward * self.resumable}")
            return 1

    def _tell_settings(self, found: "Resolved") -> None:
        from octavo.config.settings import every_setting

        none = f"octavo: no settings file; {CONFIG} is not here"
        self.note(f"octavo: the settings are those of {self._path}" if self.by_file else none)
        for setting in every_setting():
            if setting.key in found.origins or setting.key == "database.dsn":
                value = setting.shown(getattr(getattr(found.settings, setting.section), setting.name))
                self.note(f"octavo: {setting.key} is {value} ({found.origin(setting.key)})")


def runs(function: Callable[..., int | Coroutine[Any, Any, int]]) -> Callable[..., None]:
    """Make a command of a function, awaited or not, that takes a `Call` and its own options and returns an exit status.

    It stands right above the function. `--json`, `--quiet` and `--debug` are added; settings, output, errors and the
    exit status are seen to.
    """

    @_printing
    @functools.wraps(function)
    def command(**given: Any) -> None:
        call = Call(click.get_current_context(), given)
        sys.exit(call.run(lambda: function(call, **given)))

    return command


def check_exists(url: str) -> str:
    """The URL; of an embedded store that is not there a ConfigError: opening it would make an empty one."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url  # whoever opens it says what is wrong with it
    scheme = parts.scheme.partition("+")[0]
    path = unquote(parts.path)
    if scheme == "sqlite":
        path = path.removeprefix("/")
    embedded = scheme in {"sqlite", "file"} and not parts.netloc and path not in {"", ":memory:"}
    if embedded and not Path(path).exists():
        raise ConfigError(f"there is no store at {path}; check the path in {shown(url)}")
    return url


def parse_time(option: str, spelled: str | None, *, ago: bool = False) -> datetime | None:
    """The time that was given; with `ago`, also an age such as 2h. What is neither is a ConfigError that names the option."""
    if spelled is None:
        return None
    with suppress(ValueError, OverflowError):
        return utc(datetime.fromisoformat(spelled))
    if ago:
        with suppress(ConfigError):
            return before(age(spelled), now())
    also = ", or 2h for two hours ago" if ago else ""
    raise ConfigError(f"{option} {spelled!r} is no time; try 2026-03-01, 2026-03-01T12:00:00+08:00{also}")


def _default_state(*names: object) -> Path | None:
    """The state file of one move, the same for the same names from the same folder; None where none can be kept."""
    try:
        digest = hashlib.blake2b(spell([str(Path.cwd()), *names]).encode(), digest_size=8).hexdigest()
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "octavo"
        make_folder(folder)
    except (OSError, RuntimeError):  # RuntimeError: nobody has told this process where its home is
        return None
    return folder / f"{names[0]}-{digest}.jsonl" if os.access(folder, os.W_OK) else None
