"""Dead letters: writes that were given up, kept with their error until a person decides."""

from collections.abc import Collection, Iterator, Sequence

from octavo.errors import NotFound
from octavo.wraps.spool import lines
from octavo.wraps.spool.entries import DeadLetter
from octavo.wraps.spool.shared import Guard, SharedFile, speaking


class DeadLetters:
    """The dead letters of a directory, shared by all processes that use it."""

    def __init__(self, file: SharedFile, aside: SharedFile, guard: Guard) -> None:
        self._guard = guard
        self._file = file
        self._aside = aside

    @property
    def count(self) -> int:
        """How many there are now."""
        return self._file.count

    def __iter__(self) -> Iterator[DeadLetter]:
        """All of them, oldest death first, one at a time."""
        with speaking(self._file.path.parent):
            for piece in self._file.pieces():
                if piece.sound and (letter := lines.letter(piece.data)) is not None:
                    yield letter

    def list(self, limit: int | None = None, after: str | None = None) -> list[DeadLetter]:
        """The first `limit` of them, or those that died after the one of that id."""
        found: list[DeadLetter] = []
        begun = after is None
        for letter in self:
            if limit is not None and len(found) >= limit:
                break
            if begun:
                found.append(letter)
            begun = begun or letter.id == after
        return found

    def get(self, id: str) -> DeadLetter:  # noqa: A002 - the name the rest of Octavo uses
        """The one of that id, or NotFound."""
        for letter in self:
            if letter.id == id:
                return letter
        raise NotFound(f"there is no dead letter {id!r} in {self._file.path}")

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Keep these; durable when it returns."""
        with speaking(self._file.path.parent), self._guard:
            self._file.append([lines.dead(letter) for letter in letters])

    def discard(self, ids: Collection[str] | None = None) -> int:
        """Forget these, or all; answer how many there were."""
        wanted = None if ids is None else frozenset(ids)
        if wanted == frozenset() or not self._file.path.exists():
            return 0
        gone = 0

        def kept() -> Iterator[bytes]:
            nonlocal gone
            for piece in self._file.pieces():
                letter = lines.letter(piece.data) if piece.sound else None
                if letter is not None and wanted is not None and letter.id not in wanted:
                    yield piece.data + b"\n"
                gone += letter is not None and (wanted is None or letter.id in wanted)

        with speaking(self._file.path.parent), self._guard:
            damaged = [p for p in self._file.pieces() if not p.sound or lines.letter(p.data) is None]
            if damaged:  # nobody decided to forget these
                self._aside.append([piece.data + b"\n" for piece in damaged])
            self._file.rewrite(kept())
        return gone
