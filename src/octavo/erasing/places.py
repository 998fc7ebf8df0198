"""Where somebody's data can be: the parts that a store was put together of, and what stands beside it."""

from pathlib import Path
from typing import Protocol, TypeAlias

from octavo.kernel.model import Op
from octavo.kernel.ports import Store, VectorIndex
from octavo.wraps import Wrap
from octavo.wraps.journal import Journal, Spool, peek
from octavo.wraps.vectors import Indexed

#: What is erased or read back in the order of these words.
Progress: TypeAlias = "ProgressCall | None"


class ProgressCall(Protocol):
    """Told what is done, how far it is, and how far it goes."""

    def __call__(self, what: str, done: int, total: int, /) -> None: ...


class Documents(Protocol):
    """A vault: documents as files beside the store."""

    root: Path

    async def erase(self, user: str, store: Store | None) -> list[str]: ...


class Places:
    """A store without its wraps, and these wraps: what is erased must not be queued, nor leave a marker behind."""

    def __init__(
        self, store: Store, *, queue: str | Path | None = None, vault: Documents | None = None
    ) -> None:
        self.journal: Journal | None = None
        self.index: VectorIndex | None = None
        while isinstance(store, Wrap):
            if isinstance(store, Journal):
                self.journal = store
            elif isinstance(store, Indexed):
                self.index = store.index
            store = store.inner
        self.store = store
        self.vault = vault
        self.queue = None if self.journal or queue is None or not Path(queue).is_dir() else Path(queue)

    @property
    def queue_folder(self) -> Path | None:
        """Where writes wait."""
        return self.queue if self.journal is None else Path(self.journal.status().directory)

    def spool(self) -> Spool:
        """The queue of a folder that this process has no journal for."""
        if self.queue is None:
            raise AssertionError("there is no queue")
        return Spool(self.queue)

    def queued(self) -> tuple[list[list[Op]], list[list[Op]]]:
        """The ops of all writes that wait, and of those that were given up."""
        folder = self.queue_folder
        if folder is None:
            return [], []
        return [entry.ops for entry in peek(folder)], [letter.ops for letter in Spool(folder).dead]

    def files(self) -> list[str]:
        """Every file beside the store."""
        folders = [self.queue_folder, None if self.vault is None else Path(self.vault.root)]
        return [
            str(path)
            for folder in folders
            if folder is not None and folder.is_dir()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
