"""metadata.json, what was in both the file and the store when they last agreed; what follows from it; and files as they are read."""

import threading
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from octavo.errors import StoreError
from octavo.service.vault.documents import Content, Document, parse
from octavo.service.vault.folder import Folder, Stamp, Unusable
from octavo.service.vault.names import DocumentAddress, key_of

NAME = "metadata.json"
_RACY_NS = 2 * 10**9  # some file systems tell times in steps of two seconds
_ROUNDS = 3
_Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One document as it was last sent or taken."""

    md5: str
    version: int
    size: int
    file_type: str
    synced_at: _Moment | None  # None until the store is known to have it
    path: str
    created_at: _Moment
    updated_at: _Moment
    #: What the store may still have instead, while it is not known to have `md5`.
    earlier: tuple[str, ...] = ()
    stamp: Stamp | None = None
    checked_ns: int = 0  # when the file was read that has this stamp

    def vouches(self, path: str, stamp: Stamp) -> bool:
        """Whether the file is surely the one that was read; one written in the same moment may differ unseen."""
        racy = min(abs(self.checked_ns - stamp.mtime_ns), abs(self.checked_ns - stamp.ctime_ns)) <= _RACY_NS
        return self.path == path and self.stamp == stamp and not racy

    @property
    def known(self) -> frozenset[str]:
        """The texts that this vault has itself sent to the store, or had from it."""
        return frozenset((self.md5, *self.earlier))

    @property
    def synced(self) -> bool:
        """Whether the store is known to have it."""
        return self.synced_at is not None


class Ledger:
    """The entries of one vault by key. Whoever saves it holds the vault's lock; `entries` are replaced, never changed."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.root / NAME
        self.entries: dict[str, LedgerEntry] = {}
        self.damaged = False  # whether the file, as it was last read, could not be
        self._stamp: Stamp | None = None
        self._reading = threading.Lock()  # readers do not hold the vault's lock

    def load(self) -> dict[str, LedgerEntry]:
        """The entries, read if the file is not the one read last; what is damaged is made anew by the next sync."""
        with self._reading:
            try:
                stamp = Stamp.of(self._path.stat())
                if stamp != self._stamp:
                    raw = self._path.read_bytes()
                    self._stamp, self.entries, self.damaged = stamp, {}, True
                    with suppress(msgspec.DecodeError, UnicodeDecodeError):
                        self.entries = msgspec.json.decode(raw, type=dict[str, LedgerEntry])
                        self.damaged = False
            except (FileNotFoundError, NotADirectoryError):
                self._stamp, self.entries, self.damaged = None, {}, False
            except OSError as error:
                raise StoreError(f"the vault cannot read {self._path}: {error.strerror}") from error
            return self.entries

    def save(self, entries: dict[str, LedgerEntry]) -> None:
        """Write these entries, whole or not at all; a damaged file is kept under another name."""
        if entries == self.entries and not self.damaged:
            return
        spelled = msgspec.json.format(msgspec.json.encode(dict(sorted(entries.items()))), indent=1)
        staged = self._folder.stage(NAME, spelled + b"\n")
        with self._reading:
            try:
                if self.damaged:
                    self._path.replace(f"{self._path}.bad")
                staged.replace(self._path)
                self._stamp = Stamp.of(self._path.stat())
            except OSError as error:
                self._stamp = None  # the next load must not take memory for what is on disk
                staged.unlink(missing_ok=True)
                raise StoreError(f"the vault cannot write {self._path}: {error.strerror}") from error
            self.entries, self.damaged = entries, False

    def drop_damaged(self) -> None:
        """Delete what was kept of a damaged file: nobody can say whose documents it names."""
        Path(f"{self._path}.bad").unlink(missing_ok=True)


