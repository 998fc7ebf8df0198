"""metadata.json: what was in both the file and the store when they last agreed. Blocking code."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from octavo.errors import StoreError
from octavo.service.vault.folder import Stamp, write_error
from octavo.util.disk import make_folder, replace_file

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
    before: str | None = None  # the md5 of what the store may still have, until it is known to have this
    stamp: Stamp | None = None  # of the file that was read, if an edit would show in it

    @property
    def known(self) -> frozenset[str | None]:
        """The texts that this vault has itself sent to the store, or had from it."""
        return frozenset((self.md5, self.before))

    @property
    def synced(self) -> bool:
        """Whether the store is known to have it."""
        return self.synced_at is not None


class Ledger:
    """The entries of one vault by key. Whoever saves them holds the vault's lock."""

    def __init__(self, root: Path) -> None:
        self._path = root / "metadata.json"
        self._bad = root / "metadata.json.bad"
        self._read: tuple[Stamp | None, dict[str, LedgerEntry]] = (None, {})
        self.damaged = False  # whether the file, as it was last read, could not be

    def load(self) -> dict[str, LedgerEntry]:
        """The entries, for the caller to change; what is damaged is made anew by the next sync."""
        try:
            stamp = Stamp.of(self._path.stat())
            if stamp != self._read[0]:
                entries, raw, damaged = dict[str, LedgerEntry](), self._path.read_bytes(), True
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    entries, damaged = msgspec.json.decode(raw, type=dict[str, LedgerEntry]), False
                self._read, self.damaged = (stamp, entries), damaged
        except (FileNotFoundError, NotADirectoryError):
            self._read, self.damaged = (None, {}), False
        except OSError as error:
            raise StoreError(f"the vault cannot read {self._path}: {error.strerror}") from error
        return dict(self._read[1])

    def save(self, entries: dict[str, LedgerEntry]) -> None:
        """Write these entries, whole or not at all; a damaged file is kept under another name."""
        if entries == self.load() and not self.damaged:
            return
        spelled = msgspec.json.format(msgspec.json.encode(dict(sorted(entries.items()))), indent=1)
        try:
            make_folder(self._path.parent)
            if self.damaged:
                self._path.replace(self._bad)
            replace_file(self._path, [spelled, b"\n"])
            self._read, self.damaged = (Stamp.of(self._path.stat()), dict(entries)), False
        except OSError as error:
            raise write_error(self._path, error) from error

    def drop_damaged(self) -> None:
        """Delete what was kept of a damaged file: nobody can say whose documents it names."""
        self._bad.unlink(missing_ok=True)
