"""What a SQL database must be asked differently from the others: one class for each, and what the store asks of it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from octavo.stores.sql.statements import Script

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table
    from octavo.stores.sql.term_index import SqlTermIndex

Row = Sequence[Any]


class Counters(NamedTuple):
    """What new rows move: the table of counters, the slot to count in, and for each counted axis the counter of each row."""

    table: str
    slot: int
    names: list[list[str]]


class Dialect:
    """One database's spelling of types, placeholders, functions and conflict-ignoring inserts."""

    name: ClassVar[str]
    terms: "ClassVar[type[SqlTermIndex]]"  # its index of terms
    types: ClassVar[dict[str, str]]
    contains: ClassVar[str]  # a format of column and needle
    lock_rows: ClassVar[str] = " FOR UPDATE"
    no_limit: ClassVar[str]
    # What follows a placeholder of a type that its position does not tell.
    casts: ClassVar[dict[str, str]] = {}
    #: A format of a text column and a value: whether they are equal, for which the planner chooses no index.
    hidden_equal: ClassVar[str] = "{} = {}"
    #: A format of a text column: the same, for which a planner that knows of no sizes chooses no index.
    hidden_name: ClassVar[str] = "{}"
    #: A format of a time: the same, for which the planner chooses no index.
    hidden_time: ClassVar[str]
    partial: ClassVar[bool] = True  # whether an index may be of some rows only
    row_values: ClassVar[bool] = True  # whether (a, b) > (x, y) walks an index
    #: Rows that are inserted and counted in one statement; 0 where that cannot be.
    most_counted: ClassVar[int] = 0
    #: The end of every index that gives an order.
    order_tail: ClassVar[tuple[str, ...]] = ("created_at", "seq")
    slots: ClassVar[int] = 16  # rows of each counter, so that processes do not wait for each other
    #: What has a server give back the room of removed rows, before the name of a table.
    scrubs: ClassVar[str] = ""
    unreached: ClassVar[tuple[str, ...]] = ()  # where such rows may stay all the same
    octets: str = "OCTET_LENGTH({})"  # a format of a text column: how many bytes it has
    most_bytes: int | None = None  # that one column of one row may have, where the server has a say in it

    def quote(self, name: str) -> str:
        """A name of a table or column as it stands in a statement."""
        return f'"{name}"'

    def placeholder(self, number: int) -> str:
        """The placeholder of the number-th value, counted from 1."""
        raise NotImplementedError

    def one_of(self, column: str, values: Sequence[str], first: int) -> tuple[str, list[Any]]:
        """A test that the column is one of many values, and what to bind from placeholder `first` on."""
        placeholders = ", ".join(self.placeholder(first + offset) for offset in range(len(values)))
        return f"{column} IN ({placeholders})", list(values)

    def as_text(self, column: str) -> str:
        """A JSON column as the text that was stored."""
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
        """Let the next one change the schema."""
        del name
        yield from ()

    def save(self) -> Script[None]:
        """Commit what was done so far, where the next CREATE would do so anyway."""
        yield from ()

    def exists(self, table: str) -> Script[bool]:
        """Whether there is a table of this name, whoever made it."""
        raise NotImplementedError

    def has_index(self, table: str, name: str) -> Script[bool]:
        """Whether the table has this index; only asked about what may have been made outside of a transaction."""
        del table, name
        yield from ()
        return False

    def insert(self, table: "Table", rows: list[Row], counters: Counters | None = None) -> Script[list[bool]]:
        """Insert what is not there yet; answer for each row whether it went in.

        With `counters`, for no more than `most_counted` rows, they move in the same statement, which is all of the transaction.
        """
        raise NotImplementedError

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        """Add each n to its counter (counter, kind, slot)."""
        raise NotImplementedError


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
