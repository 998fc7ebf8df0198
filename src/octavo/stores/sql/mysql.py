"""MySQL and MariaDB, whichever client library is used: dialect, index of terms, the meaning of errors, long statements."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from octavo.errors import InvalidQuery, StoreError, StoreUnavailable
from octavo.kernel.model import NAMES_HELD
from octavo.stores.sql.dialects import Dialect, Row, chunks
from octavo.stores.sql.statements import Ask, ConnectionLost, Contended, Do, Duplicate, Script, listed
from octavo.stores.sql.term_index import Entry, ScopeTags, TermIndex

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_TAKEN = {1062}  # a unique key
_BUSY = {1205, 1213}  # lock wait time-out, deadlock
_LOST = {1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 2000, 2002, 2003, 2006, 2013, 2014, 2055, 4031}
#: Disk or memory full, too many connections, read-only.
_UNABLE = {1021, 1037, 1040, 1041, 1114, 1203, 1226, 1290, 1792, 1836, 3024}
_AT_ONCE = 1000  # numbers in one statement
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


class MySQLTerms(TermIndex):
    """A table of postings. Each record says itself that it waits, so that an append takes no further statement."""

    join = "STRAIGHT_JOIN"
    beside = ("postings",)

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        self.postings = table.dialect.quote(f"{table.plain_name}_postings")
        flagged = table.dialect.quote(f"{table.plain_name}_unindexed")
        self.late = f"{table.name} FORCE INDEX ({flagged}) WHERE unindexed = 1"

    def create(self) -> list[str]:
        text = self.table.dialect.types["text"]
        return [
            (
                f"CREATE TABLE {self.terms} (number BIGINT PRIMARY KEY, length INTEGER NOT NULL, bag {text} NOT NULL, "
                f"more {text} NOT NULL, tags VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL)"
            ),
            f"CREATE TABLE {self.postings} (token BIGINT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (token, number))",
        ]

    def queue(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._each(f"UPDATE {self.table.name} SET unindexed = 1 WHERE rowno IN", numbers)

    def claim(self, most: int) -> Script[list[int]]:
        # Rows that somebody is writing now are left for later: waiting for a caller's transaction could take for ever.
        sql = f"SELECT rowno FROM {self.late} LIMIT {int(most)} FOR UPDATE SKIP LOCKED"
        return [row[0] for row in (yield Ask(sql))]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._each(f"UPDATE {self.table.name} SET unindexed = 0 WHERE rowno IN", numbers)

    def put(self, entries: list[Entry]) -> Script[None]:
        yield from self.forget([one.number for one in entries])
        most = (self.table.dialect.most_bytes or 0) // 8
        for chunk in chunks(list(entries), most_rows=500, most_characters=most):
            yield Do(
                f"INSERT INTO {self.terms} (number, length, bag, more, tags) VALUES "
                f"{', '.join(['(%s, %s, %s, %s, %s)'] * len(chunk))}",
                [value for row in chunk for value in row],
            )
        # In the order of the key: neighbours share a page.
        postings = sorted([(found, one.number) for one in entries for found in _tokens(one)])
        for start in range(0, len(postings), 5 * _AT_ONCE):
            some = [f"({found}, {number})" for found, number in postings[start : start + 5 * _AT_ONCE]]
            # One that should not be there is no reason to fail.
            yield Do(
                f"INSERT INTO {self.postings} (token, number) VALUES {', '.join(some)} "
                "ON DUPLICATE KEY UPDATE token = token"
            )

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        old: list[Entry] = []
        for start in range(0, len(numbers), _AT_ONCE):
            some = listed(numbers[start : start + _AT_ONCE])
            # Locked, hence as they are now, whatever the transaction saw before.
            sql = f"SELECT number, length, bag, more, tags FROM {self.terms} WHERE number IN ({some}) FOR UPDATE"
            old += [Entry(*row) for row in (yield Ask(sql))]
        for one in old:
            delete = f"DELETE FROM {self.postings} WHERE number = {int(one.number)} AND token IN"
            yield from self._each(delete, sorted(_tokens(one)))
        yield from self._each(f"DELETE FROM {self.terms} WHERE number IN", [one.number for one in old])

    def _each(self, statement: str, numbers: Sequence[int]) -> Script[None]:
        """Run a statement that ends with a list of numbers, for so many at once."""
        for start in range(0, len(numbers), _AT_ONCE):
            yield Do(f"{statement} ({listed(numbers[start : start + _AT_ONCE])})")

    def numbers(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> str:
        del values  # numbers need no placeholder
        tag = _token(asked.tags[0])
        if words is None:
            return f"SELECT number FROM {self.postings} WHERE token = {tag}"
        held = listed(sorted(_token(asked.tenant, word) for word in words))
        found = f"SELECT DISTINCT number FROM {self.postings} WHERE token IN ({held})"
        if asked.tags[0] == asked.tenant:
            return found
        # Looked up before the records, which are wide.
        tagged = f"STRAIGHT_JOIN {self.postings} AS g ON g.token = {tag} AND g.number = p.number"
        return f"SELECT p.number FROM ({found}) AS p {tagged}"


@lru_cache(maxsize=NAMES_HELD)
def _token(tag: str, word: str = "") -> int:
    """A tag, or a word of the tenant that has this tag, as a number of 64 bits."""
    raw = hashlib.blake2b(f"{tag} {word}".encode(), digest_size=8).digest()
    return int.from_bytes(raw, signed=True)


def _tokens(entry: Entry) -> set[int]:
    """Every number under which an entry is found."""
    named = entry.tags.split(" ")
    return {
        *(_token(named[0], word) for word in entry.bag.strip(" ").split(" ")),
        *(_token(tag) for tag in named),
    }


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
