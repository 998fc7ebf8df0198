"""Memories and their log on a screen: one row each."""

from collections.abc import Sequence
from datetime import datetime

from octavo.cli.teller import Styled, Teller, several
from octavo.cli.times import told
from octavo.kernel.text import printable
from octavo.layers import Extracted, LogEntry, Memory

_COLOURS = {"insert": "green", "update": "cyan", "ignore": None, "delete": "red", "expire": "yellow"}
_MOST_QUOTED = 60  # characters of a content inside of a sentence


class Rows:
    """Shows what a memory answers to people; programs get the values themselves."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def memories(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            where = f"  {_place(memory.layer, memory.category)}  {_id(memory.id)}"
            self._teller.say(_at(memory.updated_at), f"{where}  {plain(memory.content)}{_end(memory)}")

    def extracted(self, extracted: Extracted) -> None:
        for each in extracted.memories:
            was = f"  (was: {quoted(each.supersedes)})" if each.supersedes else ""
            where = f"  {_place(each.layer, each.category)}  {_id(each.id)}"
            self._teller.say(_action(each.action), f"{where}  {plain(each.content)}{was}")
        facts = several(extracted.total_extracted, "fact")
        self._teller.say(
            f"{facts}: {extracted.inserted} inserted, {extracted.updated} updated, {extracted.ignored} ignored"
        )

    def log(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            which = f"  {entry.memory_layer:7}  {_id(entry.id)}  {plain(entry.reason)}"
            self._teller.say(_at(entry.created_at), "  ", _action(entry.action), which)


def plain(text: str) -> str:
    """What was remembered, on one line: runs of spaces and line ends are one space."""
    return printable(" ".join(text.split()))


def quoted(text: str) -> str:
    """A content inside of a sentence."""
    text = plain(text)
    return f"“{text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + '…'}”"


def _at(at: datetime) -> Styled:
    return Styled(told(at), dim=True)


def _id(id_: str) -> str:
    return plain(id_) or "-"


def _place(layer: str, category: str) -> str:
    return f"{layer:7}  {category:12}"


def _action(action: str) -> Styled:
    return Styled(f"{action:6}", fg=_COLOURS.get(action))


def _end(memory: Memory) -> str:
    return "" if memory.expiry_date is None else f"  (until {memory.expiry_date:%Y-%m-%d %H:%M} UTC)"
