"""What a SQL database must be asked differently from the others."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from octavo.stores.sql.statements import Script, T

Row = Sequence[Any]


class Counters(NamedTuple):
    """What new rows move: the table of counters, the slot to count in, and for each counted axis the shelf of each row."""

    table: str
    slot: int
    shelves: list[list[str]]


class Dialect:
    """One database's spelling of types, placeholders, functions and conflict-ignoring inserts."""

    name: ClassVar[str]
    types: ClassVar[dict[str, str]]
    contains: ClassVar[str]  # a format of column and needle
    lock_rows: ClassVar[str] = " FOR UPDATE"
    no_limit: ClassVar[str]
    unindexed: ClassVar[str] = (
        "{}"  # a format of a text column: the same, but no index is chosen for its sake
    )
    aside: ClassVar[str] = "{}"  # a format of any column where a narrower index is at hand than the one on it
    sorted_late: ClassVar[str]  # a format of a time column to order by: no index is walked for its order
    partial: ClassVar[bool] = True  # whether an index may be of some rows only
    row_values: ClassVar[bool] = True  # whether (a, b) > (x, y) walks an index
    most_whole: ClassVar[int] = (
        0  # rows that `insert_whole` takes; none where it takes several statements anyway
    )
    order_tail: ClassVar[tuple[str, ...]] = ("created_at", "seq")
    listed: ClassVar[str] = ""  # a format of a query that selects texts: all of them as one JSON array
    octets: str = "OCTET_LENGTH({})"  # a format of a text column: how many bytes it has
    most_bytes: int | None = None  # that one column of one row may have, where the server has a say in it
    counts_later: ClassVar[bool] = (
        False  # whether appends leave the counters to a later sweep over the newest rows
    )

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def hole(self, number: int) -> str:
        """The placeholder of the number-th value, counted from 1."""
        raise NotImplementedError

    def typed_hole(self, number: int, type_: str) -> str:
        """A placeholder where the database cannot tell from its place what it will be given."""
        del type_
        return self.hole(number)

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        """A test that the column is one of many values, and what to bind from placeholder `first` on."""
        holes = ", ".join(self.hole(first + offset) for offset in range(len(values)))
        return f"{column} IN ({holes})", list(values)

    def readable(self, column: str, type_: str) -> str:
        """The column as it must be selected to come back as the text that was stored."""
        del type_
        return column

    def spelled(self, collection: str, columns: Mapping[str, str], parts: Sequence[str]) -> str:
        """A record as JSON, where `listed` says how many become one text; binds its scope from after these parts on."""
        raise NotImplementedError

    def as_text(self, column: str) -> str:
        """A JSON column as text."""
        return column

    def time(self, at: datetime) -> Any:
        """A moment as this database takes it."""
        raise NotImplementedError

    def moment(self, stored: Any) -> datetime:
        """A stored time as an aware one."""
        raise NotImplementedError

    def lock_schema(self, name: str) -> Script[None]:
        """Hold off everybody else who wants to change the schema, until `unlock_schema` or the end of the transaction."""
        raise NotImplementedError

    def unlock_schema(self, name: str) -> Script[None]:
        del name
        yield from ()

    def save(self) -> Script[None]:
        """Commit what was done so far, where the next CREATE would do so anyway."""
        yield from ()

    def hurried(self, script: Script[T]) -> Script[T]:
        """The same script, which gives up when a lock is not to be had within a second."""
        raise NotImplementedError

    def exists(self, table: str) -> Script[bool]:
        raise NotImplementedError

    def insert(
        self, table: str, columns: tuple[str, ...], types: tuple[str, ...], rows: list[Row]
    ) -> Script[list[bool]]:
        """Insert what is not there yet; answer for each row whether it went in."""
        raise NotImplementedError

    def insert_whole(
        self,
        table: str,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        rows: list[Row],
        counters: "Counters",
    ) -> Script[list[bool]]:
        """Insert and count in one statement that is all of the transaction; at most `most_whole` rows."""
        raise NotImplementedError

    def unless_indexed(self, table: str, name: str, made: str) -> list[str]:
        """What makes an index, where one that was made by somebody who died is not there any more."""
        del table, name
        return [made]

    def upsert_counts(self, table: str, rows: list[Row]) -> Script[None]:
        """Add each n to its counter (shelf, kind, slot)."""
        raise NotImplementedError

    def reworded(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        """Tell the index of terms, if the table has one, that these rows have another text; here a trigger does so."""
        del table, versions, numbers
        yield from ()

    def removed(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        """Tell the index of terms, if the table has one, that these rows are gone; here a trigger does so."""
        del table, versions, numbers
        yield from ()


def chunks(rows: list[Row], most_rows: int, most_characters: int | None = None) -> Iterator[list[Row]]:
    """Rows in groups small enough for one statement."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        weight = sum([len(value) for value in row if type(value) is str]) if most_characters else 0
        if chunk and (len(chunk) >= most_rows or (most_characters and size + weight > most_characters)):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += weight
    if chunk:
        yield chunk
