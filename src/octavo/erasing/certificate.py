"""The certificate of an erasure: what was removed where, whether its bytes were looked for, and what is out of reach."""

import asyncio
from datetime import datetime
from typing import Any, Literal

import msgspec

from octavo.erasing.digests import Digests
from octavo.erasing.subject import Part
from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.model import Add, Change, Query, Record, Scope, exact_scope
from octavo.kernel.ports import Store
from octavo.util.cache import clear_caches

COLLECTION = "erasures"
_SCOPE = Scope(user="", agent="", session="octavo:erasures")
_ALL = Query(collection=COLLECTION, scope=exact_scope(_SCOPE))
LOOK_SECONDS = 5.0
#: Nobody's program reaches these.
BEYOND = (
    "backups and copies that were made before",
    "replicas, until they have followed",
    "freed blocks of the disk, until it writes them over",
    "other machines: their vaults, queues and memory",
)


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure did. It holds counts, and a keyed digest in place of a name; no content."""

    id: str
    what: Part
    subject: str  # a keyed digest of the name
    tenant: str = ""
    asked_at: datetime
    erased_at: datetime | None = None
    dry_run: bool = False
    removed: dict[str, int] = {}  # by where it was; of a dry run, what would be
    digests: int = 0  # pieces of erased texts that a scrub looks for
    scrub: Literal["pending", "done", "found"] = "pending"
    scrubbed_at: datetime | None = None
    scrubbed: tuple[str, ...] = ()  # what was done about the bytes left behind
    scanned: dict[str, int] = {}  # files and bytes that were looked through
    found: int = 0  # pieces that are still there, and that no other record holds
    unreached: tuple[str, ...] = BEYOND

    @property
    def total(self) -> int:
        """How much was removed in all."""
        return sum(self.removed.values())


async def keep(store: Store, certificate: Certificate, digests: Digests | None) -> None:
    """Keep a certificate, in place of what it said before; its digests as long as they are looked for."""
    data: dict[str, Any] = {"certificate": msgspec.to_builtins(certificate)}
    if digests is not None:
        data["digests"] = digests.to_text()
    record = Record(
        collection=COLLECTION,
        id=certificate.id,
        kind=certificate.scrub,
        scope=_SCOPE,
        text="-",  # or the digests would be searched
        data=data,
    )
    named = msgspec.structs.replace(_ALL, ids=(certificate.id,))
    await store.apply([Add([record]), Change(query=named, kind=certificate.scrub, data=data)])


async def certificates(store: Store, tenant: str | None = None) -> list[Certificate]:
    """All certificates that are kept, oldest first; of one tenant, or of all."""
    return [each for each, _ in await read_certificates(store) if tenant is None or each.tenant == tenant]


async def read_certificates(store: Store, *, pending: bool = False) -> list[tuple[Certificate, Digests]]:
    """The certificates with their digests, all of them or those whose bytes are still to be looked for."""
    kinds = ("pending", "found") if pending else None
    found = [record.data for record in await store.find(msgspec.structs.replace(_ALL, kinds=kinds))]
    return [
        (msgspec.convert(data["certificate"], Certificate), Digests.read(data.get("digests", "")))
        for data in found
    ]


async def watch_erasures(store: Store, seconds: float = LOOK_SECONDS) -> None:
    """Clear the caches of this process whenever something was erased, by whichever process, until it is cancelled."""
    newest = msgspec.structs.replace(_ALL, newest_first=True, limit=1)
    seen: object = None
    known = False
    while True:
        try:
            found = [(record.id, record.updated_at) for record in await store.find(newest)]
        except StoreClosed:
            return
        except OctavoError:  # a store that is away is asked again
            pass
        else:
            if known and found != seen:
                clear_caches()
            seen, known = found, True
        await asyncio.sleep(seconds)
