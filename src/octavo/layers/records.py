"""How memories and their log are kept as records, and read back from them."""

import hashlib
import secrets
from datetime import datetime
from typing import Any

import msgspec

from octavo.errors import InvalidRecord, StoreError
from octavo.kernel.codec import seal
from octavo.kernel.ids import new_id, next_seq
from octavo.kernel.model import Record, Scope
from octavo.kernel.terms.matching import FOUND_BY
from octavo.layers.topic import topic_of
from octavo.layers.values import DEFAULTS, Action, Fact, Layer, LogEntry, OwnerType, State, Status

COLLECTIONS: dict[Layer, str] = {"profile": "profile", "event": "episodes"}
LAYER_OF: dict[str, Layer] = {collection: layer for layer, collection in COLLECTIONS.items()}
LOG = "log"

# With type and time an id stays under 200 bytes, and the id of its log rows under 255.
_ENTITY_BYTES = 150
#: A log row holds a memory twice, before and after a change, and no store keeps more than 16 MiB in a record.
_MEMORY_BYTES = 7 * 1024 * 1024
_SESSION_BYTES = 240  # with what stands before it, no more than the 255 of a name
_UNSAFE = {ord(letter): "-" for letter in "/\\?#%&+\"'<>\0"} | dict.fromkeys(range(33), "-")


class Owner(msgspec.Struct, frozen=True):
    """Whose memories they are."""

    type: OwnerType
    id: str

    def scope(self, tenant: str) -> Scope:
        """Where this owner's memories are."""
        return Scope(tenant=tenant, **{self.type: self.id})


def owner_of(scope: Scope) -> Owner:
    """The owner of what is kept in this scope."""
    return Owner("agent", scope.agent) if scope.agent and not scope.user else Owner("user", scope.user or "")


def memory_id(owner: Owner, at: datetime) -> str:
    """A fresh id, such as user_lin_1790000000.123456804310226914; it fits into a path and never comes twice."""
    name = owner.id.translate(_UNSAFE).encode(errors="replace")[:_ENTITY_BYTES].decode(errors="ignore")
    # Time alone would come twice: many processes may remember something within one microsecond.
    return f"{owner.type}_{name}_{int(at.timestamp())}.{at.microsecond:06d}{secrets.randbelow(10**12):012d}"


def log_id(memory: str, version: int) -> str:
    """The id of the one row that may say how this version came to be: of two writers only one can add it."""
    return f"log_{memory}_{version}"


def mark_of(version: int) -> str:
    """The only mark of a memory."""
    return f"v{version}"


def version_of(record: Record) -> int:
    """Which version of its memory a record is; the first, of one that was written by hand."""
    return version_in(record.data)


def version_in(data: dict[str, Any]) -> int:
    """The version that the data of a memory says."""
    version = data.get("version")
    return version if isinstance(version, int) else 1


def record_of(id_: str, owner: Owner, tenant: str, layer: Layer, state: State, version: int) -> Record:
    """The record of a memory in that state, at this version."""
    return Record(
        collection=COLLECTIONS[layer],
        id=id_,
        kind=state.category,
        scope=owner.scope(tenant),
        text=state.content,
        data={**state.data, "version": version},
        metadata=state.metadata,
        marks=(mark_of(version),),
        created_at=state.created_at,
        updated_at=state.updated_at,
        expires_at=state.expires_at,
        seq=next_seq(),
    )


def category_of(record: Record) -> str:
    """What a memory is; what nobody can tell, where its record does not say."""
    return record.kind or DEFAULTS[LAYER_OF[record.collection]]


def state_of(record: Record) -> State:
    """All that the memory in this record is."""
    return State(
        category=category_of(record),
        content=record.text,
        metadata=record.metadata,
        data=record.data,
        created_at=record.created_at,
        updated_at=record.updated_at or record.created_at,
        expires_at=record.expires_at,
    )


def happened_at_of(record: Record) -> datetime | None:
    """When the event happened, if the memory says so."""
    happened = record.data.get("happened_at")
    return None if happened is None else datetime.fromisoformat(happened)


def topic_in(data: dict[str, Any]) -> str:
    """What the data of a memory says that it is about."""
    topic, _ = data.get(FOUND_BY) or ("", "")
    return str(topic)


