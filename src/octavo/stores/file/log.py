"""How a batch of writes comes into the files and the index beside them, so that neither is ever half right.

The files are the truth: every record can be read from them alone. `.octavo/index.db` is an ordinary SQLite store with the
same records, made from the files, which answers all questions; whoever deletes it loses nothing but the time to read the
files again. It also notes the size and time of every file as it last knew it (`octavo_files`), so that a file which
somebody else has changed is noticed, and the index made anew.

A batch is written under the lock of the folder and inside one transaction of the index:

1. What the batch comes to is worked out from the index, and entered into the index; nobody else sees that yet.
2. The *intent* is written into the lock's own file: the number of the batch, and for every file it will touch the size
   before, and the size and checksum afterwards.
3. The lines are appended to the files. With `sync=fsync` the intent is synced before, and the files after that, many at once.
4. The transaction commits, and with it the batch's number and the new sizes. Only then is the write acknowledged.

Whoever takes the lock next looks at the intent that is left behind:

* Its number is committed: the batch is done. The same is taken for granted when the index is new.
* It is cut short, so that it cannot be read: no file was touched.
* Otherwise its writer was killed between 2 and 4, or the power was cut and the index forgot its last transactions. If
  all files have all that was to be added, the batch stands: it may have been acknowledged. If any of them lacks some of
  it, it was not acknowledged, and all of them are cut back. So a batch is in all of its files or in none.

When it stands, the files are ahead of the index, which its notes tell, and the index is made anew. A write that fails (a
full disk, a commit that fails) is taken back at once; if even that fails, the next holder of the lock decides as above.

Readers ask the index, never the files: they need no lock, and see a batch when it is committed, whole.
"""

import contextlib
import errno
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from octavo.errors import StoreError, StoreUnavailable
from octavo.kernel.codec import CheckedAdd, Prepared, seal
from octavo.kernel.model import Query, Remove, Scope
from octavo.kernel.shapes import SHAPES, StoredRecord
from octavo.stores.draft import Effect, Key, Lookup, draft_effects
from octavo.stores.file.files import DataFiles, FileLayout, IntentLock, Part, family_of
from octavo.stores.file.lines import spelling
from octavo.stores.sql import reading, writing
from octavo.stores.sql.dialects.sqlite import SQLite
from octavo.stores.sql.drivers.sqlite import run, transact
from octavo.stores.sql.migrations import ensure
from octavo.stores.sql.schema import Table, Tables

LOCK_SECONDS = 30.0  # a process that holds the lock longer is stuck
_DEAD_LINES = 256  # below this many, rewriting a file to be rid of them is not worth it
_PASSING = {
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.EBUSY,
}  # fmt: skip
_TABLES = """
CREATE TABLE IF NOT EXISTS octavo_files (
    path TEXT PRIMARY KEY, size INTEGER, changed_ns INTEGER, lines INTEGER, live INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS octavo_homes (
    collection TEXT, id TEXT, scope_key TEXT, path TEXT, PRIMARY KEY (collection, id, scope_key, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS octavo_batches (only INTEGER PRIMARY KEY, number INTEGER);
"""
_log = logging.getLogger(__name__)


class _Intent(msgspec.Struct, frozen=True, array_like=True):
    """What the holder of the lock is about to do."""

    number: int
    parts: list[Part]


class _Plan(msgspec.Struct):
    """What is left to do of writes that were entered into the index: lines for each family, and changes of homes."""

    lines: dict[str, list[bytes]]
    live: dict[str, int]  # how many more records each family has
    counts: list[int] = []  # of each operation
    noted: dict[str, tuple[int, int, int, int]] = {}
    moved_in: list[tuple[str, ...]] = []
    moved_out: list[tuple[str, ...]] = []


_intent = msgspec.json.Decoder(_Intent).decode


