"""Where events wait on disk while their store cannot take them."""

import hashlib
import re
from pathlib import Path

import msgspec

from octavo.agent.keepable import keepable
from octavo.events import BaseMemoryStore, EventStore
from octavo.stores.sql.urls import parse
from octavo.util.secrets import shown

_ROOT = Path(".octavo") / "queue"
_SECRET = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)


def queue_directory(memory_store: BaseMemoryStore, agent_name: str) -> Path | None:
    """A folder that belongs to this store and no other: what waits in it must not end up in another one.

    Beside the database or folder where the store is one; otherwise under `.octavo/queue`. None when the store lives in
    this process, which it can only leave together with the agent, or is an object whose place nobody knows.
    """
    if not isinstance(memory_store, EventStore):
        kind = type(memory_store)
        config = getattr(memory_store, "config", None)
        told = {k: v for k, v in keepable(config or {}).items() if not _SECRET.search(k)}
        identity = f"{kind.__module__}.{kind.__qualname__} {agent_name} {msgspec.json.encode(told, order='sorted')!r}"
        return _ROOT / _named(f"{kind.__name__}-{agent_name}", identity)
    if not memory_store.url:
        return None
    address = parse(memory_store.url)
    if address.scheme == "memory":
        return None
    if address.scheme == "sqlite":
        path = address.path.removeprefix("/")
        return Path(f"{path}.queue") if path not in ("", ":memory:") else None
    if address.scheme == "file":
        return Path(f"{(address.host + address.path).rstrip('/')}.queue")
    where = shown(memory_store.url)  # without the password, which may change while something waits
    return _ROOT / _named(f"{address.scheme}-{address.host}{address.path}", where)


def _named(words: str, identity: str) -> str:
    """A name that a person recognises, with enough of a digest to be nobody else's."""
    readable = re.sub(r"[^\w.-]+", "-", words).strip("-.")[:60]
    return f"{readable}-{hashlib.blake2b(identity.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