class Verdict(Enum):
    """What is done about one document."""

    FORGET = "forget"  # it is nowhere: nothing to remember
    SAME = "same"
    PUSH = "pushed"  # the file's text goes to the store
    PULL = "pulled"  # the store's text goes to the file
    CONFLICT = "conflicts"  # both changed: the file's text wins, the store's is kept as a version
    REMOVE = "removed"  # the file was deleted: so is the record
    UNLINK = "unlinked"  # the document was deleted elsewhere: so is the file


def decide(
    file: str | None,
    store: str | None,
    known: Collection[str] | None,
    *,
    unconfirmed: bool = False,
    buried: bool = False,
) -> Verdict:
    """What to do, given the md5 of the file's text and of the store's, None where there is none.

    `known` are the texts this vault has had in both, None when it never had the document. `unconfirmed` says that the
    newest of them is not known to have reached the store, `buried` that the store remembers deleting the file's text.
    A record that is merely missing was lost with its database, and comes back from the file.
    """
    if file == store:
        return Verdict.FORGET if file is None else Verdict.SAME
    if store is None:
        gone = known is not None and file in known and not unconfirmed and buried
        return Verdict.UNLINK if gone else Verdict.PUSH
    if file is None:
        # Somebody changed what somebody else deleted: a text that nobody here has seen is not deleted unseen.
        return Verdict.REMOVE if known is not None and store in known else Verdict.PULL
    if known is None:
        return Verdict.CONFLICT
    if store in known:
        return Verdict.PUSH
    return Verdict.PULL if file in known and not unconfirmed else Verdict.CONFLICT


class FoundFile(msgspec.Struct, frozen=True):
    """A document's file as it was read; content and stamp are None when there is none."""

    address: DocumentAddress
    entry: LedgerEntry | None
    path: str  # where it is, or would be
    content: Content | None = None
    stamp: Stamp | None = None
    checked_ns: int = 0

    @property
    def key(self) -> str:
        """The document's key."""
        return self.address.key

    @property
    def md5(self) -> str | None:
        """Of the file's text."""
        return None if self.content is None else self.content.md5

    @property
    def settled(self) -> bool:
        """Whether the file says what this vault last sent to the store or had from it."""
        return self.entry is not None and self.md5 == self.entry.md5

    @property
    def document(self) -> Document:
        """The document, of a file that is there."""
        content, entry, stamp = self.content, self.entry, self.stamp
        if content is None or stamp is None:
            raise StoreError(f"the document {self.key!r} has no file")
        ours = entry if self.settled else None
        status: Literal["stored", "queued"] = "stored" if ours and ours.synced else "queued"
        return Document(
            key=self.key,
            kind=self.address.kind,
            body=content.body,
            front=content.front,
            updated_at=ours.updated_at if ours else stamp.written_at,
            version=(entry.version if entry else 0) + (ours is None),
            status=status,
        )


def look(
    folder: Folder, address: DocumentAddress, entry: LedgerEntry | None, path: str | None = None
) -> FoundFile:
    """Read the document's file; Unusable when it cannot be a document."""
    if path is None:
        # A damaged metadata.json may name any file: only one that has this key is believed.
        mine = entry is not None and key_of(entry.path) == address.key
        there = mine and entry is not None and (folder.root / entry.path).exists()
        path = entry.path if there and entry is not None else folder.locate(address)
    checked = time.time_ns()
    read = folder.read(path)
    if read is None:
        return FoundFile(address, entry, path)
    raw, stamp = read
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Unusable(f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise Unusable("it holds a NUL character")
    return FoundFile(address, entry, path, parse(text), stamp, checked)


def read_document(folder: Folder, address: DocumentAddress, entry: LedgerEntry | None) -> FoundFile:
    """Read the document's file, once more if somebody is writing it; StoreError when it cannot be a document."""
    for left in reversed(range(_ROUNDS)):
        try:
            return look(folder, address, entry)
        except Unusable as error:
            if not (left and error.passing):
                named = f"the document {address.key!r} cannot be read from {folder.root}"
                raise StoreError(f"{named}: {error}") from error
    raise AssertionError  # the last round returns or raises
