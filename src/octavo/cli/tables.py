"""Tables for people: a header, columns that are straight also where a character is two wide, texts cut to the terminal."""

import unicodedata
from collections.abc import Sequence
from datetime import datetime

from octavo.kernel.text import escape_controls

#: The column whose cells are cut first; ids, in the last one, never are.
TEXT = "TEXT"
WHEN = "WHEN"
_LEAST_TEXT = 32  # columns of a text, however narrow the terminal is: the row then takes a second line
_MOST_OTHER = 40  # columns of any other cell on a terminal
_WIDEST = 80  # columns up to which cells are padded: one long text does not move the ids of all rows
_MOST_QUOTED = 60  # characters of a text inside of a sentence


def figures(rows: Sequence[Sequence[str]]) -> str:
    """Rows of figures, aligned: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """The lines of a table; with `columns`, the texts are cut so that a row fits into so many."""
    cells = [list(header), *([to_line(cell) for cell in row] for row in rows)]
    last = len(header) - 1
    if columns is not None:
        text = header.index(TEXT)
        cells = [
            [cell if at in (text, last) else cut(cell, _MOST_OTHER) for at, cell in enumerate(row)]
            for row in cells
        ]
        others = sum(each for at, each in enumerate(_widths(cells)) if at != text) + 2 * last
        room = max(_LEAST_TEXT, columns - others)
        cells = [[cut(cell, room) if at == text else cell for at, cell in enumerate(row)] for row in cells]
    widths = [min(each, _WIDEST) for each in _widths(cells)]
    widths[last] = 0  # nothing stands behind it
    return [
        "  ".join(pad(cell, most) for cell, most in zip(row, widths, strict=True)).rstrip() for row in cells
    ]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*rows, strict=True)]


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def pad(text: str, columns: int) -> str:
    """A text that takes so many columns, or more."""
    return text + " " * (columns - width(text))


def cut(text: str, columns: int) -> str:
    """As much of a text as fits, with an ellipsis where something is left out."""
    if width(text) <= columns:
        return text
    taken = 0
    for at, character in enumerate(text):
        taken += _columns(character)
        if taken >= columns:  # the ellipsis takes one
            return f"{text[:at]}…"
    return text


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # marks on, and joints between others
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def to_line(text: str) -> str:
    """A stored text on one line: runs of spaces and line ends are one space."""
    return escape_controls(" ".join(text.split()))


def quote(text: str) -> str:
    """A stored text inside of a sentence."""
    text = to_line(text)
    return f"“{text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + '…'}”"


def time_text(at: datetime | None) -> str:
    """A time as it is shown, in local time with its offset; nothing for none."""
    return "" if at is None else at.astimezone().isoformat(" ", "seconds")


def column_time(at: datetime) -> str:
    """A time in a column: local time, as an option reads it."""
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def owner_text(user_id: str | None = None, agent_id: str | None = None, session_id: str | None = None) -> str:
    """Whose something is: a user's, else an agent's, else it belongs to a session."""
    if user_id:
        return user_id
    if agent_id:
        return f"{agent_id} (agent)"
    return f"{session_id} (session)" if session_id else "-"
