"""MySQL and MariaDB, as far as they differ from the other databases, whichever client library is used."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from octavo.errors import InvalidQuery, StoreError, StoreUnavailable
from octavo.kernel.model import NAMES_HELD
from octavo.stores.sql.dialects import Counters, Dialect, Row, chunks
from octavo.stores.sql.statements import ConnectionLost, Contended, Do, Duplicate, Fetch, Script, in_list
from octavo.stores.sql.term_index import AT_ONCE, IndexedRecord, ScopeTags, SqlTermIndex

if TYPE_CHECKING:
    from octavo.stores.sql.schema import Table

_encode = msgspec.json.Encoder().encode
#: Who is changing the schema, in a cluster of Galera; and for how long nobody else may if he dies.
_LOCKS, _LOCK_SECONDS = "`octavo_locks`", 60
#: A connection that is gone, or a node of Galera that the others have left (1047).
_LOST = {
    1047, 1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 2000, 2002, 2003, 2006, 2013, 2014, 2055, 4031,
}  # fmt: skip
#: Disk or memory full, too many connections, read-only, a commit of which nobody knows (1180).
_UNABLE = {1021, 1037, 1040, 1041, 1114, 1180, 1203, 1226, 1290, 1792, 1836, 3024}


class MySQLTerms(SqlTermIndex):
    """A table of postings. Each record says itself that it waits, so that an append takes no further statement."""

    # In a caller's transaction of REPEATABLE READ a plain select sees only what was there when the transaction began to
    # read; a claim sees all, and a record claimed but not seen would count as indexed.
    as_claimed = " FOR UPDATE"
    shared = False

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        self.postings = table.dialect.quote(f"{table.plain_name}_postings")
        self.flagged = table.dialect.quote(f"{table.plain_name}_unindexed")
        self.waits = "unindexed = 1"
        self.late = (f"{table.name} FORCE INDEX ({self.flagged})", self.waits)

    def names(self) -> tuple[str, ...]:
        return (f"{self.table.plain_name}_terms", f"{self.table.plain_name}_postings")

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
        yield from self._flag(numbers, 1)

    def claim(self, most: int) -> Script[list[int]]:
        source, test = self.late
        # Rows that somebody is writing now are left for later: waiting for a caller's transaction could take for ever.
        sql = f"SELECT rowno FROM {source} WHERE {test} LIMIT {int(most)} FOR UPDATE SKIP LOCKED"
        return [row[0] for row in (yield Fetch(sql))]

    def settle(self, numbers: Sequence[int]) -> Script[None]:
        yield from self._flag(numbers, 0)

    def _flag(self, numbers: Sequence[int], flag: int) -> Script[None]:
        for start in range(0, len(numbers), AT_ONCE):
            some = in_list(numbers[start : start + AT_ONCE])
            yield Do(f"UPDATE {self.table.name} SET unindexed = {flag} WHERE rowno IN ({some})")

    def put(self, entries: list[IndexedRecord]) -> Script[None]:
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
        for start in range(0, len(postings), 5 * AT_ONCE):
            some = ", ".join(
                [f"({found}, {number})" for found, number in postings[start : start + 5 * AT_ONCE]]
            )
            # One that should not be there is no reason to fail.
            yield Do(
                f"INSERT INTO {self.postings} (token, number) VALUES {some} ON DUPLICATE KEY UPDATE token = token"
            )

    def forget(self, numbers: Sequence[int]) -> Script[None]:
        old = yield from self.entries(numbers)
        for one in old:
            held = sorted(_tokens(one))
            for start in range(0, len(held), AT_ONCE):
                some = in_list(held[start : start + AT_ONCE])
                yield Do(
                    f"DELETE FROM {self.postings} WHERE number = {int(one.number)} AND token IN ({some})"
                )
        yield from self._delete(self.terms, [one.number for one in old])

    def candidates(self, values: list[Any], asked: ScopeTags, words: Sequence[str] | None) -> tuple[str, str]:
        del values  # numbers need no placeholder
        if words is None:
            found = f"SELECT number FROM {self.postings} WHERE token = {_token(asked.tags[0])}"
        else:
            found = self._select_holders(asked._replace(tags=asked.tags[:1]), words)
        source = f"({found}) AS p STRAIGHT_JOIN {self.terms} AS b ON b.number = p.number"
        return f"{source} STRAIGHT_JOIN {self.table.name} ON rowno = p.number", ""

    def count(
        self, values: list[Any], asked: ScopeTags, words: Sequence[str], but: Sequence[int], most: int
    ) -> str:
        del values
        test = f" AND p.number NOT IN ({in_list(but)})" if but else ""
        held = self._select_holders(asked, words, test)
        return f"(SELECT COUNT(*) FROM ({held} LIMIT {int(most)}) AS held)"

    def _select_holders(self, asked: ScopeTags, words: Sequence[str], test: str = "") -> str:
        """A select of the records, each once, that hold any of the words and have all of the tags and words asked for.

        The list of a word grows with what everybody has, that of a tag does not: the server begins with the shorter one. It can
        tell for a word at a time only.
        """
        tenant = asked.tenant  # a word is looked up together with it
        named = [_token(tag) for tag in asked.tags if tag != tenant]
        named += [_token(tenant, word) for word in asked.words]
        tokens = sorted({_token(tenant, word) for word in words})
        if not named:
            picked = "p.number" if len(tokens) == 1 else "DISTINCT p.number"
            return f"SELECT {picked} FROM {self.postings} AS p WHERE p.token IN ({in_list(tokens)}){test}"
        source = f"{self.postings} AS p"
        for at, token in enumerate(named):
            source += f" JOIN {self.postings} AS g{at} ON g{at}.token = {token} AND g{at}.number = p.number"
        return " UNION ".join(
            [f"SELECT p.number FROM {source} WHERE p.token = {token}{test}" for token in tokens]
        )

    def size(self, asked: ScopeTags, most: int) -> Fetch:
        some = f"SELECT 1 FROM {self.postings} WHERE token = {_token(asked.tags[0])} LIMIT {int(most)}"
        return Fetch(f"SELECT COUNT(*) FROM ({some}) AS inside")


class MySQL(Dialect):
    """MySQL 8 and MariaDB 10.5 or later; `binary` is the server's collation that compares byte for byte.

    `most_bytes` is the server's max_allowed_packet.
    """

    name = "mysql"
    terms = MySQLTerms
    scrubs = "OPTIMIZE TABLE"
    unreached = ("the server's redo, undo and binary logs, until it reuses or purges them",)
    # As bytes: UTF-8 holds a text where its bytes are, and comparing characters takes twice as long.
    contains = "LOCATE(CAST(CONVERT({1} USING utf8mb4) AS BINARY), CAST({0} AS BINARY)) > 0"
    no_limit = "18446744073709551615"
    hidden_time = "({} + INTERVAL 0 SECOND)"
    partial = False
    row_values = False  # MySQL reads the whole index for a row comparison
    # Without all of them it sorts every match of a LIMIT query.
    order_tail = ("created_at", "seq", "id", "scope_key")

    def __init__(
        self, binary: str = "utf8mb4_nopad_bin", most_bytes: int = 16 << 20, *, galera: bool = False
    ) -> None:
        self.most_bytes: int = most_bytes
        self._galera = galera  # where GET_LOCK keeps away those of the same node only
        exact = f"CHARACTER SET utf8mb4 COLLATE {binary}"
        self.types = {  # type: ignore[misc] # depends on the server's flavour
            "name": f"VARCHAR(255) {exact}", "tenant": f"VARCHAR(64) {exact}",
            "digest": "VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin", "text": f"LONGTEXT {exact}",
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
        rows = yield Fetch("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 30), %s), 60)", (f":{name}",))
        if rows[0][0] != 1:
            raise Contended("another process is changing the schema")

    def unlock_schema(self, name: str) -> Script[None]:
        yield from self.save()  # or the next one would find a version that is not there yet, and drop the table
        if self._galera:
            yield Do(f"DELETE FROM {_LOCKS} WHERE name = %s", (name,))
            yield from self.save()
            return
        yield Fetch("SELECT RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 30), %s))", (f":{name}",))

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
        rows = yield Fetch(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s",
            (table,),
        )
        return bool(rows)

    def has_index(self, table: str, name: str) -> Script[bool]:
        rows = yield Fetch(
            "SELECT 1 FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name = %s AND index_name = %s",
            (table, name),
        )
        return bool(rows)

    def insert(self, table: "Table", rows: list[Row], counters: Counters | None = None) -> Script[list[bool]]:
        del counters  # they are moved by themselves
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
            for row in (yield Fetch(f"SELECT {columns[0]}, {columns[1]} FROM {table} WHERE {test}", values))
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


@lru_cache(maxsize=NAMES_HELD)
def _token(tag: str, word: str = "") -> int:
    """A tag, or a word of the tenant that has this tag, as a number of 64 bits."""
    raw = hashlib.blake2b(f"{tag} {word}".encode(), digest_size=8).digest()
    return int.from_bytes(raw, signed=True)


def _tokens(entry: IndexedRecord) -> set[int]:
    """Every number under which an entry is found."""
    named = entry.tags.split(" ")
    words = [word for word in entry.bag.split(" ") if word]
    return {*(_token(named[0], word) for word in words), *(_token(tag) for tag in named)}


def error_of(number: int, message: str) -> StoreError:
    """The error that a number stands for."""
    if number == 1062:  # a unique key
        return Duplicate(message)
    # A lock time-out; a deadlock, which is also what Galera calls a conflict with another node's commit.
    if number in (
        1205,
        1213,
    ):
        return Contended(message)
    if number in _LOST:
        return ConnectionLost(message)
    return StoreUnavailable(message) if number in _UNABLE else StoreError(message)


def send_in_parts(statement: Fetch, most: int) -> Script[Any]:
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
