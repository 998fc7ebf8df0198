"""Memories and their log on a screen: one row each."""

from collections.abc import Sequence
from datetime import datetime

import click

from octavo.cli.teller import Teller, printable, several
from octavo.cli.times import told
from octavo.layers import Extracted, LogEntry, Memory

_COLOURS = {"insert": "green", "update": "cyan", "ignore": None, "delete": "red", "expire": "yellow"}
_MOST_QUOTED = 60  # characters of a content inside of a sentence


class Rows:
    """Shows what a memory answers to people; programs get the values themselves."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def memories(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self._say(f"{_at(memory.updated_at)}  {_place(memory.layer, memory.category)}  {_id(memory.id)}", memory.content, _end(memory))  # fmt: skip

    def extracted(self, extracted: Extracted) -> None:
        for each in extracted.memories:
            was = f"  (was: {quoted(each.supersedes)})" if each.supersedes else ""
            self._say(f"{_action(each.action)}  {_place(each.layer, each.category)}  {_id(each.id)}", each.content, was)  # fmt: skip
        facts = several(extracted.total_extracted, "fact")
        self._teller.say(
            f"{facts}: {extracted.inserted} inserted, {extracted.updated} updated, {extracted.ignored} ignored"
        )

    def log(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            self._say(f"{_at(entry.created_at)}  {_action(entry.action)}  {entry.memory_layer:7}  {_id(entry.id)}", entry.reason)  # fmt: skip

    def _say(self, head: str, content: str, tail: str = "") -> None:
        self._teller.say(f"{head}  {plain(content)}{tail}")


def plain(text: str) -> str:
    """What was remembered must not steer the reader's terminal, nor pose as a row of its own."""
    return printable(" ".join(text.split()))


def quoted(text: str) -> str:
    """A content inside of a sentence."""
    text = plain(text)
    return f"“{text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + '…'}”"


def _at(at: datetime) -> str:
    return click.style(told(at), dim=True)


def _id(id_: str) -> str:
    return plain(id_) or "-"


def _place(layer: str, category: str) -> str:
    return f"{layer:7}  {category:12}"


def _action(action: str) -> str:
    return click.style(f"{action:6}", fg=_COLOURS.get(action))


def _end(memory: Memory) -> str:
    return "" if memory.expiry_date is None else f"  (until {memory.expiry_date:%Y-%m-%d %H:%M} UTC)"
