"""The files of a queue's directory, by name."""

import re
from collections.abc import Iterator
from pathlib import Path


class Names:
    """What the files are called: `<name>.jsonl` is slot 1, `<name>.2.jsonl` slot 2, `….jsonl.7` a full part of either."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.dead = directory / f"{name}.dead.jsonl"
        self.bad = directory / f"{name}.bad.jsonl"
        self.guard = directory / f".{name}.lock"
        self._name = name
        self._pattern = re.compile(rf"{re.escape(name)}(?:\.([2-9]|[1-9]\d+))?\.jsonl(?:\.(\d+)(\.bak)?)?")

    def active(self, slot: int) -> Path:
        """The file that slot writes to."""
        return self.directory / (f"{self._name}.jsonl" if slot == 1 else f"{self._name}.{slot}.jsonl")

    def lock(self, slot: int) -> Path:
        return self.directory / f".{self._name}.{slot}.lock"

    def next_part(self, slot: int) -> Path:
        """A name for the active file once it is full."""
        parts = [part for each, part, _, _ in self._listed() if each == slot]
        return Path(f"{self.active(slot)}.{max(parts, default=0) + 1}")

    def backups(self, slot: int) -> list[Path]:
        """Parts that were recovered and kept, oldest first."""
        return [path for each, _, kept, path in sorted(self._listed()) if each == slot and kept]

    def slots(self) -> dict[int, list[Path]]:
        """The files of each slot that has any, oldest first."""
        found: dict[int, list[Path]] = {}
        for slot, part, kept, path in sorted(self._listed()):
            if not kept and part:
                found.setdefault(slot, []).append(path)
        for slot, part, _, path in self._listed():
            if not part:  # what is being written is the newest
                found.setdefault(slot, []).append(path)
        return dict(sorted(found.items()))

    def _listed(self) -> Iterator[tuple[int, int, bool, Path]]:
        try:
            paths = list(self.directory.iterdir())
        except FileNotFoundError:
            return
        for path in paths:
            if match := self._pattern.fullmatch(path.name):
                slot, part, kept = match.groups()
                yield int(slot or 1), int(part or 0), kept is not None, path
