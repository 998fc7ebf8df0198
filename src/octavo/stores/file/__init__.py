"""Records as files that people can read: `file:///path/to/dir`."""

from octavo.stores.file.store import FileStore, open_file

__all__ = ["FileStore", "open_file"]
