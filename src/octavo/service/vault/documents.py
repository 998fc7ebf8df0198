"""What a document says: a Markdown text and the YAML front matter before it, letter by letter; and the record it is kept as."""

import functools
import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.errors import InvalidRecord
from octavo.kernel.codec import MAX_DEPTH, seal
from octavo.kernel.model import Add, Op, Query, Record, Remove, Scope, exact_scope
from octavo.kernel.text import spell
from octavo.service.vault.folder import Problem
from octavo.service.vault.names import DocumentAddress, user_of
from octavo.util.system import import_extra

Reason: TypeAlias = Literal["edited", "replaced", "conflict", "deleted"]
COLLECTIONS = ("configs", "knowledge")

_OPENS = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSES = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_TRUTH = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_BOM = "\ufeff"
_NOTHING = "---\n---\n"  # a head that says nothing, before a body that would be taken for one
_MOST_HEAD_CHARACTERS = 64 * 1024
_MOST_VALUES = 10_000


class Content(msgspec.Struct, frozen=True):
    """What a file says: `head` is everything before the body, as it was typed; `front` is its meaning."""

    head: str
    body: str
    front: dict[str, Any]

    @property
    def raw(self) -> bytes:
        """The bytes of the file."""
        return (self.head + self.body).encode()

    @property
    def md5(self) -> str:
        """What tells this text from any other."""
        return hashlib.md5(self.raw, usedforsecurity=False).hexdigest()


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


class SyncReport(msgspec.Struct, kw_only=True):
    """What a sync did, by key, and what it could not do yet."""

    pushed: list[str] = []  # new or edited files, now in the store
    pulled: list[str] = []  # texts of the store, now in files
    conflicts: list[str] = []  # both changed: the file won over the other
    removed: list[str] = []  # deleted files, now gone from the store
    unlinked: list[str] = []  # files of documents deleted elsewhere, now gone
    pending: list[str] = []  # not known to be in the store yet
    problems: list[Problem] = []
    unchanged: int = 0
    store_error: str | None = None  # why the store could not be asked; the next sync goes on

    @property
    def changed(self) -> int:
        """How many documents are different now, here or in the store."""
        done = (self.pushed, self.pulled, self.conflicts, self.removed, self.unlinked)
        return sum(len(keys) for keys in done)

    @property
    def complete(self) -> bool:
        """Whether files and store now agree, but for the files named as problems."""
        return self.store_error is None and not self.pending


class VaultStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a vault stands, as its files tell; the store is not asked."""

    root: str
    documents: dict[str, int]  # by kind
    unsynced: list[str]  # files that are not known to be in the store as they are, and deleted ones; by key
    problems: list[Problem]
    synced_at: datetime | None  # when files and store last agreed on some document
    watching: bool = False
    last_error: str | None = None


class DocumentRecords:
    """The documents of one scope as records: how they are asked for and written.

    In a scope of no user, `users/alice` is kept as Alice's.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def scope_of(self, key: str) -> Scope:
        """Whose the document of this key is."""
        return self._scope if self._scope.user else msgspec.structs.replace(self._scope, user=user_of(key))

    def every(self, collection: str) -> Query:
        """The question for all documents; of the answers, those count that are `mine`."""
        exact = exact_scope(self._scope)
        anybody = collection == "configs" and not self._scope.user
        scope = msgspec.structs.replace(exact, user=None) if anybody else exact
        return Query(collection=collection, scope=scope)

    def mine(self, record: Record) -> bool:
        """Whether a document is not one of a user's own vault."""
        return record.scope.user == self.scope_of(record.id).user

    def one(self, collection: str, key: str, **where: str) -> Query:
        """The question for one document."""
        scope = exact_scope(self.scope_of(key))
        return Query(collection=collection, ids=(key,), scope=scope, where=where)

    def versions(self, key: str) -> Query:
        """The question for what a document said before."""
        scope = msgspec.structs.replace(exact_scope(self.scope_of(key)), session=key)
        return Query(collection="versions", scope=scope)

    def document(
        self, address: DocumentAddress, content: Content, version: int, times: Sequence[datetime]
    ) -> Record:
        """The record that keeps a document; `times` are when it was first written, and when this text was."""
        return Record(
            collection=address.collection,
            id=address.key,
            kind=address.kind,
            scope=self.scope_of(address.key),
            text=content.body,
            data={"front": content.front, "head": content.head},
            metadata={"md5": content.md5, "version": version},
            created_at=times[0],
            updated_at=max(times),
        )

    def version(self, key: str, content: Content, version: int, reason: Reason, at: datetime) -> Add:
        """Keep what a document said; the same text of the same version is kept once, whoever keeps it."""
        record = Record(
            collection="versions",
            id=version_id(version, content.md5, deleted=reason == "deleted"),
            kind=reason,
            scope=msgspec.structs.replace(self.scope_of(key), session=key),
            text=content.body,
            data={"front": content.front, "head": content.head},
            metadata={"md5": content.md5, "version": version},
            created_at=at,
        )
        return Add([record])

    def remove_op(self, collection: str, key: str, old: Record | None) -> Remove:
        """Remove a document if it still is that one; None is none."""
        md5 = "-" if old is None else old.metadata.get("md5")  # no text has that sum
        where = {"md5": md5} if isinstance(md5, str) else {}  # a record that somebody else wrote has none
        return Remove(self.one(collection, key, **where))

    def erase_ops(self, key: str) -> list[Op]:
        """Remove a document and all it ever said."""
        return [Remove(self.versions(key)), *(Remove(self.one(each, key)) for each in COLLECTIONS)]


