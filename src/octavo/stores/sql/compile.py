"""From a Query to SQL, clause for clause as `Query.matches` has them. Names come from Shape, values are always bound."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from octavo.kernel.model import Query, Scope
from octavo.kernel.shapes import encode_entry
from octavo.kernel.text import fold, spellings
from octavo.stores.sql.schema import Table, mark_line
from octavo.stores.sql.statements import Fetch

#: The fields a record is read back from, in order; those of its scope that the query does not fix come after them.
READ = (
    ("id", "name"), ("kind", "name"), ("text", "text"), ("data", "json"), ("metadata", "json"), ("marks", "text"),
    ("created_at", "time"), ("updated_at", "time"), ("expires_at", "time"), ("seq", "int"),
)  # fmt: skip
PARTS = ("tenant", "user", "agent", "session")
_EQUAL = "{} = {}"
_FEW_MARKS = 8  # that are looked for in the text of a row


def open_parts(scope: Scope) -> tuple[str, ...]:
    """The parts of the scope that differ between the answers to one query."""
    return tuple([part for part in PARTS[1:] if getattr(scope, part) is None])


@lru_cache(maxsize=16)
def read_with(parts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """READ and these parts of the scope."""
    return (*READ, *((part, "name") for part in parts))


class Where:
    """The conditions of a query as SQL, with the values they bind."""

    def __init__(
        self, table: Table, query: Query, values: list[Any] | None = None, *, along: str = ""
    ) -> None:
        self.table = table
        self.dialect = table.dialect
        self.values: list[Any] = [] if values is None else values
        self.tests: list[str] = []
        self._add_scope(query, along)
        if query.ids is not None:
            self.tests.append(self._one_of(self.column("id"), list(dict.fromkeys(query.ids))))
        self._add_kinds(query)
        self._add_times(query)
        self._add_marks(query)
        for name, value in query.where.items():
            metadata = self.dialect.as_text(self.column("metadata"))
            self._add_any(metadata, [f"\n{encode_entry(name, spelled)}\n" for spelled in spellings(value)])
        if query.text:
            self._add_any(self.column("search"), [fold(query.text)])
        self._add_after(query)

    @property
    def sql(self) -> str:
        return " AND ".join(self.tests)

    def column(self, field: str) -> str:
        return self.table.column(field)

    def bind(self, value: Any) -> str:
        self.values.append(value)
        return self.dialect.placeholder(len(self.values))

    def _add_scope(self, query: Query, along: str) -> None:
        scope = query.scope
        if scope.exact and ("scope_key",) in self.table.shape.axes:
            # A page of a mark that many have is best cut out of the order; all that have it are best looked up.
            marked = (
                self.table.marks and query.marks is not None and query.ids is None and query.limit is None
            )
            test = self.dialect.hidden_equal if marked else _EQUAL
            self.tests.append(test.format(self.column("scope_key"), self.bind(scope.key)))
            return
        # For a few ids a planner without statistics walks a whole tenant, along the index that also gives the order.
        hidden = self.dialect.hidden_equal
        usual = hidden if query.ids is not None else _EQUAL
        self.tests.append(usual.format(self.column("tenant"), self.bind(scope.tenant)))
        # What is nobody's is much: a session, or the axis along which is read, is the shorter way in. Not so a user's own: one
        # session may be that of all users who name none.
        axes = self.table.shape.axes
        way_in = ("session" if scope.session else along,)
        user = hidden if scope.user == "" and way_in in axes else usual
        # An agent may be that of all users, and to be without one is what most records have in common: a user, or a session, is
        # the shorter way in. SQLite, which knows of no sizes, took the agent.
        shorter = (scope.user and ("user",) in axes) or (scope.session and ("session",) in axes)
        agent = hidden if shorter else usual
        tests = (("user", scope.user, user), ("agent", scope.agent, agent), ("session", scope.session, usual))
        for part, value, test in tests:
            if value is not None:
                self.tests.append(test.format(self.column(part), self.bind(value)))

    def _add_kinds(self, query: Query) -> None:
        """Of a whole tenant, one kind is read along its index; what somebody has is the shorter way in than a kind."""
        column, kinds = self.column("kind"), query.kinds
        if kinds is not None and self.table.shape.by_kind:
            if len(kinds) == 1 and query.scope == Scope(tenant=query.scope.tenant):
                self.tests.append(_EQUAL.format(column, self.bind(kinds[0])))
                return
            column = self.dialect.hidden_name.format(column)
        if kinds is not None:
            self.tests.append(self._one_of(column, list(dict.fromkeys(kinds))))

    def _one_of(self, column: str, names: Sequence[str]) -> str:
        test, values = self.dialect.one_of(column, names, len(self.values) + 1)
        self.values += values
        return test

    def _add_times(self, query: Query) -> None:
        if query.since is not None:
            self.tests.append(f"{self.column('created_at')} >= {self._bind_time(query.since)}")
        if query.until is not None:
            self.tests.append(f"{self.column('created_at')} < {self._bind_time(query.until)}")
        if query.alive_at is not None:
            expires = self.column("expires_at")
            self.tests.append(f"({expires} IS NULL OR {expires} > {self._bind_time(query.alive_at)})")
        if query.expired_at is not None:
            self.tests.append(f"{self.column('expires_at')} <= {self._bind_time(query.expired_at)}")

    def _bind_time(self, at: datetime) -> str:
        return self.bind(self.dialect.time(at))

    def _add_marks(self, query: Query) -> None:
        marks = self.column("marks")
        if query.marks is not None:
            # Of rows that are looked up by id, the row itself says which marks it has: joined with the rows of a mark,
            # each of those was compared with each id.
            looked_up = query.ids is not None and len(query.marks) <= _FEW_MARKS
            if self.table.marks and query.scope.exact and not looked_up:
                scope_key = self.bind(query.scope.key)
                marked = self._one_of("mark", list(dict.fromkeys(query.marks)))
                rows = f"SELECT rowno FROM {self.table.marks} WHERE scope_key = {scope_key} AND {marked}"
                self.tests.append(f"rowno IN ({rows})")
            else:
                self._add_any(marks, [mark_line(mark) for mark in query.marks])
        for mark in query.without:
            self.tests.append(f"NOT {self.dialect.contains.format(marks, self.bind(mark_line(mark)))}")

    def _add_any(self, column: str, needles: list[str]) -> None:
        tests = [self.dialect.contains.format(column, self.bind(needle)) for needle in needles]
        self.tests.append(f"({' OR '.join(tests)})")

    def _add_after(self, query: Query) -> None:
        if query.after is None or (rank := query.after.rank) is None:
            return
        sign = "<" if query.newest_first else ">"
        order = self.table.order
        values = [self.dialect.time(rank[0]), *rank[1:]]
        if self.dialect.row_values:
            placeholders = ", ".join(self.bind(value) for value in values)
            self.tests.append(f"({', '.join(order)}) {sign} ({placeholders})")
            return
        cases = []
        for depth in range(len(order)):
            same = [f"{order[i]} = {self.bind(values[i])}" for i in range(depth)]
            cases.append(f"({' AND '.join([*same, f'{order[depth]} {sign} {self.bind(values[depth])}'])})")
        self.tests.append(f"({' OR '.join(cases)})")


def select(
    table: Table,
    query: Query,
    picked: str,
    *,
    order: int = 4,
    more: int = 0,
    lock: bool = False,
) -> Fetch:
    """The statement that answers the query; `order` is how many parts of the rank the database sorts by."""
    where = Where(table, query)
    dialect = table.dialect
    way = "" if reads_forward(query) else " DESC"
    sql = f"SELECT {picked} FROM {table.name} WHERE {where.sql}"
    first, *rest = table.order[:order]
    if query.ids is not None or query.expired_at is not None:
        # Those few are sorted in no time; else a whole tenant is walked in order, to find them.
        first = dialect.hidden_time.format(first)
    sql += " ORDER BY " + ", ".join([f"{column}{way}" for column in (first, *rest)])
    if query.limit is not None or query.offset:
        limit = dialect.no_limit if query.limit is None else where.bind(query.limit + more)
        sql += f" LIMIT {limit}"
        if query.offset:
            sql += f" OFFSET {where.bind(query.offset)}"
    return Fetch(sql + dialect.lock_rows if lock else sql, where.values, whole=not lock)


def reads_forward(query: Query) -> bool:
    """Whether the database is asked oldest first; when it is not, and the reader wants that, the answer is reversed."""
    return not query.newest_first and (query.after is not None or (query.limit is None and not query.offset))


def count(table: Table, query: Query) -> Fetch:
    """The statement that counts by kind what matches."""
    where = Where(table, query)
    kind, created = table.column("kind"), table.column("created_at")
    # Hidden, or SQLite would go along the index of kinds, through what everybody has.
    group = table.dialect.hidden_name.format(kind)
    return Fetch(
        f"SELECT {kind}, COUNT(*), MIN({created}), MAX({created}) FROM {table.name} WHERE {where.sql} GROUP BY {group}",
        where.values,
        whole=True,
    )


def count_from(counts: str, counter: str, table: Table, query: Query) -> Fetch:
    """The statement that reads the counters of a counter, and the first and last time by index."""
    created = table.column("created_at")
    values: list[Any] = []
    ends = [
        f"(SELECT {created} FROM {table.name} WHERE {Where(table, query, values).sql} ORDER BY {created}{way} LIMIT 1)"
        for way in ("", " DESC")
    ]
    values.append(counter)
    test = f"counter = {table.dialect.placeholder(len(values))}"
    if query.kinds is not None:
        kinds = list(dict.fromkeys(query.kinds))
        among, bound = table.dialect.one_of("kind", kinds, len(values) + 1)
        test += f" AND {among}"
        values += bound
    return Fetch(
        f"SELECT kind, SUM(n), {ends[0]}, {ends[1]} FROM {counts} WHERE {test} GROUP BY kind HAVING SUM(n) <> 0",
        values,
        whole=True,
    )
