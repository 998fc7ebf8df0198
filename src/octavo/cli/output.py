"""What a command prints, for people and for programs: results on stdout, everything else on stderr."""

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import click
import msgspec

from octavo.kernel.text import printable, printable_json
from octavo.transfer import Progress
from octavo.util.secrets import hidden

LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal
REDRAW_SECONDS = 0.1  # between two states of the line on a terminal
_ERASE = "\r\x1b[K"  # to the beginning of the line, and what was in it goes


def several(count: int, thing: str) -> str:
    """A number and its noun."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def time_text(at: datetime) -> str:
    """A time as it is shown."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, aligned: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


class Styled(NamedTuple):
    """A piece of a line in a colour; its text is made printable like the rest."""

    text: str
    fg: str | None = None
    bold: bool | None = None
    dim: bool | None = None

    def __str__(self) -> str:
        return click.style(printable(self.text), fg=self.fg, bold=self.bold, dim=self.dim)


def indented(value: Any) -> str:
    """A value as JSON that people may read too."""
    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _echo(*pieces: str | Styled, err: bool = False) -> None:
    texts = (str(each) if isinstance(each, Styled) else printable(each) for each in pieces)
    click.echo("".join(texts), err=err)


class Output:
    """What one command prints. `--json` leaves stdout to a single document, `--quiet` leaves only errors."""

    def __init__(
        self,
        *,
        command: str,
        json: bool,
        quiet: bool,
        debug: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.command = command  # its words, such as "queue list"
        self.json = json
        self.quiet = quiet
        self._debug = debug
        self._clock = clock
        self.urls: list[str] = []  # whose passwords must not be printed
        self.done = 0  # records, as progress last had it
        self.thing = ""  # what `done` counts; nothing until there is progress
        self.resumable = False  # whether the same command would go on from there

    def say(self, *pieces: str | Styled, err: bool = False) -> None:
        """Print a result for people, in one line: stored text in it is shown and never steers the terminal."""
        if not (self.json or self.quiet):
            _echo(*pieces, err=err)

    def say_lines(self, text: str) -> None:
        """Print a text of several lines, each as `say` does."""
        for line in text.split("\n"):
            self.say(line)

    def note(self, sentence: str) -> None:
        """Print something worth knowing beside the result."""
        if not self.quiet:
            _echo(sentence, err=True)

    def document(self, *, ok: bool = True, **values: Any) -> int:
        """Print the result for programs, and return the exit status: 0 when all is well, else 1."""
        if self.json:
            click.echo(indented({"ok": ok, "command": self.command, **values}))
        return 0 if ok else 1

    def fail(self, error: BaseException) -> None:
        """Say in one sentence what went wrong; the traceback only when asked for."""
        if self._debug:
            for line in self.hidden("".join(traceback.format_exception(error))).splitlines():
                _echo(line, err=True)
        sentence = self.hidden(" ".join(str(error).split()) or type(error).__name__)
        _echo(f"octavo: {sentence}", err=True)
        if self.json:
            click.echo(indented({"ok": False, "error": sentence, "kind": type(error).__name__}))

    def hidden(self, text: str) -> str:
        """The text without passwords."""
        return hidden(text, self.urls)

    @contextmanager
    def progress(self, doing: str, thing: str = "record") -> Iterator[Progress]:
        """A callback that says how far it is: in one line of a terminal, or in a new line now and then."""
        self.thing = thing
        terminal = sys.stderr.isatty()
        last = self._clock() if not terminal else 0.0
        first: tuple[float, int] | None = None

        def tell(done: int, total: int | None) -> None:
            nonlocal last, first
            self._count(done, total)
            now = self._clock()
            # The speed is that of this run: what an earlier one has done is not counted.
            first = first or (now, done)
            if not self.quiet and now - last >= (REDRAW_SECONDS if terminal else LINE_SECONDS):
                last = now
                of = "" if total is None else f" of {total:,}"
                speed = f", {(done - first[1]) / (now - first[0]):,.0f}/s" if now > first[0] else ""
                line = printable(f"{doing} {done:,}{of} {thing}s{speed}")
                click.echo(f"{_ERASE}{line}" if terminal else line, err=True, nl=not terminal)

        try:
            yield tell
        finally:
            if terminal and not self.quiet:
                click.echo(_ERASE, err=True, nl=False)

    def _count(self, done: int, total: int | None) -> None:
        del total
        self.done = done
