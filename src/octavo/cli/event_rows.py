"""Events on a screen: one row each for people, one line of JSON each for programs."""

import shutil
import sys
from collections.abc import Sequence

import click

from octavo.cli.teller import Styled, Teller
from octavo.events import AgentEvent
from octavo.kernel.text import printable, printable_json, spell

_COLOURS = {"error": "red", "success": "green", "message": "cyan", "response": "blue"}
_WIDEST = 24


class Rows:
    """Shows events as they come; columns are as wide as what was seen so far."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._widths = [0, 0, 0]

    def show(self, events: Sequence[AgentEvent]) -> None:
        if self._teller.json:
            for event in events:
                click.echo(printable_json(event.to_json()))
            return
        rows = [(event, _columns(event)) for event in events]
        for _, columns in rows:
            self._widths = [
                max(wide, min(_WIDEST, len(column)))
                for wide, column in zip(self._widths, columns, strict=True)
            ]
        for event, columns in rows:
            self._teller.say(*self._row(event, columns))

    def _row(self, event: AgentEvent, columns: Sequence[str]) -> tuple[str | Styled, ...]:
        kind, agent, session = (
            column.ljust(wide) for column, wide in zip(columns, self._widths, strict=True)
        )
        at = f"{event.timestamp.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3]
        data = printable(spell(event.data))
        if sys.stdout.isatty():
            room = shutil.get_terminal_size().columns - len(at) - sum(self._widths) - 8
            data = data if len(data) <= room else data[: max(0, room - 1)] + "…"
        colour = _COLOURS.get(str(event.event_type).rpartition("_")[2])
        return Styled(at, dim=True), "  ", Styled(kind, fg=colour), f"  {agent}  {session}  {data}"


def _columns(event: AgentEvent) -> tuple[str, str, str]:
    return printable(str(event.event_type)), printable(event.agent_name), printable(event.session_id)
