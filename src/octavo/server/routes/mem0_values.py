"""What mem0's clients send and read: their bodies, their filters, and memories as they spell them."""

import ast
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, NoReturn

import msgspec
from pydantic import ConfigDict, Field, StrictBool, StrictInt
from starlette.exceptions import HTTPException

from octavo.kernel.ids import now
from octavo.layers.checking import read_time
from octavo.layers.values import Fact, LogEntry
from octavo.server.requests import MAX_QUESTION_BYTES, Body, Metadata, Name
from octavo.server.routing import refuse_request

#: What says whose a memory is, and our word for it; an app is a word in the metadata.
_ENTITIES = {"user_id": "user_id", "agent_id": "agent_id", "run_id": "session_id"}
#: What was done, as mem0 calls it; what was ignored changed nothing.
EVENTS = {"insert": "ADD", "update": "UPDATE", "delete": "DELETE", "expire": "DELETE"}
#: What a request may say without changing its answer: how the hosted service computes, and its old spellings.
_WITHOUT_EFFECT = {
    "api_version", "async_mode", "keyword_search", "latest_only", "org_id", "output_format", "project_id", "reference_date",
    "rerank", "source", "version",
}  # fmt: skip
_MOST_MEMORIES = 10_000  # that pages may reach into
_PLAIN = (str, int, float, bool)


class Mem0Body(Body):
    """What is sent with a request: what this server does not know is refused by name, unless it says nothing."""

    model_config = ConfigDict(extra="allow")

    def check_known(self) -> None:
        """Refuse with 501 what the hosted service would do and this server does not."""
        for name, value in (self.model_extra or {}).items():
            if name not in _WITHOUT_EFFECT and value not in (None, False, "", [], {}):
                refuse_hosted(name)


class Named(Mem0Body):
    """Whose memories are meant, by the names themselves or by filters."""

    user_id: Name | None = None
    agent_id: Name | None = None
    app_id: Name | None = None
    run_id: Name | None = None
    filters: Metadata | None = None
    metadata: Metadata | None = None

    def whose(self) -> "Meant":
        """Whose memories are meant, and which of them."""
        self.check_known()
        names = {name: getattr(self, name) for name in (*_ENTITIES, "app_id")}
        return read_filters(
            {**{k: v for k, v in names.items() if v is not None}, "AND": [self.filters or {}]}
        )


class NewMessages(Named):
    """Messages to remember."""

    messages: str | Metadata | Annotated[list[Metadata], Field(min_length=1)]
    infer: StrictBool | None = None
    expiration_date: str | None = None


