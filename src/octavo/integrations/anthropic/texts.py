"""The text of a file: how it is shown, and what an edit makes of it, in the words of the SDK's own tool for files on disk."""

import re
from collections.abc import Iterable, Sequence

from anthropic.lib.tools import ToolError  # type: ignore[import-not-found]

_MOST_LINES = 999_999


def tell_file(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """A file with the numbers of its lines: all of them, or those from one number to another, -1 being the last."""
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = 0, len(lines)
    if view_range and len(view_range) == 2:
        begin, end = view_range
        first, last = max(1, begin) - 1, last if end == -1 else end
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first, last)}"


def replace(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """The text with one piece in the place of another, which must be in it once; and what is said of it."""
    if old not in text:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if text.count(old) > 1:
        places = re.finditer(f"(?={re.escape(old)})", text)
        lines = ", ".join(str(text.count("\n", 0, place.start()) + 1) for place in places)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    line, changed = text.count("\n", 0, text.index(old)), text.replace(old, new)
    snippet = _numbered(changed.split("\n"), max(0, line - 2), line + 3)
    said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return changed, f"{said}\n{snippet}"


def insert(path: str, text: str, at: int, added: str) -> tuple[str, str]:
    """The text with lines behind the line of a number, 0 being before the first; and what is said of it."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not 0 <= at <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
        )
    changed = "\n".join([*lines[:at], added.rstrip("\n"), *lines[at:]])
    return changed if changed.endswith("\n") else f"{changed}\n", f"The file {path} has been edited."


def _numbered(lines: Sequence[str], first: int, last: int) -> str:
    """Some of the lines, each with its number, which begins at 1."""
    some: Iterable[tuple[int, str]] = enumerate(lines[first:last], first + 1)
    return "\n".join(f"{number:6}\t{line}" for number, line in some)