class FileLog:
    """The one writer of a folder in this process; used by one thread, with its connection to the index."""

    def __init__(self, root: Path, layout: FileLayout) -> None:
        self._layout = layout
        self._files = DataFiles(root, layout)
        self._lock = IntentLock(root / ".octavo" / "lock")
        self._done = b""  # the last intent that this process has done
        self._db: apsw.Connection
        self._tables: Tables

    # --- opening

    def open(self, db: apsw.Connection, *, on_disk: bool) -> None:
        """Make the index anew if the files are not what it knows them as; one in memory leaves the folder as it is."""
        self._db, self._tables = db, Tables(SQLite())
        db.execute(_TABLES)
        with self._translate_errors():
            if not on_disk:
                transact(db, lambda _: self._build(mend=False))
            elif not self._is_current():
                with self._lock.hold(LOCK_SECONDS):
                    self._recover()
                    if not self._is_current():
                        transact(db, lambda _: self._build())

    def close(self) -> None:
        """Let go of the lock's file."""
        self._lock.close()

    def _is_current(self) -> bool:
        """Whether the index was made of the files as they are."""
        rows: Any = self._db.execute("SELECT path, size, changed_ns FROM octavo_files WHERE changed_ns > 0")
        names = [name for family in self._files.families().values() for name in family]
        states = {name: self._files.state(name) for name in names}
        return self._number > 0 and states == {path: (size, changed_ns) for path, size, changed_ns in rows}

    def _build(self, *, mend: bool = True) -> None:
        """Make the index anew from the files; with `mend`, what cannot be read is taken out of them."""
        left = _decode_intent(self._lock.read()) if mend else None
        number = max(self._number, left.number if left else 1)  # what is left there is done, or undone
        self._clear()
        for family, names in self._files.families().items():
            lines, ragged = self._files.read(family, names)
            records = lines.records
            if mend and lines.bad:
                _log.warning(
                    "%d damaged lines of %s were set aside", len(lines.bad), self._files.path(family)
                )
                self._files.quarantine(family, lines.bad)
            if mend and (lines.bad or ragged or not records):
                self._files.rewrite(names, lines)
            self._enter_family(family, records)
            self._note_family(family, names, lines.total, len(records))
        if mend:
            self._files.sweep()
        self._set_number(number)

    def _clear(self) -> None:
        self._db.execute("DELETE FROM octavo_files; DELETE FROM octavo_homes")
        for collection, shape in SHAPES.items():
            if run(self._db, self._tables.dialect.exists(shape.table)):
                table = self._table(collection)
                rows: Any = self._db.execute(f"SELECT DISTINCT {table.column('tenant')} FROM {table.name}")
                for (tenant,) in rows.fetchall():
                    self._enter([Remove(Query(collection=collection, scope=Scope(tenant=tenant)))])

    def _enter_family(self, family: str, records: list[StoredRecord]) -> None:
        """Enter what a family holds; of two copies of a record the one changed last counts, and both files stay its homes."""
        keys = [sealed.key for sealed in records]
        copied = self._kept_keys(records[0].collection, keys) if records else set()
        new = [sealed for sealed in records if sealed.key not in copied]
        homes = [_home_row(sealed, family) for sealed in new if family != _default_home(sealed)]
        for sealed in (sealed for sealed in records if sealed.key in copied):
            homes += [_home_row(sealed, path) for path in (*self._homes(sealed), family)]
            query = _query_ids(sealed.collection, sealed.scope, [sealed.id])
            if sealed.updated_at > self._find(query)[0].updated_at:
                self._enter([Remove(query)])
                new.append(sealed)
        self._db.executemany("INSERT OR IGNORE INTO octavo_homes VALUES (?, ?, ?, ?)", homes)
        self._enter([CheckedAdd(new)])

    # --- writing

    def commit(self, batches: Sequence[list[Prepared]], check: Callable[[], None]) -> list[list[int]]:
        """Apply batches in order, all of them or none, and answer the counts of each once they are kept.

        Under the lock `check` fails if the index is not the folder's any more.
        """
        parts: list[Part] = []
        with self._translate_errors(), self._lock.hold(LOCK_SECONDS):
            try:
                check()
                self._recover()
                untidy, counts, intent = transact(self._db, lambda _: self._write(batches, parts))
            except BaseException:
                self._tables.by_collection.clear()  # some may have been made only now, and are gone again
                self._take_back(parts)
                raise
            self._done = intent
            self._tidy(untidy, parts)
        answers = iter(counts)
        return [[next(answers) for _ in batch] for batch in batches]

    def _write(
        self, batches: Sequence[list[Prepared]], parts: list[Part]
    ) -> tuple[list[str], list[int], bytes]:
        """Write batches; answer which families should be tidied, the counts and the intent. `parts` tells what to take back."""
        ops = [op for batch in batches for op in batch]
        plan = self._enter_into_index(ops)
        if not plan.lines:
            return [], plan.counts, self._done
        if plan.moved_out:
            moved_out = "DELETE FROM octavo_homes WHERE collection = ? AND id = ? AND scope_key = ?"
            self._db.executemany(moved_out, plan.moved_out)
        if plan.moved_in:
            self._db.executemany("INSERT OR IGNORE INTO octavo_homes VALUES (?, ?, ?, ?)", plan.moved_in)
        additions = [
            self._files.plan(family, lines, plan.noted[family][:2]) for family, lines in plan.lines.items()
        ]
        number = self._number + 1
        intent = msgspec.json.encode(_Intent(number, [addition.part for addition in additions]))
        sync = self._layout.sync == "fsync"
        self._lock.write(intent, sync=sync)
        parts += [addition.part for addition in additions]
        for addition in additions:
            self._files.do(addition)
        if sync:
            self._files.sync(parts)
        untidy, rows = [], []
        for addition in additions:
            family, archive = addition.part.path, addition.part.archive
            _, _, lines, live = plan.noted[family]
            lines, live = lines + addition.lines, live + plan.live[family]
            rows.append((family, *self._files.state(family), lines, live))
            if archive:
                rows.append((archive, *self._files.state(archive), 0, 0))
            if not live or lines - live > max(live, _DEAD_LINES):
                untidy.append(family)
        self._note(rows)
        self._set_number(number)
        return untidy, plan.counts, intent

    def _enter_into_index(self, ops: list[Prepared]) -> _Plan:
        """Enter operations into the index; answer what is left to do."""
        if all(isinstance(op, CheckedAdd) for op in ops):  # nearly always, and nearly always all of it is new
            effects = [
                Effect(None, sealed) for op in ops if isinstance(op, CheckedAdd) for sealed in op.records
            ]
            plan = self._plan(effects)
            if self._is_known(plan):
                plan.counts = self._enter(ops)
                if sum(plan.counts) == len(effects):
                    return plan
                self._db.execute("ROLLBACK; BEGIN IMMEDIATE")
                self._tables.by_collection.clear()
        effects, counts = draft_effects(ops, self._answer)
        plan = self._plan(effects)
        if not self._is_known(plan):
            self._build()  # somebody else has changed a file
            effects, counts = draft_effects(ops, self._answer)
            plan = self._plan(effects)
        plan.counts = counts
        gone: dict[tuple[str, Scope], list[str]] = {}
        for before in (effect.before for effect in effects if effect.before is not None):
            gone.setdefault((before.collection, before.scope), []).append(before.id)
        removals = [Remove(_query_ids(*where, names)) for where, names in gone.items()]
        self._enter([*removals, CheckedAdd([effect.after for effect in effects if effect.after is not None])])
        return plan

    def _is_known(self, plan: _Plan) -> bool:
        """Whether the files it touches are as they are noted."""
        return all(self._files.state(family) == known[:2] for family, known in plan.noted.items())

    def _plan(self, effects: list[Effect]) -> _Plan:
        """The lines that say what has become of each record, and where they go."""
        lines: defaultdict[str, list[bytes]] = defaultdict(list)
        live: defaultdict[str, int] = defaultdict(int)
        plan = _Plan(lines, live)
        for effect in effects:
            before, after = effect.before, effect.after
            sealed: Any = after or before
            homes = [self._home(sealed)] if before is None else self._homes(before)
            if before is None and homes[0] != _default_home(sealed):
                plan.moved_in.append(_home_row(sealed, homes[0]))
            elif after is None:
                plan.moved_out.append((sealed.collection, *sealed.key))
            line = spelling(sealed.collection).line(sealed, removed=after is None)
            change = (after is not None) - (before is not None)
            for home in homes:  # a newer line goes to every file that holds the record
                lines[home].append(line)
                live[home] += change
        plan.noted = self._read_notes(lines)
        return plan

    def _tidy(self, families: Iterable[str], parts: list[Part]) -> None:
        """Rewrite families without their dead lines, and delete backups; what was written stands, whatever comes of this."""
        try:
            for family in families:
                transact(self._db, lambda _, family=family: self._rewrite(family))  # type: ignore[misc]
            if any(part.backup for part in parts):
                self._files.sweep()
        except (OSError, apsw.Error) as error:
            _log.warning("%s could not be tidied: %s", self._files.root, error)

    def _rewrite(self, family: str) -> None:
        names = self._files.names(family)
        lines, _ = self._files.read(family, names)
        self._files.rewrite(names, lines)
        self._db.executemany(
            "DELETE FROM octavo_files WHERE path = ?", [(name,) for name in (*names, family)]
        )
        if live := len(lines.records):
            self._note_family(family, names, live, live)

    def scrub(self, check: Callable[[], None], progress: Callable[[int, int], None]) -> None:
        """Rewrite every file without its dead lines, and forget what was last intended: it names files of sessions."""
        with self._translate_errors(), self._lock.hold(LOCK_SECONDS):
            check()
            self._recover()
            if not self._is_current():
                transact(self._db, lambda _: self._build())
            families = list(self._files.families())
            for done, family in enumerate(families):
                progress(done, len(families))
                transact(self._db, lambda _, family=family: self._rewrite(family))  # type: ignore[misc]
            self._files.sweep()
            self._lock.write(b"")

    # --- what was left behind

    def _recover(self) -> None:
        """Undo what somebody died over, or follow it when it was done."""
        if (left := self._lock.read()) == self._done:
            return  # nobody has written since
        intent, number = _decode_intent(left), self._number
        if intent is None or not number or intent.number <= number:
            return
        if not all(self._files.is_done(part) for part in intent.parts):
            self._take_back(intent.parts)
        else:
            transact(self._db, lambda _: self._build())

    def _take_back(self, parts: list[Part]) -> None:
        """Undo a write that failed; should that fail too, whoever takes the lock next decides."""
        if parts:
            try:
                self._files.undo(parts)
                self._lock.write(b"")
            except OSError as error:
                _log.warning("a write to %s could not be taken back yet: %s", self._files.root, error)

    # --- the index

    @property
    def _number(self) -> int:
        """The number of the last batch in the index; 0 in one that was never filled."""
        rows: Any = self._db.execute("SELECT number FROM octavo_batches").fetchall()
        return int(rows[0][0]) if rows else 0

    def _set_number(self, number: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO octavo_batches VALUES (1, ?)", (number,))

    def _table(self, collection: str) -> Table:
        table = self._tables.by_collection.get(collection)
        if table is None:
            table = Table(SHAPES[collection], self._tables.dialect, "")
            run(self._db, ensure(table))
            self._tables.by_collection[collection] = table
        return table

    def _enter(self, ops: list[Prepared]) -> list[int]:
        """Apply operations to the index; answer the count of each."""
        for collection in {
            sealed.collection for op in ops if isinstance(op, CheckedAdd) for sealed in op.records
        }:
            self._table(collection)
        return run(self._db, writing.apply_all(self._tables, [ops]))[0]

    def _answer(self, question: Lookup | Query) -> list[Any]:
        """Answer a draft's question."""
        if isinstance(question, Query):
            return self._find(question)
        return list(self._kept_keys(question.collection, question.keys))

    def _find(self, query: Query) -> list[StoredRecord]:
        return [seal(record) for record in run(self._db, reading.find(self._table(query.collection), query))]

    def _kept_keys(self, collection: str, keys: Iterable[Key]) -> set[Key]:
        """Which of these keys are kept."""
        table, asked = self._table(collection), set(keys)
        name = table.column("id")
        sql = f"SELECT {name}, scope_key FROM {table.name} WHERE {name} IN (SELECT value FROM json_each(?))"
        rows: Any = self._db.execute(sql, (msgspec.json.encode([key[0] for key in asked]).decode(),))
        return asked.intersection(rows)

    def _read_notes(self, families: Iterable[str]) -> dict[str, tuple[int, int, int, int]]:
        """What is noted of each family: size and time of the file that is written to, lines, and how many records live."""
        sql = "SELECT * FROM octavo_files WHERE path = ?"
        rows: Any = self._db.executemany(sql, [(family,) for family in families])
        return dict.fromkeys(families, (0, 0, 0, 0)) | {path: tuple(noted) for path, *noted in rows}

    def _note_family(self, family: str, names: Iterable[str], lines: int, live: int) -> None:
        """Note what the files of a family look like now, and how many lines and records they hold in all."""
        rows = [(name, *self._files.state(name), 0, 0) for name in names if name != family]
        self._note([*rows, (family, *self._files.state(family), lines, live)])

    def _note(self, rows: list[tuple[Any, ...]]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO octavo_files VALUES (?, ?, ?, ?, ?)", rows)

    # --- which files hold a record: those that are noted, or else the one of the default layout

    def _home(self, sealed: StoredRecord) -> str:
        """The family this layout gives a new record to."""
        session = sealed.scope.session if self._layout.per_session else None
        return family_of(sealed.collection, session, f".{self._layout.format}")

    def _homes(self, sealed: StoredRecord) -> list[str]:
        sql = "SELECT path FROM octavo_homes WHERE collection = ? AND id = ? AND scope_key = ?"
        rows: Any = self._db.execute(sql, (sealed.collection, *sealed.key))
        return [path for (path,) in rows] or [_default_home(sealed)]

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """The system's errors as the store's, saying which path they are about."""
        try:
            yield
        except OSError as error:
            kind = StoreUnavailable if error.errno in _PASSING else StoreError
            raise kind(f"{error.strerror or error}: {error.filename or self._files.root}") from error


def _decode_intent(left: bytes) -> _Intent | None:
    """The intent that was left behind, if there is one."""
    return _intent(left) if left else None


def _query_ids(collection: str, scope: Scope, ids: Sequence[str]) -> Query:
    """The query that finds the records of these ids in exactly this scope."""
    exact = Scope(
        tenant=scope.tenant, user=scope.user or "", agent=scope.agent or "", session=scope.session or ""
    )
    return Query(collection=collection, ids=tuple(ids), scope=exact)


def _default_home(sealed: StoredRecord) -> str:
    return family_of(sealed.collection, sealed.scope.session, ".jsonl")


def _home_row(sealed: StoredRecord, family: str) -> tuple[str, ...]:
    return (sealed.collection, *sealed.key, family)