class Asked(Named):
    """A question to somebody's memories."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_BYTES)]
    top_k: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    limit: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    threshold: float | None = None
    fields: list[str] | None = None


class Listed(Named):
    """Which memories to list."""

    fields: list[str] | None = None


class Changed(Mem0Body):
    """What a memory is to say from now on."""

    text: Annotated[str, Field(min_length=1)] | None = None
    data: Annotated[str, Field(min_length=1)] | None = Field(None, description="The old spelling of `text`.")
    metadata: Metadata | None = None
    expiration_date: str | None = None


class NamedChange(Changed):
    """One change of a batch."""

    memory_id: Name


class ChangeBatch(Mem0Body):
    """Changes of several memories."""

    memories: Annotated[list[NamedChange], Field(min_length=1)]


class Meant(msgspec.Struct, kw_only=True):
    """Whose memories are meant, and which of them."""

    owner: dict[str, Any] = {}  # user_id, agent_id, session_id
    metadata: dict[str, Any] = {}
    since: datetime | None = None
    until: datetime | None = None


def read_filters(filters: Mapping[str, Any]) -> Meant:
    """What filters mean: names, metadata and times that all hold. Anything else is refused by name."""
    meant = Meant(owner={}, metadata={})
    for name, value in _conditions(filters):
        if name in _ENTITIES or name == "app_id":
            entity = value.get("eq") if isinstance(value, Mapping) and [*value] == ["eq"] else value
            if not isinstance(entity, str) or entity == "*":
                refuse_hosted(f"filters.{name} other than one name")
            _put(meant.metadata if name == "app_id" else meant.owner, _ENTITIES.get(name, name), entity)
        elif name == "created_at" and isinstance(value, Mapping) and {*value} <= {"gte", "lt"}:
            meant.since = _moment(value["gte"], "filters.created_at") if "gte" in value else meant.since
            meant.until = _moment(value["lt"], "filters.created_at") if "lt" in value else meant.until
        elif name == "metadata" and isinstance(value, Mapping):
            for key, one in value.items():
                _put_plain(meant.metadata, key, one)
        elif name.isupper() or name in ("categories", "keywords", "created_at", "updated_at"):
            refuse_hosted(f"filters.{name}")
        else:
            _put_plain(meant.metadata, name, value)
    if not meant.owner:
        raise refuse_request("whose memory? give user_id, agent_id or run_id", "body", "user_id")
    return meant


def read_spelled_filters(spelled: str) -> dict[str, Any]:
    """The filters of a query string: the client writes a dict there as Python shows it."""
    try:
        filters = ast.literal_eval(spelled)
        if isinstance(filters, dict) and all(isinstance(name, str) for name in filters):
            return filters
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    raise refuse_request("must be a dict", "query", "filters")


def _conditions(filters: Any) -> Iterator[tuple[str, Any]]:
    """Every condition of filters that must all hold."""
    if not isinstance(filters, Mapping):
        refuse_hosted("filters other than a dict")
    for name, value in filters.items():
        if name == "AND" and isinstance(value, list):
            for each in value:
                yield from _conditions(each)
        else:
            yield name, value


def _put(held: dict[str, Any], name: str, value: Any) -> None:
    if held.setdefault(name, value) != value:
        raise refuse_request(f"{name} cannot be two at once", "body", "filters")


def _put_plain(held: dict[str, Any], name: str, value: Any) -> None:
    if not isinstance(value, _PLAIN):
        refuse_hosted(f"filters.{name} other than a plain value")
    _put(held, name, value)


def _moment(given: Any, name: str) -> datetime:
    try:
        return read_time(given)
    except ValueError as error:
        raise refuse_request(str(error), "body", name) from None


def read_expiry(given: str | None) -> datetime | None:
    """When a memory ends: the beginning of a day, or a moment; one that is over is refused, before anything is kept."""
    if given is None:
        return None
    if (at := _moment(given, "expiration_date")) <= now():
        raise refuse_request(
            f"is over; delete removes a memory at once; got {given!r}", "body", "expiration_date"
        )
    return at


def refuse_hosted(what: str) -> NoReturn:
    """Refuse what only mem0's hosted service does."""
    raise HTTPException(501, f"{what} is not supported by this server; docs/mem0.md lists what is")


def tell_fact(fact: Fact, fields: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """A memory as mem0 spells it."""
    owner = {f"{fact.memory_type}_id": fact.entity_id}
    metadata = dict(fact.metadata)
    learnt = {"agent_id": metadata.pop("agent_id", None), "run_id": metadata.pop("session_id", None)}
    told = {
        "id": fact.id,
        "memory": fact.content,
        "user_id": None,
        **learnt,
        **owner,
        "app_id": metadata.pop("app_id", None),
        "metadata": metadata or None,
        "categories": [fact.category],
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
        "expiration_date": fact.expiry_date,
        **more,
    }
    return told if fields is None else {name: told[name] for name in ("id", *fields) if name in told}


def kept_names(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the metadata of a memory says of where it was learnt, which an update leaves as it is."""
    return {name: metadata[name] for name in ("agent_id", "session_id", "app_id") if name in metadata}


def tell_entry(entry: LogEntry) -> dict[str, Any]:
    """A row of a memory's history as mem0 spells it."""
    return {
        "id": entry.id,
        "memory_id": entry.memory_id,
        "old_memory": None if entry.before is None else entry.before.content,
        "new_memory": None if entry.after is None else entry.after.content,
        "event": EVENTS[entry.action],
        "is_deleted": entry.after is None and entry.before is not None,
        "reason": entry.reason,
        "metadata": entry.metadata,
        "created_at": entry.created_at,
        "updated_at": entry.created_at,
    }


def check_page(page: int, size: int) -> int:
    """How many memories come before the end of a page; a page that is too far away is refused."""
    if page * size > _MOST_MEMORIES:
        raise refuse_request(f"pages reach as far as {_MOST_MEMORIES:,} memories", "query", "page")
    return page * size