def memory_of(record: Record, status: Status = "success") -> Fact:
    """The memory that is kept in this record."""
    # Without a State in between: a profile of a hundred memories is read often.
    owner, data = owner_of(record.scope), record.data
    return Fact(
        id=record.id,
        memory_type=owner.type,
        entity_id=owner.id,
        layer=LAYER_OF[record.collection],
        category=category_of(record),
        content=record.text,
        metadata=record.metadata,
        is_permanent=bool(data.get("is_permanent")),
        expiry_date=record.expires_at,
        created_at=record.created_at,
        updated_at=record.updated_at or record.created_at,
        version=version_of(record),
        sources=tuple(data.get("sources") or ()),
        happened_at=happened_at_of(record),
        status=status,
        topic=topic_in(data),
    )


def new_memory(
    owner: Owner,
    tenant: str,
    layer: Layer,
    at: datetime,
    *,
    category: str,
    content: str,
    metadata: dict[str, Any],
    expires_at: datetime | None,
    data: dict[str, Any],
    embeds: bool,
) -> Record:
    """The record of a memory that begins now, under a fresh id."""
    id_ = memory_id(owner, at)
    if FOUND_BY not in data and (topic := topic_of(content)):
        data = {**data, FOUND_BY: [topic, ""]}
    state = State(
        category=category,
        content=content,
        metadata=metadata,
        data={**data, "embedding_id": id_} if embeds else data,
        created_at=at,
        updated_at=at,
        expires_at=expires_at,
    )
    return check_storable(record_of(id_, owner, tenant, layer, state, version=1))


def check_storable(record: Record) -> Record:
    """The record as it will be stored, or InvalidRecord when it cannot be, or its log could not."""
    if FOUND_BY in record.data:  # where stores look for it
        data = {FOUND_BY: record.data[FOUND_BY], **record.data}
        record = msgspec.structs.replace(record, data=data)
    try:
        stored = seal(record).record
    except InvalidRecord as error:  # whoever calls has not named the record, but what is wrong with it
        raise InvalidRecord(str(error.__cause__ or error)) from None
    size = len(msgspec.json.encode(state_of(stored)))
    if size > _MEMORY_BYTES:
        raise InvalidRecord(
            f"{size} bytes are more than the {_MEMORY_BYTES} a memory may have; keep it in parts"
        )
    return stored


def log_record(
    scope: Scope,
    memory: str,
    layer: Layer,
    action: Action,
    reason: str,
    at: datetime,
    version: int | None = None,
    before: Record | None = None,
    after: Record | None = None,
    metadata: dict[str, Any] | None = None,
) -> Record:
    """The log row of a change, or of why nothing changed; its session is the memory's id."""
    return Record(
        collection=LOG,
        id=new_id("log_") if version is None else log_id(memory, version),
        kind=action,
        scope=msgspec.structs.replace(scope, session=memory or None),
        text=reason,
        data={
            "memory_layer": layer,
            "version": version,
            "before": None if before is None else msgspec.to_builtins(state_of(before)),
            "after": None if after is None else msgspec.to_builtins(state_of(after)),
        },
        metadata=metadata or {},
        created_at=at,
    )


def entry_of(record: Record) -> LogEntry:
    """The log row that is kept in this record."""
    try:
        return msgspec.convert(
            {
                "id": record.id,
                "memory_id": record.scope.session or "",
                "action": record.kind,
                "reason": record.text,
                "metadata": record.metadata,
                "created_at": record.created_at,
                **record.data,
            },
            LogEntry,
        )
    except msgspec.ValidationError as error:
        raise StoreError(f"the log row {record.id!r} is not one: {error}") from error


def source_record(
    owner: Owner, tenant: str, text: str, metadata: dict[str, Any], at: datetime, name: str
) -> Record:
    """A text as the memory service keeps a message, the owner's and in a session of its own."""
    data = {
        "obs_id": name,
        "source_name": "memory",
        "actor": owner.id,
        "payload": {"text": text, "attachments": [], "extra": {}},
        "gate_result": None,
        "metadata": {},
        "timestamp": at.isoformat(),
    }
    return Record(
        collection="observations",
        id=f"evt_{name}",
        kind="message",
        scope=msgspec.structs.replace(owner.scope(tenant), session=session_of(owner)),
        text=text,
        data=data,
        metadata=metadata,
        created_at=at,
    )


def session_of(owner: Owner) -> str:
    """The session that keeps what was said about an owner."""
    name = owner.id.encode(errors="replace")
    if len(name) > _SESSION_BYTES:
        digest = hashlib.blake2b(name, digest_size=16).hexdigest()
        name = name[: _SESSION_BYTES - 33] + f"~{digest}".encode()
    return f"memory:{owner.type}:{name.decode(errors='ignore')}"
