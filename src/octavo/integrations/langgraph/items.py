"""Items of LangGraph's stores as records: their namespaces, how they are written, filtered and embedded."""

import asyncio
import operator
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from langgraph.store.base import (  # type: ignore[import-not-found]
    IndexConfig,
    MatchCondition,
    PutOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from octavo.kernel.model import Record, Scope
from octavo.kernel.pages import list_names
from octavo.kernel.ports import ListsNames, Store, Vector
from octavo.models import FunctionEmbedder

if TYPE_CHECKING:
    from octavo.wraps.vectors import Indexed

Namespace: TypeAlias = tuple[str, ...]
ITEMS = "items"
_SEPARATOR = "."  # between the labels of a namespace in the name of its session; no label may hold it
_UNSEARCHED = " "  # the text of an item that nobody wants to find by what it says
_OPERATORS = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def to_record(op: PutOp, scope: Scope, at: datetime, fields: Sequence[str]) -> Record:
    """The record of an item that is put at this time, found by these fields unless the op says otherwise."""
    return Record(
        collection=ITEMS,
        id=op.key,
        scope=scope,
        text=_text(op, fields),
        data={"value": dict(op.value)} | ({} if op.ttl is None else {"ttl_minutes": op.ttl}),
        expires_at=end_of(at, op.ttl),
        created_at=at,
    )


def _text(op: PutOp, fields: Sequence[str]) -> str:
    """What an item is found by: nothing, some fields, or (said by an empty text) all that is in it."""
    if op.index is False:
        return _UNSEARCHED
    fields = fields if op.index is None else op.index
    if "$" in fields:
        return ""
    texts = [text for field in fields for text in get_text_at_path(op.value, tokenize_path(field))]
    return "\n".join(texts) or _UNSEARCHED


def to_item(record: Record) -> dict[str, Any]:
    """What LangGraph's `Item` of a record is made of."""
    return {
        "value": record.data["value"],
        "key": record.id,
        "namespace": namespace_of(record),
        "created_at": first_written_at(record),
        "updated_at": record.created_at,
    }


def namespace_of(record: Record) -> Namespace:
    """Where an item is."""
    return split(record.scope.session)


def first_written_at(record: Record) -> datetime:
    """When an item was first written."""
    born = record.data.get("created_at")
    return datetime.fromisoformat(born) if born else record.created_at


def with_birth(record: Record, at: datetime) -> Record:
    """The same, of an item that was first written at this time."""
    if at == record.created_at:
        return record
    return msgspec.structs.replace(record, data={**record.data, "created_at": at.isoformat()})


def end_of(at: datetime, minutes: float | None) -> datetime | None:
    """When what lives so many minutes ends."""
    return None if minutes is None else at + timedelta(minutes=minutes)


def join(namespace: Namespace) -> str:
    """The name of a namespace."""
    return _SEPARATOR.join(namespace)


def split(name: str | None) -> Namespace:
    """The namespace of a name."""
    return tuple((name or "").split(_SEPARATOR))


def matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Whether a namespace begins or ends as the condition says; `*` is any label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    part = namespace[start : start + len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def is_within(namespace: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
    """Whether a namespace is this one, or below it."""
    return namespace[: len(prefix)] == tuple(prefix)


async def list_namespaces(store: Store, scope: Scope, prefix: Namespace = ()) -> list[Namespace]:
    """Those in and below a namespace that have items, by name."""
    names = await list_names(store, ITEMS, "session", scope)
    return [name for name in map(split, names) if is_within(name, prefix)]


async def list_below(store: Store, scope: Scope, prefix: Namespace, few: int) -> list[Namespace]:
    """This namespace, and those below it that have items: all, or some more than `few`."""
    if not isinstance(store, ListsNames):
        return [prefix, *(name for name in await list_namespaces(store, scope, prefix) if name != prefix)]
    after = start = join(prefix) + _SEPARATOR
    names, limit = [prefix], 1  # most have none, and counting what stands next to them takes time
    # All names of a tenant stand in an index. Those of other users only cost a question that finds nothing.
    scope = scope if scope.user else Scope(tenant=scope.tenant)
    while len(names) <= few:
        page = await store.names(ITEMS, "session", scope, after=after, limit=limit)
        inside = [one.name for one in page if one.name.startswith(start)]
        names += map(split, inside)
        if len(inside) < limit:
            break
        after, limit = inside[-1], few
    return names


def is_wanted(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether each key is as wanted: equal, or as operators such as `{"$gt": 4}` say."""
    return all(_is_as(value.get(key), each) for key, each in wanted.items())


def _is_as(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compare(key, value, each) for key, each in wanted.items())
        return isinstance(value, Mapping) and is_wanted(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(map(_is_as, value, wanted))
    return bool(value == wanted)


def _compare(name: str, value: Any, wanted: Any) -> bool:
    compare = _OPERATORS.get(name)
    if compare is None:
        raise ValueError(f"Unsupported operator: {name}; known: {', '.join(_OPERATORS)}")
    try:
        return bool(compare(value, wanted))
    except TypeError:  # a text and a number, or nothing at all: neither is more
        return False


class LangChainEmbedder(FunctionEmbedder):
    """Embeddings of LangChain's, which may embed a question otherwise than a text."""

    def __init__(self, embeddings: Any, name: str) -> None:
        super().__init__(embeddings.aembed_documents, name)

        async def ask(texts: list[str]) -> list[Any]:
            return await asyncio.gather(*map(embeddings.aembed_query, texts))

        self._questions = FunctionEmbedder(ask, name)

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text."""
        return await (self._questions.embed(texts) if asking else super().embed(texts))


def with_vectors(store: Store, index: IndexConfig, collection: str) -> "Indexed":
    """The store, with vectors of this collection beside its records."""
    from octavo.vectors import ExactIndex
    from octavo.wraps.vectors import Indexed

    embeddings = ensure_embeddings(index["embed"])
    model = getattr(embeddings, "model", None) or type(embeddings).__name__
    embedder = LangChainEmbedder(embeddings, f"langgraph:{model}:{index.get('dims', '')}")
    return Indexed(store, ExactIndex(store), embedder, collections=(collection,))
