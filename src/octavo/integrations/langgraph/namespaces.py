"""Namespaces of LangGraph's: the name of each is the session of its items, and they are matched and listed by it."""

from typing import TypeAlias

from langgraph.store.base import MatchCondition  # type: ignore[import-not-found]

from octavo.kernel.model import Scope
from octavo.kernel.ports import ListsNames, Store, every_name

Namespace: TypeAlias = tuple[str, ...]
ITEMS = "items"
_SEPARATOR = "."  # which no label may hold


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
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def is_within(namespace: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
    """Whether a namespace is this one, or below it."""
    return namespace[: len(prefix)] == tuple(prefix)


async def list_namespaces(store: Store, scope: Scope, prefix: Namespace = ()) -> list[Namespace]:
    """Those in and below a namespace that have items, by name."""
    names = await every_name(store, ITEMS, "session", scope)
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
