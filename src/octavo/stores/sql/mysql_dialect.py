"""MySQL and MariaDB, as far as they differ from the other databases."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from octavo.errors import StoreError
from octavo.stores.sql.dialect import Dialect, Row, chunks
from octavo.stores.sql.statements import Ask, Contended, Do, Duplicate, Script, T

_encode = msgspec.json.Encoder().encode


class MySQL(Dialect):
    """MySQL 8 and MariaDB 10.5 or later; `binary` is the server's collation that compares byte for byte.

    `most_bytes` is the server's max_allowed_packet.
    """

    name = "mysql"
    # As bytes: UTF-8 holds a text where its bytes are, and comparing characters takes twice as long.
    contains = "LOCATE(CAST(CONVERT({1} USING utf8mb4) AS BINARY), CAST({0} AS BINARY)) > 0"
    no_limit = "18446744073709551615"
    sorted_late = "({} + INTERVAL 0 SECOND)"
    partial = False
    row_values = False  # MySQL reads the whole index for a row comparison
    order_tail = (
        "created_at",
        "seq",
        "id",
        "place",
    )  # without all of them it sorts every match of a LIMIT query

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

    def hole(self, number: int) -> str:
        del number
        return "%s"

    def time(self, at: datetime) -> str:
        # In UTC, which is not said. (`isoformat` takes 1.5 µs; this takes 0.4.)
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

    def hurried(self, script: Script[T]) -> Script[T]:
        waits = "SET SESSION lock_wait_timeout = {0}, SESSION innodb_lock_wait_timeout = {0}"
        yield Do(waits.format(1))
        try:
            done = yield from script
        except StoreError:
            yield Do(waits.format("DEFAULT"))
            raise
        # Not in `finally`: of a call that was cancelled nobody runs the rest, and its connection is not used again.
        yield Do(waits.format("DEFAULT"))
        return done

    def exists(self, table: str) -> Script[bool]:
        rows = yield Ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s",
            (table,),
        )
        return bool(rows)

    def insert(
        self, table: str, columns: tuple[str, ...], types: tuple[str, ...], rows: list[Row]
    ) -> Script[list[bool]]:
        del types
        went_in: list[bool] = []
        for chunk in chunks(rows, most_rows=500, most_characters=self.most_bytes // 8):
            went_in += yield from self._insert_chunk(table, columns, chunk)
        return went_in

    def _insert_chunk(self, table: str, columns: Sequence[str], rows: list[Row]) -> Script[list[bool]]:
        """All rows in one statement; when a key is taken, the ones that are not; when that races, one by one.

        A failed statement undoes itself in InnoDB. INSERT IGNORE would also swallow truncation, and how many rows
        ON DUPLICATE KEY UPDATE reports depends on a flag of the connection.
        """
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        holes = f"({', '.join(['%s'] * len(columns))})"
        try:
            yield Do(head + ", ".join([holes] * len(rows)), [value for row in rows for value in row])
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
                    yield Do(head + holes, row)
                    went_in.append(True)
                    continue
            except Duplicate:
                pass
            went_in.append(False)
        return went_in

    def upsert_counts(self, table: str, rows: list[Row]) -> Script[None]:
        for chunk in chunks(rows, most_rows=1000):
            yield Do(
                f"INSERT INTO {table} (shelf, kind, slot, n) VALUES {', '.join(['(%s, %s, %s, %s)'] * len(chunk))} "
                "ON DUPLICATE KEY UPDATE n = n + VALUES(n)",
                [value for row in chunk for value in row],
            )

    def unless_indexed(self, table: str, name: str, made: str) -> list[str]:
        """What makes an index that may be there: each CREATE commits, and somebody may have died right after it."""
        there = (
            "SELECT COUNT(*) FROM information_schema.statistics "
            f"WHERE table_schema = DATABASE() AND table_name = '{table}' AND index_name = '{name}'"
        )
        # MySQL has no CREATE INDEX IF NOT EXISTS; MariaDB has.
        return [
            f"SET @octavo = IF(({there}) = 0, '{made}', 'DO 0')",
            "PREPARE octavo FROM @octavo",
            "EXECUTE octavo",
            "DEALLOCATE PREPARE octavo",
        ]

    # Triggers would take a privilege that few accounts have where the server keeps a binary log.

    def reworded(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        made = (yield from self._indexes(table, versions)) if numbers else set()
        flags = [
            flag
            for name, flag in (("terms", "unindexed = 1"), ("substrings", "unsought = 2"))
            if name in made
        ]
        for start in range(0, len(numbers) if flags else 0, 1000):
            some = ", ".join([str(int(number)) for number in numbers[start : start + 1000]])
            yield Do(f"UPDATE {self.quote(table)} SET {', '.join(flags)} WHERE rowno IN ({some})")

    def removed(self, table: str, versions: str, numbers: Sequence[int]) -> Script[None]:
        if numbers and "terms" in (yield from self._indexes(table, versions)):
            for start in range(0, len(numbers), 1000):
                some = ", ".join([f"({int(number)})" for number in numbers[start : start + 1000]])
                yield Do(f"INSERT INTO {self.quote(f'{table}_waiting')} (number) VALUES {some}")

    def _indexes(self, table: str, versions: str) -> Script[set[str]]:
        # Asked after the table was touched, so that nobody can begin an index now; and as it is now, whatever the
        # snapshot of the caller's transaction says.
        sql = f"SELECT name FROM {versions} WHERE name IN (%s, %s) AND version > 0 LOCK IN SHARE MODE"
        rows = yield Ask(sql, (f"{table}_terms", f"{table}_substrings"))
        return {row[0].removeprefix(f"{table}_") for row in rows}
