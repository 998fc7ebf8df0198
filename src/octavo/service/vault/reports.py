"""What a vault says of itself."""

from datetime import datetime

import msgspec

from octavo.service.vault.folder import Problem


class SyncReport(msgspec.Struct, kw_only=True):
    """What a sync did, by key, and what it could not do yet."""

    pushed: list[str] = msgspec.field(default_factory=list)  # new or edited files, now in the store
    pulled: list[str] = msgspec.field(default_factory=list)  # texts of the store, now in files
    conflicts: list[str] = msgspec.field(
        default_factory=list
    )  # both changed: the file won, the other is a version
    removed: list[str] = msgspec.field(default_factory=list)  # deleted files, now gone from the store
    unlinked: list[str] = msgspec.field(
        default_factory=list
    )  # documents deleted elsewhere, whose files are now gone
    pending: list[str] = msgspec.field(default_factory=list)  # not known to be in the store yet
    problems: list[Problem] = msgspec.field(default_factory=list)
    unchanged: int = 0
    store_error: str | None = None  # why the store could not be asked; the next sync goes on

    @property
    def changed(self) -> int:
        """How many documents are different now, here or in the store."""
        done = (self.pushed, self.pulled, self.conflicts, self.removed, self.unlinked)
        return sum(len(keys) for keys in done)

    @property
    def complete(self) -> bool:
        """Whether files and store now agree, but for the files named as problems."""
        return self.store_error is None and not self.pending


class VaultStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a vault stands, as its files tell; the store is not asked."""

    root: str
    documents: dict[str, int]  # by kind
    unsynced: list[
        str
    ]  # keys of files that are not known to be in the store as they are, and of deleted files
    problems: list[Problem]
    synced_at: datetime | None  # when files and store last agreed on some document
    watching: bool = False
    last_error: str | None = None
