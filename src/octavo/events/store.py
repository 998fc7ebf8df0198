"""Events on any store: the one class that does the work, and the documented stores, each of which turns its config into a URL."""

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import quote, urlencode

import msgspec

from octavo.errors import ConfigError, InvalidRecord, StoreClosed, StoreError
from octavo.events.records import (
    COLLECTION,
    AgentEvent,
    BaseMemoryStore,
    EventType,
    TypeCounts,
    event_type_of,
    to_event,
    to_record,
)
from octavo.events.retention import Retention
from octavo.kernel.codec import check_whose
from octavo.kernel.model import Add, Query, Record, Remove, Scope
from octavo.kernel.ports import Searches, Store
from octavo.kernel.terms.matches import MOST
from octavo.stores import to_store
from octavo.util.user_code import Fixed

_log = logging.getLogger("octavo.events")
_MOST_TERMS = 20  # every one must be held: leaving some out only makes more candidates
_PAGE = 500  # candidates that are looked at together


class EventStore(BaseMemoryStore):
    """The events kept in a store, which is named by its URL or handed in; one handed in is not closed.

    `tenant` keeps several deployments apart in one database. With `retention`, what is older is cleared in the
    background from first use until `close`.
    """

    opens_itself: ClassVar[bool] = True
    config: Fixed[dict[str, Any]] = Fixed("it was read when the store was made; make another store")
    url: Fixed[str] = Fixed("make another store for another URL")
    retention: Fixed[Retention | None] = Fixed("make another store, with another retention")

    def __init__(
        self,
        store: str | Store = "sqlite:///agent_memory.db",
        *,
        tenant: str = "",
        retention: timedelta | str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(config)
        self.kernel: Store = to_store(store)
        self.tenant = tenant
        #: Says where the events are, for whoever keeps something beside it.
        self.url = store if isinstance(store, str) else ""
        self.failures = 0  # events that `store` answered False for
        self.last_error = ""  # why, the last time
        self.retention = None if retention is None else Retention(self, retention)
        self._owned = isinstance(store, str)
        self._closed = False
        self._tried = False

    async def initialize(self) -> None:
        """Open the store, or say why that cannot be done; called again, it does nothing.

        Every other method does it by itself.
        """
        self.start_retention()  # whoever writes past this store, as an agent does, has it opened here
        if not self._tried or self._closed:
            # Asked for something, a store connects on every backend: opening alone is lazy on some.
            await self.kernel.find(self._query(limit=1))
            self._tried = True

    async def store(self, event: AgentEvent) -> bool:
        """Keep an event; False when it was not kept, for the reason that is logged and in `last_error`.

        An event whose id is already kept in its agent's session is left alone, and is kept.
        """
        self.start_retention()
        try:
            await self.kernel.apply([Add([to_record(event, self.tenant)])])
        except StoreClosed:
            raise
        except (InvalidRecord, StoreError) as error:
            self.failures += 1
            self.last_error = f"{type(error).__name__}: {error}"
            _log.error("event %s was not kept: %s", getattr(event, "event_id", "?"), self.last_error)
            return False
        return True

    async def store_many(self, events: Sequence[AgentEvent]) -> int:
        """Keep events in one write, all or none; answer how many of them are new."""
        self.start_retention()
        [added] = await self.kernel.apply([Add([to_record(event, self.tenant) for event in events])])
        return added

    async def retrieve(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        event_type: EventType | str | None = None,
        limit: int | None = 100,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        *,
        user_id: str | None = None,
    ) -> list[AgentEvent]:
        """The newest `limit` events that all filters name, oldest first; None is all. `""` names those with none."""
        self.start_retention()
        query = self._query(
            agent_name,
            session_id,
            user_id,
            kinds=None if event_type is None else (event_type_of(event_type).value,),
            since=start_time,
            until=end_time,
            limit=limit,
        )
        return [to_event(record) for record in await self.kernel.find(query)]

    async def clear(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        *,
        user_id: str | None = None,
    ) -> int:
        """Remove exactly what all filters name, everything when there are none; answer how many that were."""
        # Called by the retention itself, which therefore is not started here.
        query = self._query(agent_name, session_id, user_id, since=start_time, until=end_time)
        [removed] = await self.kernel.apply([Remove(query)])
        return removed

    async def get_stats(
        self, agent_name: str | None = None, session_id: str | None = None, *, user_id: str | None = None
    ) -> dict[str, Any]:
        """`total_events`, `by_type`, and the times of `first_event` and `last_event` in ISO 8601, None when there is none.

        `total_size_bytes` is there too where the store is made of files; it is of all of them.
        """
        self.start_retention()
        tally = await self.kernel.tally(self._query(agent_name, session_id, user_id))
        stats: dict[str, Any] = {
            "total_events": tally.total,
            "by_type": TypeCounts(sorted(tally.by_kind.items())),
            "first_event": tally.first and tally.first.isoformat(),
            "last_event": tally.last and tally.last.isoformat(),
        }
        if size_bytes := getattr(self.kernel, "size_bytes", None):  # of files
            stats["total_size_bytes"] = await size_bytes()
        return stats

    async def search(
        self,
        query: str,
        agent_name: str | None = None,
        session_id: str | None = None,
        limit: int | None = 10,
        *,
        whole_words: bool = False,
        everyone: bool = False,
        user_id: str | None = None,
    ) -> list[AgentEvent]:
        """The newest `limit` events that hold the query anywhere in the values of their data, newest first.

        They are of an agent, a session or a user; with `everyone`, of all of them. Upper and lower case, full and half width
        are alike; `%` and `_` are ordinary characters. With `whole_words`, a word inside of a longer one does not count,
        and the index of words answers, however many events there are.
        """
        named = agent_name is not None or session_id is not None or user_id is not None
        check_whose(named, everyone, "whose events? give agent_name, session_id or user_id")
        self.start_retention()
        asked = self._query(agent_name, session_id, user_id, text=query, newest_first=True, limit=limit)
        found = await (_with_words(self.kernel, asked) if whole_words else self.kernel.find(asked))
        return [to_event(record) for record in found]

    async def close(self) -> None:
        """Stop the retention and close the store, unless it was handed in; called again, it does nothing."""
        self._closed = True
        if self.retention is not None:
            await self.retention.stop()
        if self._owned:
            await self.kernel.close()

    def _query(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        **clauses: Any,
    ) -> Query:
        scope = Scope(tenant=self.tenant, user=user_id, agent=agent_name, session=session_id)
        return Query(collection=COLLECTION, scope=scope, **clauses)

    def start_retention(self) -> None:
        """Start the retention, if there is one and it does not run."""
        if self.retention is not None and not self._closed:
            self.retention.start()


async def _with_words(store: Store, query: Query) -> list[Record]:
    """The newest `limit` records that hold the text of the query as whole words, in any form of them, newest first."""
    from octavo.kernel.terms.terms import terms  # its patterns take time, and only a search needs them

    words = list(dict.fromkeys(terms(query.text or "")))[:_MOST_TERMS]
    if not isinstance(store, Searches) or not words or query.limit == 0:
        return await store.find(query)  # a text without words, such as %, is looked for as it is
    matches = await store.search(query, words)
    ids = [match.id for match in reversed(matches.found) if all(match.counts)]
    most = len(ids) if query.limit is None else query.limit
    found: dict[tuple[str, str], Record] = {}
    for start in range(0, len(ids), _PAGE):
        page = msgspec.structs.replace(query, ids=tuple(ids[start : start + _PAGE]), limit=None)
        found.update((record.key, record) for record in await store.find(page))
        if len(found) >= most:
            break
    if len(found) < most and min(matches.held) > MOST:  # there may be more than the index was asked for
        return await store.find(query)
    return sorted(found.values(), key=lambda record: record.rank, reverse=True)[:most]


class ConfigKeys(msgspec.Struct, kw_only=True):
    """The keys every config may have."""

    retention: Any = None  # timedelta(days=7) or "7d": what is older is cleared

    def url(self) -> str:
        raise NotImplementedError


class MemoryKeys(ConfigKeys):
    def url(self) -> str:
        return "memory://"


class FileKeys(ConfigKeys):
    base_path: str = "agent_memory"
    format: Literal["jsonl", "json"] = "jsonl"
    file_per_session: bool = True
    rotate_size: int = 10 * 1024 * 1024

    def url(self) -> str:
        options = {
            "format": self.format,
            "per_session": str(self.file_per_session).lower(),
            "rotate_bytes": self.rotate_size,
        }
        return f"file://{quote(self.base_path)}?{urlencode(options)}"


class SQLiteKeys(ConfigKeys):
    db_path: str = "agent_memory.db"
    wal_mode: bool = True

    def url(self) -> str:
        if not self.wal_mode:
            raise ConfigError("wal_mode=False is not offered: a database is always in WAL mode; leave it out")
        return f"sqlite:///{quote(self.db_path, safe='/:')}"


class ServerKeys(ConfigKeys):
    host: str = "localhost"
    port: int = 0
    user: str = ""
    password: str = ""

    @property
    def address(self) -> str:
        who = quote(self.user, safe="") + (f":{quote(self.password, safe='')}" if self.password else "")
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        return f"{who}{'@' * bool(who)}{host}:{self.port}"


class DatabaseKeys(ServerKeys):
    scheme: ClassVar[str]
    database: str = "agent_memory"

    def url(self) -> str:
        return f"{self.scheme}://{self.address}/{quote(self.database, safe='')}"


class MySQLKeys(DatabaseKeys):
    scheme: ClassVar[str] = "mysql"
    port: int = 3306
    user: str = "root"


class PostgreSQLKeys(DatabaseKeys):
    scheme: ClassVar[str] = "postgresql"
    port: int = 5432
    user: str = "postgres"


class RedisKeys(ServerKeys):
    port: int = 6379
    db: int = 0
    prefix: str = "octavo"
    ttl: int | None = None  # seconds

    def url(self) -> str:
        options = {"prefix": self.prefix} | ({} if self.ttl is None else {"ttl": str(self.ttl)})
        return f"redis://{self.address}/{self.db}?{urlencode(options)}"


class NamedStore(EventStore):
    """A documented store, made from its config."""

    keys: ClassVar[type[ConfigKeys]]

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, retention: timedelta | str | None = None
    ) -> None:
        # A key that nobody knows, or a value of the wrong type, is refused by name.
        owner, known = type(self).__name__, self.keys.__struct_fields__
        if not isinstance(config, Mapping | None):
            raise ConfigError(
                f"the config of {owner} is a dict of {', '.join(known)}; EventStore takes a URL"
            )
        given = dict(config or {})
        if unknown := [key for key in given if key not in known]:
            raise ConfigError(
                f"unknown key {unknown[0]!r} in the config of {owner}; known: {', '.join(known)}"
            )
        paths = {key: os.fspath(value) for key, value in given.items() if isinstance(value, os.PathLike)}
        try:
            self._asked = asked = msgspec.convert(given | paths, self.keys)
        except msgspec.ValidationError as error:
            # The value is not shown: it may be a password.
            raise ConfigError(f"the config of {owner} is wrong: {error}") from None
        super().__init__(
            asked.url(), retention=asked.retention if retention is None else retention, config=config
        )


