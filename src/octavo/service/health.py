"""How a memory is: what a monitor wants to know, found out without ever raising."""

from typing import Any, Literal

import msgspec

from octavo.assemble import Assembled
from octavo.errors import OctavoError
from octavo.kernel.model import Add, Query, Record, Remove, Scope
from octavo.service.records import EVENTS
from octavo.service.vault import Vault
from octavo.util.secrets import mask_passwords, mask_url
from octavo.wraps.attempts import Attempts

_PROBES = Scope(tenant="octavo-health")  # of what is written to see whether anything can be


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor wants to know, without secrets."""

    state: Literal["up", "down", "recovering", "closed"]
    backend: str  # the store's URL without its password
    queue: dict[str, Any] | None = None  # what waits and what died, when there is a failure queue
    vault: dict[str, Any] | None = None  # the documents, when there is a vault
    error: str = ""  # why it is not up
    accepts_writes: bool = True  # a write would be stored or queued now


async def check_health(assembled: Assembled, vault: Vault | None, *, closed: bool) -> Health:
    """How the memory is now; each question takes no longer than the time-out of the service."""
    seconds, journal = assembled.settings.service.timeout_seconds, assembled.journal
    state: Literal["up", "down", "recovering", "closed"] = "closed" if closed else "up"
    trouble = ""
    if not closed and journal is not None and (status := journal.status()).state != "up":
        # It knows, and a question would only wait for it.
        state, trouble = status.state, status.last_error or ""
    elif not closed:
        try:
            await Attempts().read(probe(assembled, EVENTS), seconds)
        except OctavoError as error:
            state, trouble = "down", str(error)
    accepts_writes = state == "up"
    if not closed and (journal is not None or accepts_writes):
        refusal = await _refusal(assembled, seconds)
        accepts_writes, trouble = not refusal, "; ".join(filter(None, (trouble, refusal)))
    return Health(
        state=state,
        backend=mask_url(assembled.settings.database.dsn),
        queue=None if journal is None else msgspec.to_builtins(journal.status()),
        vault=None if vault is None else await _vault_health(assembled, vault, seconds),
        error=without_secrets(assembled, trouble),
        accepts_writes=accepts_writes,
    )


async def probe(assembled: Assembled, *collections: str) -> None:
    """Ask something of each; another program's table of the same name is refused."""
    scope = Scope(tenant=assembled.settings.service.tenant)
    for collection in collections:
        await assembled.store.find(Query(collection=collection, scope=scope, limit=1, newest_first=True))


def without_secrets(assembled: Assembled, error: object) -> str:
    """What an error says, without the passwords of the settings."""
    return mask_passwords(str(error), (assembled.settings.database.dsn, assembled.settings.vector.url))


async def _refusal(assembled: Assembled, seconds: float) -> str:
    """Why a write would be neither stored nor queued; empty when it would be."""
    events = Query(collection=EVENTS, scope=Scope(tenant=assembled.settings.service.tenant))
    try:
        if assembled.journal is not None:
            return await Attempts().read(assembled.journal.refusal(events), seconds) or ""
        # Only a write can tell: a full or a read-only store still answers questions. And only one that is there for a
        # moment: what comes and goes in one call comes to nothing on some stores. It is in nobody's tenant.
        store = assembled.store
        await Attempts().read(store.apply([Add([Record(collection=EVENTS, scope=_PROBES)])]), seconds)
        await Attempts().read(store.apply([Remove(Query(collection=EVENTS, scope=_PROBES))]), seconds)
    except OctavoError as error:
        return str(error)
    return ""


async def _vault_health(assembled: Assembled, vault: Vault, seconds: float) -> dict[str, Any]:
    try:
        return dict(msgspec.to_builtins(await Attempts().read(vault.status(), seconds)))
    except (OctavoError, OSError) as error:
        return {"last_error": without_secrets(assembled, error)}
