"""From one store into another, and the engine under every move out of a store: pages, their count, and taking up where it stopped."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from io import FileIO
from pathlib import Path
from typing import Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.codec import encode_record
from octavo.kernel.model import START, Add, Cursor, Query, Record, Scope
from octavo.kernel.ports import ListsTenants, Store
from octavo.kernel.shapes import SHAPES
from octavo.kernel.text import spell
from octavo.util.disk import make_folder, open_file

PAGE_BYTES = 8 * 1024 * 1024
FIRST_PAGE = 100  # before the size of a collection's records is known, a thousand could fill the memory
MOST_COUNTED = 1000  # tenants; counting more beforehand would take longer than a progress bar is worth

#: Called after each batch with the records done so far and how many there are, or None when nobody knows.
Progress: TypeAlias = Callable[[int, int | None], None]


def path_of(store: Store) -> Path | None:
    """The file or folder of this disk that a store is; None of one that is elsewhere."""
    path = getattr(store, "path", None)
    return Path(path).resolve() if isinstance(path, str | Path) else None


def refuse_own_file(store: Store, path: Path | str) -> None:
    """ConfigError if a file that is to be written belongs to the store: its records would be gone."""
    own, file = path_of(store), Path(path).resolve()
    if own is None:
        return
    linked = own.exists() and file.exists() and file.samefile(own)
    beside = [Path(f"{own}{end}") for end in ("-wal", "-shm", "-journal")]  # as SQLite names them
    if linked or file.is_relative_to(own) or file in beside:
        raise ConfigError(f"{path} belongs to the store in {own}; name another file")


class Moved(msgspec.Struct, kw_only=True):
    """What a move came to: nothing is counted before the target has acknowledged it."""

    read: int = 0  # in this run
    added: int = 0  # of those, new to the target
    resumed: int = 0  # moved by an interrupted run before this one, and not read again
    bad: int = 0  # lines that hold no record; only an import has any
    tenants: int = 0  # looked through; only known when a store was read
    collections: dict[str, int] = msgspec.field(default_factory=dict)  # read in this run, by collection

    def count(self, records: Sequence[Record], progress: Progress | None, total: int | None) -> None:
        """Count what the target has acknowledged and tell whoever watches."""
        for record in records:
            self.collections[record.collection] = self.collections.get(record.collection, 0) + 1
        self.read += len(records)
        if progress is not None:
            done = self.resumed + self.read
            # A source that is written to while it is read can outgrow what it was counted as.
            progress(done, None if total is None else max(done, total))


class CopyStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a move has come: up to and including the record at the cursor, everything is in the target."""

    tenant: str = ""
    collection: str = ""
    cursor: Cursor = START
    read: int = 0
    offset: int = 0  # bytes of the file written or read so far
    line: int = 0
    crc: int = 0  # of those bytes, when they were read
    owed: int | None = None  # records since the header of the export being read; None outside one

    async def holds(self, target: Store) -> bool:
        """Whether the target still has the record this step ends with: a store may have been emptied since."""
        if self.cursor.at is None:
            return True
        query = Query(
            collection=self.collection,
            ids=(self.cursor.id,),
            scope=Scope(tenant=self.tenant),
            since=self.cursor.at,
            until=self.cursor.at + timedelta(microseconds=1),
        )
        return any(record.scope.key == self.cursor.scope_key for record in await target.find(query))


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    octavo_resume: int
    run: str


class Trail:
    """The steps of one move, a line for each acknowledged batch; `run` says which move, so that no other takes it up.

    It is kept in a file when a path is given, and only a shortcut: losing it costs time, never a record, since `Add`
    leaves alone what is already kept.
    """

    def __init__(self, path: Path | str | None, run: str) -> None:
        self._path = None if path is None else Path(path)
        self._run = run
        self._head = msgspec.json.encode(_Head(octavo_resume=1, run=run)) + b"\n"
        self._file: FileIO | None = None
        self.steps: dict[tuple[str, str], CopyStep] = {}
        self.last: CopyStep | None = None
        self._whole_bytes = self._load()

    def _load(self) -> int:
        """Take up the steps of an interrupted run; answer how many bytes of the file are whole lines."""
        if self._path is None or not self._path.exists():
            return 0
        found = self._path.read_bytes()
        if self._head.startswith(found):  # nothing was moved yet
            return 0
        # A kill can tear the last line: that batch is simply moved again.
        whole = found[: found.rfind(b"\n") + 1]
        first, *others = whole.splitlines() or [found]
        try:
            head = msgspec.json.decode(first, type=_Head)
            steps = [msgspec.json.decode(line, type=CopyStep) for line in others]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._path} is not the state of a move ({error}); name another file"
            ) from None
        if head.octavo_resume != 1 or head.run != self._run:
            raise ConfigError(f"{self._path} is the state of another move; remove it or name another file")
        for step in steps:
            self.steps[step.tenant, step.collection] = self.last = step
        return len(whole)

    def step(self, query: Query) -> CopyStep:
        """Where the move of one tenant's collection stands."""
        tenant, collection = query.scope.tenant, query.collection
        return self.steps.get((tenant, collection)) or CopyStep(tenant=tenant, collection=collection)

    def mark(self, step: CopyStep) -> None:
        """Write down that everything up to this step is acknowledged."""
        self.last = step
        if self._path is None:
            return
        if self._file is None:
            make_folder(self._path.parent)
            self._file = FileIO(self._path, "ab", opener=open_file)
            self._file.truncate(self._whole_bytes)
            if not self._whole_bytes:
                self._file.write(self._head)
        self._file.write(msgspec.json.encode(step) + b"\n")

    def clear(self) -> None:
        """Forget every step: the move starts from the beginning, or has come to its end."""
        self.close()
        self.steps.clear()
        self.last = None
        self._whole_bytes = 0
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._whole_bytes = self._file.tell()
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def check_state(path: Path) -> None:
    """ConfigError if the file is not the state of a move, and so nothing that may be removed."""
    with path.open("rb") as file:
        if not (begin := b'{"octavo_resume":').startswith(file.read(len(begin))):
            raise ConfigError(f"{path} is not the state of a move; name another file")


