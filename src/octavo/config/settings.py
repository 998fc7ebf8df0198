"""Every setting with its type, its default and one line of why."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from octavo.config.layered import Extraction, Layers, Server
from octavo.config.section import MOST, SECRET, SHOWN_URL, Section, shown_section
from octavo.config.values import Setting, described
from octavo.errors import ConfigError
from octavo.kernel.codec import MAX_TENANT_BYTES
from octavo.kernel.shapes import SHAPES
from octavo.util.cache import DEFAULT_BYTES

_PATH = Meta(min_length=1, extra={"path": "yes"})
_UNREAD = ("vectors", "pending", "keys")  # nothing in these is told to anybody


class Database(Section, frozen=True):
    """Where records are kept."""

    section: ClassVar[str] = "database"

    dsn: Annotated[
        str,
        Meta(
            min_length=1,
            description="Which store: any URL of docs/stores.md, or SQLAlchemy's spelling of it.",
            extra=SHOWN_URL,
        ),
    ] = "sqlite:///octavo.db"
    pool_size: Annotated[
        int,
        Meta(ge=1, le=10_000, description="Connections to PostgreSQL or MySQL; a pool_size in the dsn wins."),
    ] = 5
    max_overflow: Annotated[
        int,
        Meta(
            ge=0, le=10_000, description="How many more when all are busy: at most pool_size + max_overflow."
        ),
    ] = 10


class Vault(Section, frozen=True):
    """Documents that people read and edit."""

    section: ClassVar[str] = "vault"

    enabled: Annotated[
        bool, Meta(description="Whether configuration and knowledge are also Markdown files.")
    ] = True
    root_path: Annotated[
        str, _PATH, Meta(description="The folder with md/, knowledge/ and metadata.json.")
    ] = "octavo_vault"
    watch_seconds: Annotated[
        float,
        Meta(ge=0, le=86_400, description="How often to look for files that a person edited; 0 is never."),
    ] = 2.0


class Vector(Section, frozen=True):
    """Finding by meaning, beside finding by words."""

    section: ClassVar[str] = "vector"

    enabled: Annotated[
        bool, Meta(description="Off: recall by words needs no model, and a weak model makes it worse.")
    ] = False
    embedder: Annotated[
        str,
        Meta(
            description="The model, such as fastembed:BAAI/bge-small-en-v1.5; needed when enabled.",
            extra=SHOWN_URL,
        ),
    ] = ""
    api_key: Annotated[
        str, Meta(description="For an openai: embedder; empty is OPENAI_API_KEY.", extra=SECRET)
    ] = ""
    base_url: Annotated[
        str,
        Meta(description="Its server, when that is not OpenAI's; empty is OPENAI_BASE_URL.", extra=SHOWN_URL),
    ] = ""
    previous_embedder: Annotated[
        str,
        Meta(
            description="After a change of model: the one before, which answers meanwhile.", extra=SHOWN_URL
        ),
    ] = ""
    keep_previous: Annotated[
        bool, Meta(description="Whether the former model's vectors stay when the new ones are complete.")
    ] = False
    url: Annotated[
        str,
        Meta(
            description="Where the vectors are, a URL of docs/vectors.md; empty is beside the records.",
            extra=SHOWN_URL,
        ),
    ] = ""
    collections: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="What is found by meaning; events are in observations."),
    ] = ("observations", "knowledge", "configs", "profile", "episodes")
    cache_entries: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST,
            description="Vectors of recent texts held in memory, so that none is made twice; 0 is none.",
        ),
    ] = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.collections:
            if name not in SHAPES or name in _UNREAD:
                known = ", ".join(known for known in SHAPES if known not in _UNREAD)
                raise ConfigError(f"vector.collections names {name!r}; known: {known}")
        if self.enabled and self.embedder.strip().lower() in ("", "none"):
            raise ConfigError(
                "vector.enabled is true, but vector.embedder names no model; "
                "for example fastembed:BAAI/bge-small-en-v1.5"
            )


class FailureQueue(Section, frozen=True):
    """What could not be stored waits on disk until it can."""

    section: ClassVar[str] = "failure_queue"

    enabled: Annotated[bool, Meta(description="Off: a write fails when the database is down.")] = True
    directory: Annotated[
        str,
        _PATH,
        Meta(description="Where failed_events.jsonl and the dead letters are; processes may share it."),
    ] = "octavo_queue"
    durability: Annotated[
        Literal["fsync", "flush", "memory"],
        Meta(
            description="Queued writes survive: fsync a power cut, flush a kill -9, memory only a call of close."
        ),
    ] = "fsync"
    max_in_memory: Annotated[
        int, Meta(ge=1, le=MOST, description="Queued writes held in memory; the rest is on disk.")
    ] = 1000
    spill_batch_size: Annotated[
        int, Meta(ge=1, le=MOST, description="How many go to disk, or come back from it, at once.")
    ] = 200
    max_dump_file_size_mb: Annotated[
        float, Meta(gt=0, le=1_000_000, description="Size at which a queue file is rotated, in MiB.")
    ] = 10.0
    max_dump_backups: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST,
            description="Rotated files kept after all in them is stored; others are never deleted.",
        ),
    ] = 0
    max_retries: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST,
            description="Attempts with one write, the database being up, before it is a dead letter.",
        ),
    ] = 5
    max_age_hours: Annotated[
        Annotated[float, Meta(gt=0, le=876_000)] | None,
        Meta(description="Age at which a queued write is a dead letter; null is never."),
    ] = 168.0
    backoff_min_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="The first pause before the database is tried again; it doubles."),
    ] = 0.1
    backoff_max_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="The longest pause, so how late a return is noticed.")
    ] = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backoff_min_seconds > self.backoff_max_seconds:
            raise ConfigError(
                f"failure_queue.backoff_min_seconds is {self.backoff_min_seconds}, "
                f"more than backoff_max_seconds, which is {self.backoff_max_seconds}"
            )


class Files(Section, frozen=True):
    """Who may read what is kept on disk."""

    section: ClassVar[str] = "files"

    group_access: Annotated[
        bool,
        Meta(
            description="New files and folders: 0660 and 0770, instead of 0600 and 0700; those that are there keep their mode."
        ),
    ] = False


class Service(Section, frozen=True):
    """How the memory service answers."""

    section: ClassVar[str] = "service"

    tenant: Annotated[str, Meta(description="Whose memory this is, when several share one database.")] = ""
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="The longest any call takes while the database hangs.")
    ] = 5.0
    recent_events: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST,
            description="Events of each session held in memory (L1), read even when the database is down.",
        ),
    ] = 200
    recent_sessions: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST,
            description="Sessions that have such events; the one not used for longest goes first.",
        ),
    ] = 1000
    dedup_window: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST,
            description="Ids of stored records remembered, so that they are not sent again; 0 is none.",
        ),
    ] = 10_000
    dedup_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="For how long they are remembered.")
    ] = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            long = len(self.tenant.encode()) > MAX_TENANT_BYTES
        except UnicodeEncodeError:
            raise ConfigError(f"service.tenant is not text that can be stored: {self.tenant!r}") from None
        if long:
            raise ConfigError(f"service.tenant is longer than {MAX_TENANT_BYTES} bytes: {self.tenant!r}")


class Cache(Section, frozen=True):
    """What a process holds in memory only to be quicker."""

    section: ClassVar[str] = "cache"

    max_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST,
            description="Bytes that all caches of a process take together; what was not used for longest goes first.",
        ),
    ] = DEFAULT_BYTES


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings, each with a default that works on one machine without a server."""

    database: Database = msgspec.field(default_factory=Database)
    vault: Vault = msgspec.field(default_factory=Vault)
    vector: Vector = msgspec.field(default_factory=Vector)
    failure_queue: FailureQueue = msgspec.field(default_factory=FailureQueue)
    service: Service = msgspec.field(default_factory=Service)
    layers: Layers = msgspec.field(default_factory=Layers)
    extraction: Extraction = msgspec.field(default_factory=Extraction)
    server: Server = msgspec.field(default_factory=Server)
    files: Files = msgspec.field(default_factory=Files)
    cache: Cache = msgspec.field(default_factory=Cache)


#: The sections, by the names they have in a file.
SECTIONS: dict[str, type[Section]] = {
    kind.section: kind
    for kind in (Database, Vault, Vector, FailureQueue, Service, Layers, Extraction, Server, Files, Cache)
}


def every_setting() -> list[Setting]:
    """All settings, in the order of the file."""
    return [setting for kind in SECTIONS.values() for setting in described(kind)]


def shown_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """All settings as they may be printed, logged or answered: passwords and keys are replaced by …"""
    return {name: shown_section(getattr(settings, name)) for name in SECTIONS}
