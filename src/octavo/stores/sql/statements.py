"""Database work as scripts: generators that yield statements and are sent the answers.

A script knows SQL and no driver; a driver runs any script, in a thread (apsw) or on the event loop (asyncpg, asyncmy,
SQLAlchemy). So each piece of work is written once, though half of the drivers are blocking and half are not.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from octavo.errors import StoreError, StoreUnavailable

T = TypeVar("T")
PAUSE_CHARACTERS = 20_000  # of text that a script works on before it lets others go


class Fetch:
    """Send a statement, get its rows as tuples.

    A `whole` one that begins its script is a transaction by itself: nothing else is written, and what is read after it is read anew.
    """

    def __init__(self, sql: str, values: Sequence[Any] = (), *, whole: bool = False) -> None:
        self.sql = sql
        self.values = values
        self.whole = whole


class Do(Fetch):
    """Send a statement, get the number of rows it inserted or deleted."""


class Build(Do):
    """Send a statement that may take as long as it takes."""


class DoEach:
    """Send a statement once for each row of values; SQLite answers how many rows each inserted or deleted."""

    whole = False

    def __init__(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self.sql = sql
        self.rows = rows


class Pause(Fetch):
    """Let others go first where they share this thread: what is done between two statements may take long."""

    def __init__(self) -> None:
        super().__init__("")


Statement: TypeAlias = Fetch | Do | DoEach
Script: TypeAlias = Generator[Statement, Any, T]


class Duplicate(StoreError):  # noqa: N818
    """A unique key is taken; thrown into the script, which decides what that means."""


class Contended(StoreError):  # noqa: N818
    """A deadlock, a lock time-out or a busy database: running the whole script again is the cure."""


class ConnectionLost(StoreUnavailable):
    """A pooled connection turned out to be dead; nothing of the script has been committed."""


class StatementTimeout(StoreUnavailable):
    """A statement was not answered in time: its connection is of no more use, and takes no ROLLBACK either."""


def in_list(numbers: Sequence[int]) -> str:
    """Numbers of rows, which nobody can choose, as part of a statement."""
    return ", ".join([str(int(number)) for number in numbers])
