"""Which records may be recalled at all: decided before anything is ranked."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from octavo.errors import InvalidQuery
from octavo.kernel.model import Query, Scope
from octavo.kernel.shapes import SHAPES

#: Where recall looks unless told: what was said, and what was kept of it.
COLLECTIONS = ("messages", "exchanges", "profile", "episodes", "knowledge")
LAYERS = {"profile": ("profile",), "event": ("episodes",)}


class Filters(TypedDict, total=False):
    """What the methods of `Recall` take beside the question."""

    collections: Sequence[str]
    layer: str | None  # "profile" or "event", in place of collections
    kinds: Sequence[str] | None
    marks: Sequence[str] | None  # any of these
    without: Sequence[str]  # none of these
    where: Mapping[str, Any]  # metadata equals these scalars
    since: datetime | None
    until: datetime | None
    everyone: bool  # look in a scope that names nobody


def queries(scope: Scope, at: datetime, filters: Filters) -> list[Query]:
    """One query for each collection to look in; what has expired by `at` is in none of them."""
    for name in filters:
        if name not in Filters.__annotations__:  # a misspelt filter would silently let everything through
            raise InvalidQuery(f"unknown filter {name!r}; known: {', '.join(Filters.__annotations__)}")
    if not isinstance(scope, Scope):
        raise InvalidQuery(f"scope must be a Scope, such as Scope(user='lin'); got {scope!r}")
    everyone = filters.get("everyone", False)
    if not isinstance(everyone, bool):
        raise InvalidQuery(f"everyone must be True or False; got {everyone!r}")
    if not everyone and scope.user is None and scope.agent is None and scope.session is None:
        # A name that was left out by an oversight would show one person what another said.
        raise InvalidQuery(
            "a search belongs to somebody: name a user, an agent or a session in its scope, or say everyone=True"
        )
    where = filters.get("where", {})
    if not isinstance(where, Mapping):
        raise InvalidQuery(f"where must be a mapping of metadata names to values; got {where!r}")
    clauses: dict[str, Any] = {
        "kinds": _names("kinds", filters.get("kinds")),
        "marks": _names("marks", filters.get("marks")),
        "without": _names("without", filters.get("without", ())) or (),
        "where": dict(where),
        "since": _moment("since", filters.get("since")),
        "until": _moment("until", filters.get("until")),
    }
    return [
        Query(collection=collection, scope=scope, alive_at=at, **clauses).checked()
        for collection in _collections(filters)
    ]


def _names(what: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = () if isinstance(given, str) else tuple(given)
    # A string is a sequence of its letters, and would ask for kinds of one letter each.
    if isinstance(given, str) or not all(isinstance(name, str) for name in names):
        raise InvalidQuery(f"{what} must be a list of names; got {given!r}")
    return names


def _moment(what: str, given: datetime | None) -> datetime | None:
    if given is not None and not isinstance(given, datetime):
        raise InvalidQuery(f"{what} must be a datetime; got {given!r}")
    return given


def _collections(filters: Filters) -> tuple[str, ...]:
    if (layer := filters.get("layer")) is not None:
        if "collections" in filters:
            raise InvalidQuery("give layer or collections, not both")
        if layer not in LAYERS:
            raise InvalidQuery(f"unknown layer {layer!r}; known: {', '.join(LAYERS)}")
        return LAYERS[layer]
    named = filters.get("collections", COLLECTIONS)
    if isinstance(named, str) or not named:
        raise InvalidQuery(f"collections must be a list of names, such as ['messages']; got {named!r}")
    for name in named:
        if name not in SHAPES:
            raise InvalidQuery(f"unknown collection {name!r}; known: {', '.join(SHAPES)}")
    return tuple(dict.fromkeys(named))
