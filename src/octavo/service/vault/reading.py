"""Reading documents from their files. Blocking code."""

import time
from datetime import UTC, datetime
from typing import Literal

import msgspec

from octavo.errors import StoreError
from octavo.service.vault.documents import Document
from octavo.service.vault.folder import Folder, Stamp, Unusable
from octavo.service.vault.front import Content, parsed
from octavo.service.vault.keys import Place, key_of
from octavo.service.vault.ledger import Entry

_ROUNDS = 3


class Found(msgspec.Struct, frozen=True):
    """A document's file as it was read; content and stamp are None when there is none."""

    place: Place
    entry: Entry | None
    path: str | None = None
    content: Content | None = None
    stamp: Stamp | None = None
    checked_ns: int = 0

    @property
    def settled(self) -> bool:
        """Whether the file says what this vault last sent to the store or had from it."""
        return self.content is not None and self.entry is not None and self.content.md5 == self.entry.md5

    @property
    def document(self) -> Document:
        """The document, of a file that is there."""
        content, entry, stamp = self.content, self.entry, self.stamp
        if content is None or stamp is None:
            raise StoreError(f"the document {self.place.key!r} has no file")
        ours = entry if self.settled else None
        status: Literal["stored", "queued"] = "stored" if ours and ours.synced else "queued"
        return Document(
            key=self.place.key,
            kind=self.place.kind,
            body=content.body,
            front=content.front,
            updated_at=ours.updated_at if ours else moment(stamp),
            version=(entry.version if entry else 0) + (ours is None),
            status=status,
        )


def look(folder: Folder, place: Place, entry: Entry | None, path: str | None = None) -> Found:
    """Read the document's file; Unusable when it cannot be a document."""
    path = path or _path(folder, place, entry)
    checked = time.time_ns()
    read = folder.read(path) if path is not None else None
    if path is None or read is None:
        return Found(place, entry)
    raw, stamp = read
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Unusable(f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise Unusable("it holds a NUL character")
    return Found(place, entry, path, parsed(text), stamp, checked)


def read(folder: Folder, place: Place, entry: Entry | None) -> Found:
    """Read the document's file, once more if somebody is writing it; StoreError when it cannot be a document."""
    for left in reversed(range(_ROUNDS)):
        try:
            return look(folder, place, entry)
        except Unusable as error:
            if not (left and error.passing):
                raise StoreError(
                    f"the document {place.key!r} cannot be read from {folder.root}: {error}"
                ) from error
    raise AssertionError  # the last round returns or raises


def moment(stamp: Stamp) -> datetime:
    """When the file was last written, as its file system tells it."""
    return datetime.fromtimestamp(stamp.mtime_ns / 10**9, UTC)


def _path(folder: Folder, place: Place, entry: Entry | None) -> str | None:
    # A damaged metadata.json may name any file: only one that has this key is believed.
    mine = entry is not None and key_of(entry.path) == place.key
    if entry is not None and mine and (folder.root / entry.path).exists():
        return entry.path
    return folder.locate(place)
