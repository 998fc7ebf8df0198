"""A disk on which a sync costs what it does on real hardware, for every SQLite connection made through apsw."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw


class _File(apsw.VFSFile):
    sync_seconds = 0.0

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        time.sleep(self.sync_seconds)
        super().xSync(flags)


@contextmanager
def syncs_take(milliseconds: float) -> Iterator[None]:
    """While it lasts, each sync of a newly opened database takes this much longer."""

    class SlowFile(_File):
        sync_seconds = milliseconds / 1000

    # Named, since "" means the default one, which is about to be the slow disk itself.
    below = apsw.vfs_names()[0]

    class SlowDisk(apsw.VFS):
        def xOpen(self, name, flags):  # noqa: N802
            return SlowFile(below, name, flags)

    disk = SlowDisk("slow_disk", below, makedefault=True)
    try:
        yield
    finally:
        disk.unregister()
