"""What every command shares: the settings it works by, what it prints, its errors and its exit status.

Results go to stdout, everything else to stderr; `--json` leaves stdout to a single document.
"""

import asyncio
import functools
import hashlib
import io
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from octavo.cli import INTERRUPTED, hand_over, option
from octavo.cli.option import CONFIG, OVERRIDES
from octavo.cli.tables import table_lines
from octavo.errors import ConfigError, OctavoError, StoreUnavailable
from octavo.kernel.ids import now
from octavo.kernel.model import to_utc
from octavo.kernel.ports import ListsTenants, Store
from octavo.kernel.text import escape_controls, escape_json_controls, spell
from octavo.kernel.text import pluralize as pluralize  # noqa: PLC0414 - commands take it from here
from octavo.util.ages import parse_age, subtract_age
from octavo.util.disk import make_folder, share_with_group
from octavo.util.secrets import mask_passwords, mask_url

if TYPE_CHECKING:
    from octavo.config import Resolved, Settings
    from octavo.transfer import Progress

LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal
REDRAW_SECONDS = 0.1  # between two states of the line on a terminal
_ERASE = "\r\x1b[K"  # to the beginning of the line, and what was in it goes


def format_json(value: Any) -> str:
    """A value as JSON that people may read too."""
    return escape_json_controls(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Let an error of stdout say that it is stdout's; one that is closed would swallow everything."""
    if sys.stdout is None:
        raise OSError("stdout is closed")
    try:
        yield
    except OSError as error:
        if error.filename is None and error.strerror and not isinstance(error, BrokenPipeError):
            error.filename = "stdout"
        raise


def echo(line: str) -> None:
    """Print a result."""
    with writing_stdout():
        click.echo(line)


def _fit_output(as_json: bool) -> None:
    """Let stdout take any text: what its encoding lacks is escaped, and JSON is UTF-8 wherever programs read it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = "utf-8" if as_json and not sys.stdout.isatty() else None
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


class CommandCall:
    """One call of a command: what it prints, and the settings it works by."""

    def __init__(self, context: click.Context, given: dict[str, Any]) -> None:
        self.command = " ".join(context.command_path.split()[1:])  # its words, such as "queue list"
        self.json: bool = given.pop("as_json")
        self.quiet: bool = given.pop("quiet")
        self._debug: bool = given.pop("debug")
        self.config: str | None = given.pop("config", None)
        self._verbose: bool = given.pop("verbose", False)
        self.overrides: dict[str, tuple[str, Any]] = context.meta.get(OVERRIDES, {})
        values = [*given.values(), *(value for _, value in self.overrides.values())]
        texts = [each for value in values for each in (value if isinstance(value, tuple) else [value])]
        #: Whose passwords must not be printed.
        self.urls = [each for each in texts if isinstance(each, str) and ":" in each]
        self.done = 0  # records, as progress last had it
        self.thing = ""  # what `done` counts; nothing until there is progress
        self.resumable = False  # whether the same command would go on from there
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return round(time.monotonic() - self._began, 3)

    def say(self, line: str, *, err: bool = False) -> None:
        """Print a result for people, in one line: stored text in it is shown and never steers the terminal."""
        if self.json or self.quiet:
            return
        if err:
            click.echo(escape_controls(line), err=True)
        else:
            echo(escape_controls(line))

    def say_lines(self, text: str) -> None:
        """Print a text of several lines, each as `say` does."""
        for line in text.split("\n"):
            self.say(line)

    def say_table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under their header, or nothing when there are none; whole where nobody looks at a terminal."""
        columns = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None
        for line in table_lines(header, rows, columns) if rows else ():
            self.say(line)

    def note(self, sentence: str) -> None:
        """Print something worth knowing beside the result."""
        if not self.quiet:
            click.echo(escape_controls(f"octavo: {sentence}"), err=True)

    def document(self, *, ok: bool = True, **values: Any) -> int:
        """Print the result for programs, and return the exit status: 0 when all is well, else 1."""
        if self.json:
            echo(format_json({"ok": ok, "command": self.command, **values}))
        return 0 if ok else 1

    def fail(self, error: BaseException) -> None:
        """Say in one sentence what went wrong; the traceback only when asked for."""
        if self._debug:
            for line in self.mask("".join(traceback.format_exception(error))).splitlines():
                click.echo(escape_controls(line), err=True)
        told = (
            f"{error.strerror}: {error.filename}"
            if isinstance(error, OSError) and error.filename
            else str(error)
        )
        if isinstance(error, StoreUnavailable) and not self._is_embedded:
            told += "; is it running, and is the address in --store, OCTAVO_URL or the settings right?"
        sentence = self.mask(" ".join(told.split()) or type(error).__name__)
        click.echo(escape_controls(f"octavo: {sentence}"), err=True)
        if self.json:
            with suppress(OSError):  # it may be what went wrong
                echo(format_json({"ok": False, "error": sentence, "kind": type(error).__name__}))

    def mask(self, text: str) -> str:
        """The text without passwords."""
        return mask_passwords(text, self.urls)

    @contextmanager
    def progress(self, doing: str, thing: str = "record") -> "Iterator[Progress]":
        """A callback that says how far it is: in one line of a terminal, or in a new line now and then."""
        self.thing = thing
        terminal = sys.stderr.isatty()
        last = time.monotonic() if not terminal else 0.0
        first: tuple[float, int] | None = None

        def tell(done: int, total: int | None) -> None:
            nonlocal last, first
            self.done = done
            now = time.monotonic()
            # The speed is that of this run: what an earlier one has done is not counted.
            first = first or (now, done)
            if not self.quiet and now - last >= (REDRAW_SECONDS if terminal else LINE_SECONDS):
                last = now
                counted = ("" if total is None else f"{done:,} of ") + pluralize(total or done, thing)
                speed = f", {(done - first[1]) / (now - first[0]):,.0f}/s" if now > first[0] else ""
                line = escape_controls(f"{doing} {counted}{speed}")
                click.echo(f"{_ERASE}{line}" if terminal else line, err=True, nl=not terminal)

        try:
            yield tell
        finally:
            if terminal and not self.quiet:
                click.echo(_ERASE, err=True, nl=False)

    @functools.cached_property
    def resolved(self) -> "Resolved":
        """What the options, the environment and the settings file come to, and what decided each."""
        from octavo.config import resolve_settings
        from octavo.config.settings import secrets_of

        found = resolve_settings(self._path, self.overrides)
        settings = found.settings
        if settings.files.group_access:
            share_with_group()
        self.urls += secrets_of(settings)
        if self._verbose:
            self._tell_settings(found)
        return found

    @property
    def _resolved(self) -> "Resolved | None":
        """The same if there is such a thing by now: what failed once would fail again."""
        return self.__dict__.get("resolved")

    @property
    def _is_embedded(self) -> bool:
        from octavo.config import local_path

        return self._resolved is not None and local_path(self.settings.database.dsn) is not None

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

    def confirm(self, question: str, *, abort: bool = True) -> bool:
        """Whether the person consents, or an end without; refused where there is none to ask."""
        if self.json:
            raise ConfigError("--json needs --yes: there is nobody to ask")
        return click.confirm(question, abort=abort, err=True)

    def existing_store(self) -> str:
        """The URL of the store that is named; ConfigError when it should be on this disk and is not."""
        return check_exists(self.settings.database.dsn)

    def warn_of_tenants(self, store: Store) -> None:
        """Say that not all of a store is read, if it cannot say whose records it has."""
        if not isinstance(store, ListsTenants):
            self.note(
                "this store cannot list its tenants, only the empty one is read; name others by --tenant"
            )

    def state_file(self, state: Path | None, restart: bool, noun: str, *names: object) -> Path | None:
        """Where a move keeps how far it has come: the file that is named, or the one of these names."""
        state = state or _default_state(noun, *names)
        self.resumable = state is not None
        if state is None:
            self.note(f"no folder for the state of this {noun} (see --state); interrupted, it starts over")
            return None
        if restart and state.exists():
            from octavo.transfer.copying import check_state  # most commands move nothing

            check_state(state)
            state.unlink()
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
                self.note(f"stopped after {pluralize(self.done, self.thing)}{onward * self.resumable}")
            return INTERRUPTED
        except BrokenPipeError:
            raise  # whoever read stdout has gone away; click ends the process without a word
        except ConfigError as error:
            found = self._resolved
            self.fail(error if found is None else found.name_origin(error))
            return 2
        except (OctavoError, OSError) as error:
            self.fail(error)
            if self.done:
                self.note(f"{pluralize(self.done, 'record')} kept before that{onward * self.resumable}")
            return 1

    def _tell_settings(self, found: "Resolved") -> None:
        from octavo.config.settings import every_setting

        none = f"no settings file; {CONFIG} is not here"
        self.note(f"the settings are those of {self._path}" if self.by_file else none)
        for setting in every_setting():
            if setting.key in found.origins or setting.key == "database.dsn":
                value = setting.shown(getattr(getattr(found.settings, setting.section), setting.name))
                self.note(f"{setting.key} is {value} ({found.origin(setting.key)})")


def as_command(function: Callable[..., int | Coroutine[Any, Any, int]]) -> Callable[..., None]:
    """Make a command of a function, awaited or not, that takes a `CommandCall` and its own options and returns an exit status.

    It stands right above the function. `--json`, `--quiet` and `--debug` are added; settings, output, errors and the
    exit status are seen to.
    """

    @option.printing
    @functools.wraps(function)
    def command(**given: Any) -> None:
        call = CommandCall(click.get_current_context(), given)
        _fit_output(call.json)
        hand_over()
        sys.exit(call.run(lambda: function(call, **given)))

    return command


def check_exists(url: str) -> str:
    """The URL; of an embedded store that is not there a ConfigError: opening it would make an empty one."""
    from octavo.config import local_path

    if (path := local_path(url)) and not Path(path).exists():
        raise ConfigError(
            f"there is no store at {path}; check the path in {mask_url(url)}, or make it with octavo add"
        )
    return url


def parse_time(
    named: str, spelled: str | None, *, ages: Literal["", "ago", "from now"] = ""
) -> datetime | None:
    """The time that was given; with `ages`, also an age such as 2h. What is neither is a ConfigError that names the option."""
    if spelled is None:
        return None
    with suppress(ValueError, OverflowError):
        return to_utc(datetime.fromisoformat(spelled))
    if ages:
        with suppress(ConfigError, OverflowError):
            return subtract_age(parse_age(spelled), now()) if ages == "ago" else now() + parse_age(spelled)
    also = {"ago": ", or 2h for two hours ago", "from now": ", or 90d for ninety days from now"}.get(ages, "")
    day = f"{now().year + (ages != 'ago')}-01-31"  # an end is ahead
    raise ConfigError(f"{named} {spelled!r} is no time; try {day}, {day}T12:00:00+08:00{also}")


def parse_span(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """What --since and --until give; ConfigError for a beginning after the end, in which nothing can be."""
    begin, end = parse_time("--since", since, ages="ago"), parse_time("--until", until, ages="ago")
    if begin is not None and end is not None and begin > end:
        raise ConfigError(f"--since {since!r} is later than --until {until!r}: nothing is in between")
    return begin, end


def _default_state(*names: object) -> Path | None:
    """The state file of one move, the same for the same names from the same folder; None where none can be kept."""
    try:
        digest = hashlib.blake2b(spell([str(Path.cwd()), *names]).encode(), digest_size=8).hexdigest()
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "octavo"
        make_folder(folder)
    except (OSError, RuntimeError):  # RuntimeError: nobody has told this process where its home is
        return None
    return folder / f"{names[0]}-{digest}.jsonl" if os.access(folder, os.W_OK) else None
