"""MySQL and MariaDB, as far as they differ from the other databases."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from octavo.stores.sql.dialects.base import Dialect, Row, chunks
from octavo.stores.sql.statements import Ask, Contended, Do, Duplicate, Script

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_encode = msgspec.json.Encoder().encode
#: Who is changing the schema, in a cluster of Galera; and for how long nobody else may if he dies.
_LOCKS, _LOCK_SECONDS = "`octavo_locks`", 60


class MySQL(Dialect):
    """MySQL 8 and MariaDB 10.5 or later; `binary` is the server's collation that compares byte for byte.

    `most_bytes` is the server's max_allowed_packet.
    """

    name = "mysql"
    scrubs = "OPTIMIZE TABLE"
    unreached = ("the server's redo, undo and binary logs, until it reuses or purges them",)
    # As bytes: UTF-8 holds a text where its bytes are, and comparing characters takes twice as long.
    contains = "LOCATE(CAST(CONVERT({1} USING utf8mb4) AS BINARY), CAST({0} AS BINARY)) > 0"
    no_limit = "18446744073709551615"
    hidden_time = "({} + INTERVAL 0 SECOND)"
    partial = False
    row_values = False  # MySQL reads the whole index for a row comparison
    # Without all of them it sorts every match of a LIMIT query.
    order_tail = ("created_at", "seq", "id", "place")

    def __init__(
        self, binary: str = "utf8mb4_nopad_bin", most_bytes: int = 16 << 20, *, galera: bool = False
    ) -> None:
        self.most_bytes: int = most_bytes
        self._galera = galera  # where GET_LOCK keeps away those of the same node only
        exact = f"CHARACTER SET utf8mb4 COLLATE {binary}"
        self.types = {  # type: ignore[misc] # depends on the server's flavour
            "name": f"VARCHAR(255) {exact}", "tenant": f"VARCHAR(64) {exact}",
            "place": "VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin", "text": f"LONGTEXT {exact}",
            "json": f"LONGTEXT {exact}", "time": "DATETIME(6)", "int": "BIGINT", "flag": "BOOLEAN",
            "rowno": "BIGINT AUTO_INCREMENT PRIMARY KEY",
        }  # fmt: skip

    @classmethod
    def of(cls, version: str, most_bytes: int, *, galera: bool = False) -> "MySQL":
        """As a server of this version, with this max_allowed_packet, wants to be asked."""
        binary = "utf8mb4_nopad_bin" if "mariadb" in version.lower() else "utf8mb4_0900_bin"
        return cls(binary, int(most_bytes), galera=galera)

    def quote(self, name: str) -> str:
        return f"`{name}`"

    def placeholder(self, number: int) -> str:
        del number
        return "%s"

    def time(self, at: datetime) -> str:
        # In UTC, which is not said.
        spelled = _encode(at)[1:-2].decode()
        return spelled if at.microsecond else f"{spelled}.000000"

    def moment(self, stored: datetime) -> datetime:
        return stored.replace(tzinfo=UTC)

    def lock_schema(self, name: str) -> Script[None]:
        # What was looked at before is forgotten: a snapshot from before the lock would not show what its last holder made,
        # and a row that a serializable transaction has read could not be written by whoever holds the lock.
        yield from self.save()
        if self._galera:
            yield from self._lock_all_nodes(name)
            return
        rows = yield Ask("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 30), %s), 60)", (f":{name}",))
        if rows[0][0] != 1:
            raise Contended("another process is changing the schema")

    def unlock_schema(self, name: str) -> Script[None]:
        yield from self.save()  # or the next one would find a version that is not there yet, and drop the table
        if self._galera:
            yield Do(f"DELETE FROM {_LOCKS} WHERE name = %s", (name,))
            yield from self.save()
            return
        yield Ask("SELECT RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 30), %s))", (f":{name}",))

    def _lock_all_nodes(self, name: str) -> Script[None]:
        """Put a row where no other node can have put one; that of somebody who died is taken away after a while."""
        yield Do(
            f"CREATE TABLE IF NOT EXISTS {_LOCKS} (name {self.types['name']} PRIMARY KEY, until DATETIME NOT NULL)"
        )
        yield Do(f"DELETE FROM {_LOCKS} WHERE name = %s AND until < UTC_TIMESTAMP()", (name,))
        yield from self.save()
        try:
            yield Do(
                f"INSERT INTO {_LOCKS} (name, until) VALUES (%s, UTC_TIMESTAMP() + INTERVAL {_LOCK_SECONDS} SECOND)",
                (name,),
            )
        except Duplicate as error:
            raise Contended("another process is changing the schema") from error
        yield from self.save()

    def save(self) -> Script[None]:
        yield Do("COMMIT")

    def exists(self, table: str) -> Script[bool]:
        rows = yield Ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s",
            (table,),
        )
        return bool(rows)

    def has_index(self, table: str, name: str) -> Script[bool]:
        rows = yield Ask(
            "SELECT 1 FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name = %s AND index_name = %s",
            (table, name),
        )
        return bool(rows)

    def insert(self, table: "Table", rows: list[Row]) -> Script[list[bool]]:
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=500, most_characters=self.most_bytes // 8):
            went_in += yield from self._insert_chunk(table.name, table.columns, chunk)
        return went_in

    def _insert_chunk(self, table: str, columns: Sequence[str], rows: list[Row]) -> Script[list[bool]]:
        """All rows in one statement; when a key is taken, the ones that are not; when that races, one by one.

        A failed statement undoes itself in InnoDB. INSERT IGNORE would also swallow truncation, and how many rows
        ON DUPLICATE KEY UPDATE reports depends on a flag of the connection.
        """
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        placeholders = f"({', '.join(['%s'] * len(columns))})"
        try:
            yield Do(head + ", ".join([placeholders] * len(rows)), [value for row in rows for value in row])
        except Duplicate:
            pass
        else:
            return [True] * len(rows)
        test, values = self.one_of(columns[0], [row[0] for row in rows], 1)
        taken = {
            tuple(row)
            for row in (yield Ask(f"SELECT {columns[0]}, {columns[1]} FROM {table} WHERE {test}", values))
        }
        went_in = []
        for row in rows:
            try:
                if (row[0], row[1]) not in taken:
                    yield Do(head + placeholders, row)
                    went_in.append(True)
                    continue
            except Duplicate:
                pass
            went_in.append(False)
        return went_in

    def upsert_counts(self, counts: str, rows: list[Row]) -> Script[None]:
        for chunk in chunks(rows, most_rows=1000):
            yield Do(
                f"INSERT INTO {counts} (counter, kind, slot, n) VALUES {', '.join(['(%s, %s, %s, %s)'] * len(chunk))} "
                "ON DUPLICATE KEY UPDATE n = n + VALUES(n)",
                [value for row in chunk for value in row],
            )
