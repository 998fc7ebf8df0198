"""Where the lines go that an import skips."""

from pathlib import Path

from octavo.cli.teller import Teller
from octavo.transfer import BadLine
from octavo.util.file_modes import open_file

MOST_TOLD = 10  # on stderr; all of them are set aside


class Aside:
    """Where the lines go that an import skips: appended as they are, so that they can be mended and imported."""

    def __init__(self, path: Path, teller: Teller) -> None:
        self.path = path
        self.first: list[BadLine] = []
        self.written = False
        self._teller = teller
        self._told = 0

    @property
    def where(self) -> str:
        return f", set aside in {self.path}" if self.written else ""

    def take(self, bad: BadLine) -> None:
        if bad.line:
            with open(self.path, "ab", opener=open_file) as aside:
                aside.write(bad.line if bad.line.endswith(b"\n") else bad.line + b"\n")
            self.written = True
        self._told += 1
        if len(self.first) < 100:
            self.first.append(bad)
        if self._told <= MOST_TOLD:
            self._teller.note(f"octavo: line {bad.number}: {bad.reason}")
