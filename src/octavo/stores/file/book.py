"""The book: the records of one directory, kept in step with the files that this and other processes write.

The order of writing, and why nothing is lost or half kept, is argued in `ledger.py`.
"""

import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from octavo.errors import OctavoError, StoreError, StoreUnavailable
from octavo.kernel.codec import Prepared
from octavo.stores.draft import Effect
from octavo.stores.file.folder import Folder
from octavo.stores.file.ledger import Frame, Ledger, Lost, Part
from octavo.stores.file.lines import BadLine, Rows, merged
from octavo.stores.file.lock import Lock
from octavo.stores.file.names import collection_of
from octavo.stores.file.records import Family, Outgoing, Records

Outcome: TypeAlias = list[int] | OctavoError

_LEDGER_BYTES = 4 * 1024 * 1024
_WORTH_EMPTYING = 4096
_PASSING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.ESTALE,
    errno.EBUSY,
}
_log = logging.getLogger(__name__)


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How a directory is written; it is read alike whichever way it was written."""

    format: str = "jsonl"
    per_session: bool = True
    rotate_bytes: int = 10 * 1024 * 1024
    sync: str = "flush"


class _Staged(msgspec.Struct):
    """A JSON file that is about to be replaced: where its new content waits, and its old content."""

    path: Path
    old: bytes | None


class _Meddled(Exception):  # noqa: N818 - never leaves the file store
    """A file is not as it was left: somebody else wrote to it, and it must be read before it is written to."""


class Book:
    """The records of one directory; used by one thread at a time."""

    def __init__(self, root: Path, layout: Layout) -> None:
        own = root / ".octavo"
        self.root = root
        self._sync = layout.sync == "fsync"
        self._folder = Folder(root, layout.rotate_bytes)
        self._ledger = Ledger(own / "ledger")
        self._lock = Lock(own / "lock")
        self._presence = Lock(own / "open")
        self._unsynced: set[str] = set()  # families of this ledger that were promised to survive a power cut
        self._known = False
        self._own = own
        self._looked_at = False  # read as it is, without having been opened
        self.records = Records(f".{layout.format}", per_session=layout.per_session)

    def enter(self) -> bool:
        """Take the directory's lock if it is free."""
        return self._lock.take()

    def leave(self) -> None:
        """Let other processes write."""
        self._lock.release()

    # --- being in step; `follow` needs no lock, everything else does

    def open(self) -> None:
        """Read the directory for the first time; a second call does nothing."""
        if self._known:
            return
        self._presence.share()
        self._folder.sweep()
        self._read_all()
        if self._presence.alone() and not self._ledger.fresh:
            # An empty ledger holds nothing that could undo a person's edits after the next power cut.
            self._turned_over()

    def look(self) -> bool:
        """Read a directory that nobody has ever opened as it is, without making anything in it, if it is one."""
        if self.root.is_dir() and not self._own.exists():
            self.records.load(self._loaded(mend=False))
            self._looked_at = True
        return self._looked_at

    def follow(self) -> bool:
        """Take in what others have written; False when that cannot be followed and `catch_up` must be called."""
        if self._looked_at:
            return not self._own.exists()
        if self._known:
            try:
                for frame in self._ledger.follow():
                    self._take_in(frame)
            except (Lost, BadLine):
                self._known = False
        return self._known

    def catch_up(self) -> None:
        """Take in what others have written and finish what somebody died over."""
        if self._looked_at:
            self._looked_at = False
            self.open()
        elif self.follow():
            try:
                if (frame := self._ledger.pending()) is not None:
                    self._redo([frame])
                    self._ledger.keep()
                    self._take_in(frame)
                    for part in frame.parts:
                        self.records.family(part.path).size = self._folder.size(part.path)
            except (Lost, BadLine):
                self._known = False
        if not self._known:
            self._read_all()

    def _take_in(self, frame: Frame) -> None:
        if frame.sync:
            self._unsynced.update(part.path for part in frame.parts)
        self.records.take_in(frame)

    def _read_all(self) -> None:
        """Finish what is in the ledger, then read every file."""
        self._known = False
        frames: list[Frame] = []
        pending: Frame | None = None
        try:
            self._ledger.attach()
            frames = self._ledger.follow()
            pending = self._ledger.pending()
        except Lost:
            self._ledger.replace()
        self._unsynced = {part.path for frame in frames if frame.sync for part in frame.parts}
        self._redo(frames if self._unsynced and self._ledger.elsewhen else [])
        if pending is not None:
            self._redo([pending])
            self._ledger.keep()
            if pending.sync:
                self._unsynced.update(part.path for part in pending.parts)
        self.records.load(self._loaded())
        self._known = True

    def _loaded(self, *, mend: bool = True) -> Iterator[tuple[str, int, Rows]]:
        """Every family as it is on disk, mended where it was damaged."""
        for path, files in self._folder.families().items():
            rows = self._folder.rows(path, files, whole=True)
            if rows.bad and mend:
                _log.warning("%d damaged lines of %s were set aside", len(rows.bad), self._folder.path(path))
                self._folder.set_aside(path, rows.bad)
            if mend and (rows.bad or rows.ragged or (rows.total and not rows.kept)):
                self._folder.rewrite(path, files, rows.lines())
                rows.total = len(rows.kept)
            yield path, self._folder.size(path), rows

    def _redo(self, frames: list[Frame]) -> None:
        """Bring into the files what the frames say and they lack."""
        differing: set[str] = set()
        for frame in frames:
            for part, added in zip(frame.parts, frame.added, strict=True):
                if not added:  # a rewritten file: it holds what it held
                    continue
                there = self._folder.read(part.path) or b""
                rest = there[part.before : part.before + part.length]
                if part.path.endswith(".json"):
                    content, _ = self._merged(part.path, there, added.splitlines())
                    self._folder.place(self._folder.stage(content), part.path)
                elif part.path not in differing and len(there) >= part.before and added.startswith(rest):
                    self._folder.append(part.path, added[len(rest) :])
                else:
                    # From here on all of this family's frames are repeated: an old line must not come last.
                    differing.add(part.path)
                    torn = there and not there.endswith(b"\n")
                    self._folder.append(part.path, b"\n" + added if torn else added)

    # --- writing, after `catch_up`

    def write(self, batches: list[list[Prepared]]) -> list[Outcome]:
        """Apply each batch whole or not at all, all of them with one trip to the disk."""
        try:
            return self._write(batches)
        except OSError as error:
            if len(batches) == 1 and not self._made_room(error):
                return [self.failure(error)]
        # What is wrong with one batch must not fail the others.
        return [outcome for batch in batches for outcome in self.write([batch])]

    def _write(self, batches: list[list[Prepared]]) -> list[Outcome]:
        for _ in range(3):
            effects: list[Effect] = []
            try:
                outcomes = [self._drafted(ops, effects) for ops in batches]
                self._keep(effects)
            except OSError:
                self.records.undo(effects)
                raise
            except _Meddled:
                self._read_all()
            except BaseException:
                self._known = False  # the records in memory may be ahead of the files
                raise
            else:
                return outcomes
        raise OSError(errno.EBUSY, "files are changed by others as fast as they can be read", str(self.root))

    def _drafted(self, ops: list[Prepared], effects: list[Effect]) -> Outcome:
        try:
            drafted, counts = self.records.drafted(ops)
        except OctavoError as error:
            return error
        effects += drafted
        return counts

    def _keep(self, effects: list[Effect]) -> None:
        """Write the effects to the ledger and the files, all or none."""
        out = self.records.outgoing(effects)
        if not out.lines:
            return
        added = [b"".join(lines) for lines in out.lines.values()]
        parts: list[Part] = []
        staged: dict[str, _Staged] = {}
        begun = False
        try:
            parts.extend(self._planned(path, out, staged) for path in out.lines)
            self._ledger.begin(parts, added, sync=self._sync)
            begun = True
            for part, data in zip(parts, added, strict=True):
                if part.path in staged:
                    self._folder.place(staged[part.path].path, part.path)
                else:
                    self._folder.append(part.path, data)
            self._ledger.keep()
        except (OSError, _Meddled):
            self.records.not_kept(out)
            if begun:
                self._take_back(parts, staged)
            if staged:
                self._folder.sweep()
            raise
        self.records.kept(out, parts)
        if self._sync:
            self._unsynced.update(out.lines)
        self._tidy(out)

    def _planned(self, path: str, out: Outgoing, staged: dict[str, _Staged]) -> Part:
        """What adding its lines to a family comes to, after making room in its file."""
        family = self.records.families.get(path) or Family()
        if self._folder.size(path) != family.size:
            raise _Meddled(path)
        lines = out.lines[path]
        length = sum(map(len, lines))
        if self._folder.full(family.size, length):
            self._folder.archive(path, sync=path in self._unsynced)
            family.size = 0
        if not path.endswith(".json"):
            return Part(path, family.size, family.size + length, family.lines + len(lines), length)
        old = self._folder.read(path)
        content, more = self._merged(path, old or b"", lines)
        staged[path] = _Staged(self._folder.stage(content), old)
        return Part(path, family.size, len(content), family.lines + more, length)

    def _merged(self, path: str, old: bytes, lines: list[bytes]) -> tuple[bytes, int]:
        content, more, bad = merged(collection_of(path), old, lines, buried=bool(self._folder.archives(path)))
        if bad:
            self._folder.set_aside(path, bad)
        return content, more

    def _take_back(self, parts: list[Part], staged: dict[str, _Staged]) -> None:
        """Undo a write that failed; if even that fails, its frame stays in the ledger and is finished by the next."""
        for part in parts:
            if part.path not in staged:
                self._folder.cut(part.path, part.before)
            elif (old := staged[part.path].old) is None:
                self._folder.cut(part.path, 0)
            elif self._folder.read(part.path) != old:
                self._folder.place(self._folder.stage(old), part.path)
        self._ledger.drop()

    def _tidy(self, out: Outgoing) -> None:
        """Tidy what a write left behind; the write itself is done."""
        try:
            if untidy := [path for path in out.lines if self.records.families[path].untidy]:
                files = self._folder.families() if len(untidy) > 1 else {}
                for path in untidy:
                    self._rewrite(path, files.get(path) or [*self._folder.archives(path), path])
            if self._ledger.end > _LEDGER_BYTES:
                self._turn_over()
        except OSError as error:
            # The records are safe and the files say so; only what is no longer needed stays a little longer.
            _log.warning("%s could not be tidied: %s", self.root, error)
            self._known = False

    def _rewrite(self, path: str, files: list[str]) -> None:
        """Rewrite a family without its dead lines, or delete it when nothing else is left."""
        rows = self._folder.rows(path, files, whole=False)
        if rows.bad:
            self._folder.set_aside(path, rows.bad)
        size = self._folder.rewrite(path, files, rows.lines())
        if len(rows.kept) != self.records.families[path].live:
            self._known = False  # somebody edited the file
        self._ledger.begin([Part(path, size, size, len(rows.kept))], [], sync=False)
        self._ledger.keep()
        self.records.families[path] = Family(size, len(rows.kept), len(rows.kept))
        if not rows.kept:
            del self.records.families[path]

    def _turn_over(self) -> None:
        """Begin a new ledger, once the files no longer need the old one."""
        if self._unsynced:
            self._folder.sync(self._unsynced)
            self._unsynced = set()
        self._ledger.replace()

    def _made_room(self, error: OSError) -> bool:
        """Whether a disk that is full has more room now that the ledger was emptied."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return full and self._ledger.end > _WORTH_EMPTYING and self._turned_over()

    def _turned_over(self) -> bool:
        try:
            self._turn_over()
        except OSError:  # the old one serves as well, only longer
            return False
        return True

    # --- the rest

    def facts(self) -> dict[str, int]:
        """What the directory holds, in numbers."""
        files, size = self._folder.used()
        return {
            "files": files,
            "records": self.records.count(),
            "bytes": size,
            "damaged": self._folder.damaged(),
        }

    def close(self) -> None:
        """Let go of everything; whoever leaves last leaves an empty ledger. A second call does nothing."""
        try:
            if self._known and self.enter() and self._presence.alone():
                self.catch_up()
                if not self._ledger.fresh:
                    self._turned_over()
        finally:
            self._known = False
            self._ledger.close()
            self._presence.close()
            self._lock.close()

    def failure(self, error: OSError) -> StoreError:
        """The system's error as the store's, saying which path it is about."""
        kind = StoreUnavailable if error.errno in _PASSING else StoreError
        failure = kind(f"{error.strerror or error}: {error.filename or self.root}")
        failure.__cause__ = error
        return failure