def content_of(record: Record) -> Content:
    """What the file of a document says, from its record; whoever wrote that."""
    text, head, front = record.text, record.data.get("head"), record.data.get("front")
    if isinstance(head, str) and (content := parse(head + text)).body == text:
        return content
    try:
        return compose(text, front if isinstance(front, dict) else {})
    except InvalidRecord:  # a front matter that YAML cannot say
        return compose(text, {})


def md5_of(record: Record) -> str:
    """Of the file that a record becomes; without parsing what we wrote ourselves."""
    head, stated = record.data.get("head"), record.metadata.get("md5")
    if isinstance(head, str) and isinstance(stated, str) and stated == Content(head, record.text, {}).md5:
        return stated
    return content_of(record).md5


def number_of(record: Record | None) -> int:
    """The version that a record keeps the text of; 0 for none."""
    if record is None:
        return 0
    version = record.metadata.get("version")
    return version if isinstance(version, int) and not isinstance(version, bool) else 1


def version_id(version: int, md5: str, *, deleted: bool = False) -> str:
    """The id that the text of a version is kept under."""
    return f"{version:06}-{md5}{'-deleted' if deleted else ''}"


def version_of(record: Record) -> DocumentVersion:
    """What a document said before, from its record."""
    content = content_of(record)
    return DocumentVersion(
        key=record.scope.session or "",
        version=number_of(record),
        reason=record.kind,
        body=content.body,
        front=content.front,
        replaced_at=record.created_at,
    )


# Front matter.


def parse(text: str) -> Content:
    """The text as head and body. What is no front matter (no end, a list, broken YAML) is body, as it stands."""
    opening = _OPENS.match(text)
    closing = _CLOSES.search(text, opening.end()) if opening else None
    if opening and closing and closing.end() <= _MOST_HEAD_CHARACTERS:
        front = _parse_yaml(text[opening.end() : closing.start()])
        if front is not None:
            return Content(text[: closing.end()], text[closing.end() :], front)
    bare = text.startswith(_BOM)
    return Content(_BOM if bare else "", text[bare:], {})


def compose(body: str, front: dict[str, Any] | None, old: Content | None = None) -> Content:
    """A file that says this. A head that still holds is kept as it was typed; `front=None` keeps the old one."""
    seal(Record(collection="configs", id="any", text=body))  # InvalidRecord for a text that no store keeps
    if front is None:
        front = old.front if old else {}
    else:
        try:
            front = _check_plain(front)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRecord(f"front matter must be a dict of plain values: {error}") from None
    heads = [old.head] if old is not None and spell(old.front) == spell(front) else []
    spelled = _yaml().safe_dump(front, allow_unicode=True, sort_keys=False, width=10_000) if front else ""
    heads += [f"---\n{spelled}---\n"] if front else ["", _NOTHING]
    for head in heads:
        found = parse(head + body)
        if found.body == body and spell(found.front) == spell(front):
            return found
    raise InvalidRecord(f"this front matter cannot be written as YAML: {spell(front)[:80]}")


def _check_plain(front: Any) -> dict[str, Any]:
    """The front matter as JSON has it; TypeError or ValueError when no record could keep it."""
    plain = msgspec.to_builtins(front, str_keys=True)
    if not isinstance(plain, dict):
        raise TypeError(f"got {type(front).__name__}")
    seal(Record(collection="configs", id="any", data={"front": plain}))
    return plain


def _parse_yaml(spelled: str) -> dict[str, Any] | None:
    """What the YAML says, None when it is no mapping of plain values."""
    yaml = _yaml()
    try:
        _check_shape(spelled)
        said = yaml.load(spelled, Loader=_loader())
        return {} if said is None else _check_plain(said)
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        return None


def _check_shape(spelled: str) -> None:
    """Refuse what YAML takes long for, tags, and aliases: a few of them can stand for billions of values."""
    yaml = _yaml()
    depth = 0
    for number, event in enumerate(yaml.parse(spelled, Loader=_loader())):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or number > 2 * _MOST_VALUES:
            raise ValueError("nested too deep, or too many values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
            raise ValueError("an alias or a tag")


def _yaml() -> Any:
    return import_extra("yaml", "service", "front matter")


@functools.cache
def _loader() -> Any:
    """YAML's safe loader, less clever: a date and a `no` stay the texts that were typed, and `<<` is a key."""
    yaml = _yaml()
    tag = "tag:yaml.org,2002:"
    resolvers = {
        first: [
            (name, _TRUTH if name == f"{tag}bool" else pattern)
            for name, pattern in rules
            if name not in (f"{tag}timestamp", f"{tag}merge", f"{tag}value")  # JSON has no dates
        ]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, where there is one
    return type("PlainLoader", (base,), {"yaml_implicit_resolvers": resolvers})
