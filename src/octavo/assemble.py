"""From settings to a memory that works: the only module that puts stores, wraps and recall together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import parse_qsl, urlencode

from octavo.config import Settings, local_path
from octavo.config.settings import secrets_of
from octavo.errors import ConfigError
from octavo.kernel.ports import Embedder, Store, VectorIndex
from octavo.search.recall import Recall
from octavo.stores import open_store
from octavo.stores.sql.urls import parse
from octavo.util.cache import set_budget
from octavo.util.disk import share_with_group
from octavo.util.metrics import Meter
from octavo.util.secrets import mask_passwords
from octavo.util.tracing import start_tracing

if TYPE_CHECKING:
    from octavo.wraps.journal import Journal
    from octavo.wraps.vectors import Indexed

T = TypeVar("T")

_FAMILIES = {"mariadb": "mysql", "postgres": "postgresql", "rediss": "redis"}
_LOCAL = {"": "localhost", "127.0.0.1": "localhost"}
_PORTS = {"mysql": "3306", "postgresql": "5432", "redis": "6379"}
_WHERE = frozenset(
    {"database", "db", "dbname", "host", "port", "prefix", "search_path", "service", "unix_socket"}
)
_POOLED = frozenset({"mariadb", "mysql", "postgres", "postgresql"})


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """A memory put together: use `store`, and close this; the parts are there to be asked how they are."""

    settings: Settings
    store: Store = field(repr=False)
    journal: "Journal | None" = field(repr=False)
    indexed: "Indexed | None" = field(repr=False)
    recall: Recall = field(repr=False)
    meter: Meter | None = field(default=None, repr=False)  # what was counted and timed

    async def close(self) -> None:
        """Deliver or keep what waits, and let go of everything; a second call does nothing."""
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def assemble(settings: Settings, embedder: Embedder | None = None) -> Assembled:
    """Put a memory together, without touching disk or network: everything opens on first use.

    So it works when the database is down. A setting that can never work is a ConfigError at once. An embedder that is
    handed in is used in place of the one that the settings name.
    """
    if settings.files.group_access:
        share_with_group()
    set_budget(settings.cache.max_bytes)
    database, service = settings.database, settings.service
    dsn = limit_pool(database.dsn, database.pool_size + database.max_overflow)
    store = _from("database.dsn", settings, lambda: open_store(dsn))
    indexed = _add_index(settings, store, embedder) if settings.vector.enabled else None
    store = indexed or store
    if settings.rerank.model:
        store = _add_reranker(settings, store)
    if service.dedup_window:
        from octavo.wraps.deduped import Deduped

        store = Deduped(store, window=service.dedup_window, seconds=service.dedup_seconds)
    journal = _journal(settings, store) if settings.failure_queue.enabled else None
    store = journal or store
    telemetry = settings.telemetry
    if telemetry.traces:
        start_tracing(contents=telemetry.trace_contents, share=telemetry.trace_share)
    meter = None
    if telemetry.metrics or telemetry.traces:
        from octavo.wraps.metered import Metered

        store = metered = Metered(store)
        meter = metered.meter if telemetry.metrics else None
    return Assembled(
        settings=settings, store=store, journal=journal, indexed=indexed, recall=Recall(store), meter=meter
    )


def _journal(settings: Settings, store: Store) -> "Journal":
    from octavo.wraps.journal import Journal, Spool

    queue = settings.failure_queue
    spool = Spool(
        queue.directory,
        store=name_store(settings.database.dsn),
        max_in_memory=queue.max_in_memory,
        spill_batch_size=queue.spill_batch_size,
        max_file_bytes=max(1, round(queue.max_dump_file_size_mb * 2**20)),
        max_backups=queue.max_dump_backups,
        durability=queue.durability,
    )
    return Journal(
        store,
        spool,
        timeout=settings.service.timeout_seconds,
        max_retries=queue.max_retries,
        max_age=None if queue.max_age_hours is None else timedelta(hours=queue.max_age_hours),
        backoff=(queue.backoff_min_seconds, queue.backoff_max_seconds),
    )


def queue_folder(settings: Settings) -> Path:
    """The folder where writes for the store of these settings wait."""
    from octavo.wraps.journal import find_folder

    return find_folder(Path(settings.failure_queue.directory), name_store(settings.database.dsn))


def name_store(dsn: str) -> str:
    """Which store a URL names, however it spells it: no user, password or option but those that say where records are kept."""
    address = parse(dsn)
    scheme = _FAMILIES.get(address.scheme, address.scheme)
    path = local_path(dsn)
    if path:
        path = "/" * (scheme == "sqlite") + Path(path).resolve().as_posix()
    elif path is None:
        usual = _PORTS.get(scheme)
        hosts = sorted(
            f"{_LOCAL.get(host, host)}:{port or usual}" if port or usual else host
            for host, port in address.hosts
        )
        path = f"{','.join(hosts)}/{address.path.strip('/')}"
        if scheme == "redis" and not path.rpartition("/")[2].isdigit():
            path = f"{path.rstrip('/')}/0"
    where = urlencode(sorted(pair for pair in address.options.items() if pair[0] in _WHERE and pair[1]))
    return f"{scheme}://{path}{'?' if where else ''}{where}"


def limit_pool(dsn: str, connections: int) -> str:
    """The URL with this many connections at most, where its store has a pool and it does not say so itself."""
    scheme = dsn.partition("://")[0].partition("+")[0].lower()
    query = dsn.partition("?")[2]
    if scheme not in _POOLED or any(name == "pool_size" for name, _ in parse_qsl(query)):
        return dsn
    return f"{dsn}{'&' if query else '' if dsn.endswith('?') else '?'}pool_size={connections}"


def _add_index(settings: Settings, store: Store, given: Embedder | None) -> "Indexed":
    from octavo.models import Cached
    from octavo.wraps.vectors import Indexed

    vector = settings.vector

    def embedder(setting: str) -> Embedder:
        opened = open_configured_embedder(settings, setting)
        return Cached(opened, vector.cache_entries) if vector.cache_entries else opened

    model = given or embedder("vector.embedder")  # one that is misspelt is told before what its index lacks
    return Indexed(
        store,
        open_index(settings, store),
        model,
        previous=embedder("vector.previous_embedder") if vector.previous_embedder else None,
        collections=vector.collections,
        keep=vector.keep_previous,
    )


def _add_reranker(settings: Settings, store: Store) -> Store:
    from octavo.models.rerankers import open_reranker
    from octavo.wraps.reranked import Reranked

    rerank = settings.rerank
    model = _from(
        "rerank.model",
        settings,
        lambda: open_reranker(rerank.model, base_url=rerank.base_url, api_key=rerank.api_key),
    )
    return Reranked(store, model, top=rerank.top, timeout=rerank.timeout_seconds)


def open_configured_embedder(settings: Settings, setting: str = "vector.embedder") -> Embedder:
    """The embedder that a setting names, with the key and the server of the settings."""
    from octavo.models import open_embedder

    vector = settings.vector
    spec = vector.embedder if setting == "vector.embedder" else vector.previous_embedder
    own = {"api_key": vector.api_key, "base_url": vector.base_url} if spec.startswith("openai:") else {}
    given = {name: value for name, value in own.items() if value}
    embedder = _from(setting, settings, lambda: open_embedder(spec, **given))
    if embedder is None:
        raise ConfigError(f"{setting}: {spec!r} names no model; for example fastembed:BAAI/bge-small-en-v1.5")
    return embedder


def open_index(settings: Settings, store: Store) -> VectorIndex:
    """The index that is named, or else one in the database of the records."""
    from octavo import vectors

    database, url = settings.database, settings.vector.url
    scheme = database.dsn.partition("://")[0].partition("+")[0].lower()
    if not url and (
        scheme in ("postgres", "postgresql") or (scheme == "sqlite" and local_path(database.dsn))
    ):
        url = database.dsn
    if url:
        # As many connections as the records have when nobody hurries: nobody waits for what is embedded.
        opened = limit_pool(url, database.pool_size)
        setting = "vector.url" if settings.vector.url else "vector.enabled"  # the records' own store is open
        return _from(setting, settings, lambda: vectors.open_vectors(opened))
    return _from("vector.url", settings, lambda: vectors.ExactIndex(store))


def _from(setting: str, settings: Settings, opening: Callable[[], T]) -> T:
    """What it opens; a setting that is wrong is named, and no password with it."""
    try:
        return opening()
    except ConfigError as error:
        raise ConfigError(
            f"{setting}: {mask_passwords(str(error), secrets_of(settings))}"
        ) from error.__cause__