class CopiedRecords(msgspec.Struct, frozen=True):
    """Which records of a store are meant: these collections of these tenants, inside this scope."""

    tenants: list[str]
    collections: Sequence[str]
    scope: Scope

    @classmethod
    async def of(
        cls, store: Store, collections: Sequence[str] | None, scope: Scope | None
    ) -> "CopiedRecords":
        """What was asked for; without a scope, every tenant the store can name (the empty one when it cannot)."""
        named = tuple(SHAPES) if collections is None else tuple(dict.fromkeys(collections))
        if unknown := [name for name in named if name not in SHAPES]:
            raise ConfigError(f"unknown collection {unknown[0]!r}; known: {', '.join(SHAPES)}")
        if scope is not None:
            return cls([scope.tenant], named, scope)
        return cls(await store.tenants() if isinstance(store, ListsTenants) else [""], named, Scope())

    def queries(self) -> Iterator[Query]:
        """One question for each collection of each tenant."""
        for tenant in self.tenants:
            scope = msgspec.structs.replace(self.scope, tenant=tenant)
            for collection in self.collections:
                yield Query(collection=collection, scope=scope)

    async def total(self, store: Store, progress: Progress | None) -> int | None:
        """How many records there are: only for who watches, and not when counting would take long."""
        if progress is None or len(self.tenants) > MOST_COUNTED:
            return None
        return sum([(await store.tally(query)).total for query in self.queries()])

    def run(self, move: str) -> str:
        """A name for the move: the same words must be asked for again to take up its trail."""
        tenant = None if self.scope == Scope() else self.scope.tenant
        return spell([move, self.collections, tenant, self.scope.user, self.scope.agent, self.scope.session])


class Sink(Protocol):
    """Where the records of a store are moved to."""

    added: int  # records that this run brought

    async def begin(self, trail: Trail) -> bool:
        """Be ready to go on from the end of the trail; False when that is not there any more."""

    async def put(self, page: list[Record]) -> int:
        """Keep a page; answer the length of the file now, if there is one."""


async def move(
    store: Store, reach: CopiedRecords, sink: Sink, trail: Trail, batch: int, progress: Progress | None
) -> Moved:
    """Put every record of the reach into the sink, page by page, from the end of the trail on."""
    while True:
        moved = Moved(tenants=len(reach.tenants))
        total = await reach.total(store, progress)
        if not await sink.begin(trail):
            trail.clear()
            await sink.begin(trail)
        moved.resumed = sum(step.read for step in trail.steps.values())
        for query in reach.queries():
            begun = step = trail.step(query)
            async for page in _pages(store, query, begun.cursor, batch):
                offset, read = await sink.put(page), step.read + len(page)
                step = msgspec.structs.replace(step, cursor=page[-1].cursor, read=read, offset=offset)
                trail.mark(step)
                moved.added = sink.added
                moved.count(page, progress, total)
            if begun.read and (await store.tally(query)).total > step.read:
                break  # older records arrived behind the cursor while the move was interrupted: begin anew
        else:
            return moved
        trail.clear()


class _StoreSink:
    """A store as what is moved to."""

    def __init__(self, target: Store) -> None:
        self._target = target
        self.added = 0

    async def begin(self, trail: Trail) -> bool:
        return all([await step.holds(self._target) for step in trail.steps.values()])

    async def put(self, page: list[Record]) -> int:
        [added] = await self._target.apply([Add(page)])
        self.added += added
        return 0


async def copy(
    source: Store,
    target: Store,
    *,
    collections: Sequence[str] | None = None,
    scope: Scope | None = None,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Moved:
    """Add every record of the source to the target; what the target already keeps is left as it is.

    With `resume`, an interrupted copy that is called again with the same file goes on where it stopped.
    """
    size = check_size(batch)
    same = type(source) is type(target) and path_of(source) is not None
    if source is target or (same and path_of(source) == path_of(target)):
        raise ConfigError("the source and the target are one store; name two")
    reach = await CopiedRecords.of(source, collections, scope)
    with Trail(resume, reach.run("copy")) as trail:
        moved = await move(source, reach, _StoreSink(target), trail, size, progress)
        trail.clear()
    return moved


@runtime_checkable
class HasPages(Protocol):
    """A store that cannot go on from a cursor quickly, and reads page by page in a way of its own."""

    def pages(self, query: Query, after: Cursor, size: int) -> AsyncIterator[list[Record]]: ...


async def _pages(store: Store, query: Query, after: Cursor, size: int) -> AsyncIterator[list[Record]]:
    """The records past the cursor, oldest first, in pages that fit in memory."""
    if isinstance(store, HasPages):
        async for page in store.pages(query, after, size):
            yield page
        return
    limit = min(size, FIRST_PAGE)
    while True:
        page = await store.find(msgspec.structs.replace(query, after=after, limit=limit))
        if page:
            yield page
        if len(page) < limit:
            return
        after = page[-1].cursor
        weight_bytes = sum(len(encode_record(record)) for record in page)
        limit = max(1, min(size, PAGE_BYTES * len(page) // weight_bytes))


def check_size(batch: int) -> int:
    """The size of a batch, or ConfigError."""
    if batch < 1:
        raise ConfigError(f"a batch must have 1 record or more; got {batch}")
    return batch
