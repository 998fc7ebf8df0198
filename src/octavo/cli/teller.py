"""What the command says, to people and to programs: results on stdout, everything else on stderr."""

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click
import msgspec

from octavo.kernel.text import printable, printable_json
from octavo.transfer import Progress
from octavo.util.secrets import hidden

LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal to draw a bar on


def several(count: int, thing: str) -> str:
    """A number and its noun."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


class Styled(NamedTuple):
    """A piece of a line in a colour; what it says is made printable like the rest."""

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
    spelled = (str(each) if isinstance(each, Styled) else printable(each) for each in pieces)
    click.echo("".join(spelled), err=err)


class Teller:
    """One command's voice. `--json` leaves stdout to a single document, `--quiet` leaves only errors."""

    def __init__(
        self, *, json: bool, quiet: bool, debug: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.json = json
        self.debug = debug
        self._quiet = quiet
        self._clock = clock
        self.urls: list[str] = []  # whose passwords must not be said
        self.done = 0  # records, as last told by a move
        self.thing = "record"  # or whatever else `done` counts
        self.resumable = False  # whether the same command would go on from there

    def say(self, *pieces: str | Styled, err: bool = False) -> None:
        """A result for people, in one line: whatever stored text is in it, the terminal only shows it."""
        if not (self.json or self._quiet):
            _echo(*pieces, err=err)

    def say_lines(self, text: str) -> None:
        """A text of several lines, each as `say` has it."""
        for line in text.split("\n"):
            self.say(line)

    def note(self, sentence: str) -> None:
        """Something worth knowing beside the result."""
        if not self._quiet:
            _echo(sentence, err=True)

    def document(self, **values: Any) -> None:
        """The result for programs."""
        if self.json:
            click.echo(indented(values))

    def failed(self, error: BaseException) -> None:
        """Say in one sentence what went wrong; the traceback only when asked for."""
        if self.debug:
            for line in self.hidden("".join(traceback.format_exception(error))).splitlines():
                _echo(line, err=True)
        sentence = self.hidden(" ".join(str(error).split()) or type(error).__name__)
        _echo(f"octavo: {sentence}", err=True)
        self.document(ok=False, error=sentence, kind=type(error).__name__)

    def hidden(self, text: str) -> str:
        return hidden(text, self.urls)

    @contextmanager
    def progress(self, doing: str, thing: str = "record") -> Iterator[Progress]:
        """A callback that draws a bar on a terminal, writes a line now and then elsewhere, or only remembers."""
        self.thing = thing
        if self._quiet:
            yield self._remember
        elif sys.stderr.isatty():
            with self._bar(doing) as tell:
                yield tell
        else:
            yield self._lines(doing)

    def _remember(self, done: int, total: int | None) -> None:
        del total
        self.done = done

    def _lines(self, doing: str) -> Progress:
        told = self._clock()
        first: tuple[float, int] | None = None

        def tell(done: int, total: int | None) -> None:
            nonlocal told, first
            self._remember(done, total)
            now = self._clock()
            first = first or (
                now,
                done,
            )  # what an earlier run has done says nothing about the speed of this one
            if now - told >= LINE_SECONDS:
                told = now
                of = "" if total is None else f" of {total:,}"
                speed = f", {(done - first[1]) / (now - first[0]):,.0f}/s" if now > first[0] else ""
                _echo(f"{doing} {done:,}{of} {self.thing}s{speed}", err=True)

        return tell

    @contextmanager
    def _bar(self, doing: str) -> Iterator[Progress]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), MofNCompleteColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(printable(doing), total=None)

            def tell(done: int, total: int | None) -> None:
                self._remember(done, total)
                bar.update(task, completed=done, total=total)

            yield tell