class InMemoryMemoryStore(NamedStore):
    """Events in this process's memory: for tests, and what need not outlive the process."""

    keys = MemoryKeys


class FileMemoryStore(NamedStore):
    """Events as JSON that people, grep and jq can read: for logs and audits."""

    keys = FileKeys
    base_path = property(lambda self: Path(self._asked.base_path), doc="The folder.")
    format = property(lambda self: self._asked.format, doc="`jsonl` or `json`.")
    file_per_session = property(
        lambda self: self._asked.file_per_session, doc="Whether each session has a file of its own."
    )
    rotate_size = property(
        lambda self: self._asked.rotate_size, doc="From how many bytes on a file is archived."
    )


class SQLiteMemoryStore(NamedStore):
    """Events in one SQLite file: for everything on one machine."""

    keys = SQLiteKeys
    db_path = property(lambda self: self._asked.db_path, doc="The file.")


class MySQLMemoryStore(NamedStore):
    """Events in a MySQL or MariaDB database. Needs `octavo[mysql]`."""

    keys = MySQLKeys


class PostgreSQLMemoryStore(NamedStore):
    """Events in a PostgreSQL database. Needs `octavo[postgres]`."""

    keys = PostgreSQLKeys


class RedisMemoryStore(NamedStore):
    """Events in Redis. Needs `octavo[redis]`."""

    keys = RedisKeys
