"""MySQL and MariaDB, whichever client library is used: what must be asked differently, and what their errors mean."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from octavo.errors import InvalidQuery, StoreError, StoreUnavailable
from octavo.stores.sql.dialects import Dialect, Row, chunks
from octavo.stores.sql.statements import Ask, ConnectionLost, Contended, Do, Duplicate, Script

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_TAKEN = {1062}  # a unique key
_BUSY = {1205, 1213}  # lock wait time-out, deadlock
_LOST = {1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 2000, 2002, 2003, 2006, 2013, 2014, 2055, 4031}
#: Disk or memory full, too many connections, read-only.
_UNABLE = {1021, 1037, 1040, 1041, 1114, 1203, 1226, 1290, 1792, 1836, 3024}
_encode = msgspec.json.Encoder().encode


class MySQL(Dialect):
    """MySQL 8 and MariaDB 10.5 or later; `binary` is the server's collation that compares byte for byte.

    `most_bytes` is the server's max_allowed_packet.
    """

    name = "mysql"
    lists_table = (
        "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s"
    )
    # As bytes: UTF-8 holds a text where its bytes are, and comparing characters takes twice as long.
    contains = "LOCATE(CAST(CONVERT({1} USING utf8mb4) AS BINARY), CAST({0} AS BINARY)) > 0"
    no_limit = "18446744073709551615"
    hidden_time = "({} + INTERVAL 0 SECOND)"
    partial = False
    row_values = False  # MySQL reads the whole index for a row comparison
    # Without all of them it sorts every match of a LIMIT query.
    order_tail = ("created_at", "seq", "id", "place")

    def __init__(self, binary: str = "utf8mb4_nopad_bin", most_bytes: int = 16 << 20) -> None:
        self.most_bytes: int = most_bytes
        exact = f"CHARACTER SET utf8mb4 COLLATE {binary}"
        self.types = {  # type: ignore[misc] # depends on the server's flavour
            "name": f"VARCHAR(255) {exact}", "tenant": f"VARCHAR(64) {exact}",
            "place": "VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin", "text": f"LONGTEXT {exact}",
            "json": f"LONGTEXT {exact}", "time": "DATETIME(6)", "int": "BIGINT", "flag": "BOOLEAN",
            "rowno": "BIGINT AUTO_INCREMENT PRIMARY KEY",
        }  # fmt: skip

    @classmethod
    def of(cls, version: str, most_bytes: int) -> "MySQL":
        """As a server of this version, with this max_allowed_packet, wants to be asked."""
        return cls(
            "utf8mb4_nopad_bin" if "mariadb" in version.lower() else "utf8mb4_0900_bin", int(most_bytes)
        )

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
        rows = yield Ask("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 30), %s), 60)", (f":{name}",))
        if rows[0][0] != 1:
            raise Contended("another process is changing the schema")

    def unlock_schema(self, name: str) -> Script[None]:
        yield from self.save()  # or the next one would find a version that is not there yet, and drop the table
        yield Ask("SELECT RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 30), %s))", (f":{name}",))

    def save(self) -> Script[None]:
        yield Do("COMMIT")

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


def error_of(number: int, message: str) -> StoreError:
    """The error that a number stands for."""
    if number in _TAKEN:
        return Duplicate(message)
    if number in _BUSY:
        return Contended(message)
    if number in _LOST:
        return ConnectionLost(message)
    return StoreUnavailable(message) if number in _UNABLE else StoreError(message)


def in_parts(statement: Ask, most: int) -> Script[Any]:
    """Send the statement with its long values ahead of it, piece by piece, as variables of the session.

    See docs/decisions/017-large-records.md.
    """
    # In characters: each is four bytes at most, or two when it is escaped, so that half of the packet stays free.
    piece = most // 8
    texts = statement.sql.split("%s")
    sql, values, names = texts[0], [], []
    for number, (value, text) in enumerate(zip(statement.values, texts[1:], strict=True)):
        if not isinstance(value, str) or len(value) <= most // 256:
            values.append(value)
            sql += f"%s{text}"
            continue
        size = len(value.encode())
        # CONCAT would come to NULL. Records have been looked at before, so this is a text to look for.
        if size > most:
            raise InvalidQuery(_too_long("a text", size, most))
        name = f"@octavo_{number}"
        names.append(name)
        sql += name + text
        yield Do(f"SET {name} = %s", (value[:piece],))
        for start in range(piece, len(value), piece):
            yield Do(f"SET {name} = CONCAT({name}, %s)", (value[start : start + piece],))
    # Every byte may be escaped, and each value has quotes; a number or a NULL takes no more than that.
    rest = len(sql.encode()) + sum([2 * len(str(value).encode()) + 3 for value in values])
    if rest >= most:
        raise InvalidQuery(_too_long("a query", rest, most) + ", or ask for fewer ids at once")
    if not names:  # it was only thought to be too long
        return (yield statement)
    forget = Do(f"SET {', '.join([f'{name} = NULL' for name in names])}")
    try:
        answer = yield type(statement)(sql, values)
    except StoreError:
        yield forget
        raise
    # Not in `finally`: of a call that was cancelled nobody runs the rest; its connection goes, and they with it.
    yield forget
    return answer


def _too_long(what: str, size: int, most: int) -> str:
    return f"{what} of {size} bytes is more than this MySQL server takes; raise its max_allowed_packet of {most} bytes"
