"""Documents, their earlier versions, and the records both are kept as."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.errors import InvalidRecord
from octavo.kernel.model import Add, Op, Query, Record, Remove, Scope
from octavo.service.vault.front import Content, composed, md5, parsed
from octavo.service.vault.keys import Place

Reason: TypeAlias = Literal["edited", "replaced", "conflict", "deleted"]
VERSIONS = "versions"
COLLECTIONS = ("configs", "knowledge")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A Markdown text that people and agents both write. `status` says whether the store has it already."""

    key: str
    kind: str
    body: str
    front: dict[str, Any]
    updated_at: datetime
    version: int
    status: Literal["stored", "queued"] = "stored"


class DocumentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What a document said before, and why it gave way: edited, replaced, conflict or deleted."""

    key: str
    version: int
    reason: str
    body: str
    front: dict[str, Any]
    replaced_at: datetime


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A document as a listing shows it. `synced` is false while the store is not known to have it as it is."""

    key: str
    kind: str
    path: str
    size: int
    version: int
    updated_at: datetime
    synced: bool


class Kept(msgspec.Struct, frozen=True):
    """A document as the store has it."""

    record: Record
    content: Content

    @property
    def version(self) -> int:
        version = self.record.metadata.get("version")
        return version if isinstance(version, int) and not isinstance(version, bool) else 1

    @property
    def sound(self) -> bool:
        """Whether the record says which text it is; one that somebody else wrote or changed does not."""
        return bool(self.record.metadata.get("md5") == self.content.md5)


def kept(record: Record) -> Kept:
    """The document of a record, whoever wrote it."""
    head, front = record.data.get("head"), record.data.get("front")
    if isinstance(head, str):
        content = parsed(head + record.text)
        if content.body == record.text:
            return Kept(record, content)
    try:
        return Kept(record, composed(record.text, front if isinstance(front, dict) else {}))
    except InvalidRecord:  # a front matter that YAML cannot say
        return Kept(record, composed(record.text, {}))


def fingerprint(record: Record) -> str:
    """The md5 of a record's file, without parsing what we wrote ourselves."""
    head = record.data.get("head")
    if isinstance(head, str) and record.metadata.get("md5") == (own := md5((head + record.text).encode())):
        return own
    return kept(record).content.md5


class Shelf:
    """The documents of one scope: how they are asked for and written."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._exact = Scope(
            tenant=scope.tenant, user=scope.user or "", agent=scope.agent or "", session=scope.session or ""
        )
        self._history = msgspec.structs.replace(self._exact, session=None)

    def all(self, collection: str, ids: Sequence[str] | None = None) -> Query:
        """The question for these documents, or for all."""
        return Query(collection=collection, ids=None if ids is None else tuple(ids), scope=self._exact)

    def history(self, key: str | None = None, *reasons: Reason) -> Query:
        """The question for what a document, or any, said before."""
        scope = self._history if key is None else msgspec.structs.replace(self._exact, session=key)
        return Query(collection=VERSIONS, scope=scope, kinds=reasons or None)

    def record(
        self, place: Place, content: Content, version: int, created_at: datetime, at: datetime
    ) -> Record:
        """The record that keeps a document."""
        return Record(
            collection=place.collection,
            id=place.key,
            kind=place.kind,
            scope=self._scope,
            text=content.body,
            data=_data(content),
            metadata={"md5": content.md5, "version": version},
            created_at=created_at,
            updated_at=max(created_at, at),
        )

    def version(self, key: str, content: Content, version: int, reason: Reason, at: datetime) -> Add:
        """Keep what a document said; the same text of the same version is kept once, whoever keeps it."""
        sum_ = content.md5
        record = Record(
            collection=VERSIONS,
            id=f"{version:06}-{sum_}{'-deleted' if reason == 'deleted' else ''}",
            kind=reason,
            scope=msgspec.structs.replace(self._scope, session=key),
            text=content.body,
            data=_data(content),
            metadata={"md5": sum_, "version": version},
            created_at=at,
        )
        return Add([record])

    def swapped(self, record: Record, old: Kept | str | None) -> list[Op]:
        """Put a record in the place of that text and no other; the last op's count says whether it went in.

        The removal also tells a store that remembers what it was given that this may not be a repetition.
        """
        return [self.removed(record.collection, record.id, old), Add([record])]

    def removed(self, collection: str, key: str, old: Kept | str | None) -> Remove:
        """Remove a document if it still says that: its md5, or what was read of it."""
        if isinstance(old, Kept):
            stated = old.record.metadata.get("md5")
            where = {"md5": stated} if isinstance(stated, str) else {}
        else:
            where = {"md5": old or "-"}  # no text has that sum
        query = self.all(collection, (key,))
        return Remove(msgspec.structs.replace(query, where=where))


def _data(content: Content) -> dict[str, Any]:
    return {"front": content.front, "head": content.head}


def version_of(record: Record) -> DocumentVersion:
    """What a document said before, from its record."""
    found = kept(record)
    return DocumentVersion(
        key=record.scope.session or "",
        version=found.version,
        reason=record.kind,
        body=found.content.body,
        front=found.content.front,
        replaced_at=record.created_at,
    )
