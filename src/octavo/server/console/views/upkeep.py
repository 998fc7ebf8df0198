"""For admins: what waits or was given up, erasures, documents, keys and settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated

from fastapi import Response
from pydantic import Field
from starlette.exceptions import HTTPException

from octavo.config import shown_settings
from octavo.erasing import certificates
from octavo.errors import NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Op
from octavo.keys import ACCESS, Access
from octavo.server.console.pages import Page, Pages
from octavo.server.gate import caller_of
from octavo.server.requests import Body, Name, memories_of
from octavo.service.vault import Vault, existing_vault
from octavo.wraps.journal import DeadLetter, Journal, inspect

pages = Pages()
_LETTERS = 100
_ERASURES = 20
_VERSIONS = 20


# --- what waits


@pages.add("GET", "/reliability")
async def show_reliability(page: Page) -> Response:
    """The queue, what was given up, the last erasures and for how long things are kept."""
    held, tenant = memories_of(page.request), caller_of(page.request.scope).tenant
    journal = held.assembled.journal
    folder = held.settings.failure_queue.directory
    erased = await certificates(held.assembled.store, tenant)
    return page.render(
        "reliability.html",
        health=await held.health(),
        queue=None if journal is None else journal.status(),
        spool=None if journal is None else await asyncio.to_thread(inspect, folder),
        letters=[] if journal is None else [(each, _does(each)) for each in await _letters(journal, tenant)],
        erased=erased[::-1][:_ERASURES],
        retention=shown_settings(held.settings)["retention"],
    )


@pages.add("POST", "/reliability/replay")
async def replay(page: Page) -> Response:
    """Try at once to store what waits."""
    await _journal(page).replay_now()
    return page.redirect(page.address("reliability", done="replayed"))


@pages.add("POST", "/reliability/letters/{letter:name}")
async def settle_letter(page: Page) -> Response:
    """Put a write that was given up back into the queue, or forget it for ever."""
    journal, name = _journal(page), page.request.path_params["letter"]
    letter = await journal.dead_letter(name)
    if not _is_of(letter, caller_of(page.request.scope).tenant):
        raise NotFound(f"there is no dead letter {name}")
    if page.form.get("how") == "discard":
        await journal.discard_dead([name])
        return page.redirect(page.address("reliability", done="discarded"))
    await journal.replay_dead([name])
    return page.redirect(page.address("reliability", done="retried"))


def _journal(page: Page) -> Journal:
    journal = memories_of(page.request).assembled.journal
    if journal is None:
        raise NotFound("there is no failure queue: failure_queue.enabled is false")
    return journal


async def _letters(journal: Journal, tenant: str) -> list[DeadLetter]:
    """The oldest dead letters that hold nothing of another tenant."""
    return [each for each in await journal.dead_letters(_LETTERS) if _is_of(each, tenant)]


def _is_of(letter: DeadLetter, tenant: str) -> bool:
    return all(name == tenant for op in letter.ops for name in _tenants(op))


def _tenants(op: Op) -> list[str]:
    return [each.scope.tenant for each in op.records] if isinstance(op, Add) else [op.query.scope.tenant]


def _does(letter: DeadLetter) -> str:
    """What a write would do, in a few words."""
    said = []
    for op in letter.ops:
        where = {each.collection for each in op.records} if isinstance(op, Add) else {op.query.collection}
        count = f" {len(op.records)}" if isinstance(op, Add) else ""
        said.append(f"{type(op).__name__.lower()}{count} {', '.join(sorted(where))}")
    return "; ".join(said)


# --- documents


@pages.add("GET", "/vault")
async def list_documents(page: Page) -> Response:
    """The documents by key, and what is not in step with the store."""
    async with _vault(page) as vault:
        documents = None if vault is None else await vault.list()
        status = None if vault is None else await vault.status()
    return page.render("vault.html", documents=documents, state=status)


@pages.add("GET", "/vault/{key:name}")
async def show_document(page: Page) -> Response:
    """One document as it reads, and what it said before."""
    key = page.request.path_params["key"]
    async with _vault(page) as vault:
        document = None if vault is None else await vault.get(key)
        versions = [] if vault is None else await vault.versions(key)
    if document is None and not versions:
        raise NotFound(f"there is no document {key!r}")
    bodies = [*(each.body for each in versions), "" if document is None else document.body]
    changes = [(version, bodies[number], bodies[number + 1]) for number, version in enumerate(versions)]
    return page.render("document.html", key=key, document=document, changes=changes[::-1][:_VERSIONS])


@asynccontextmanager
async def _vault(page: Page) -> AsyncIterator[Vault | None]:
    """The vault, if there is one and it is the caller's: its files are of one tenant."""
    held = memories_of(page.request)
    settings, tenant = held.settings, caller_of(page.request.scope).tenant
    vault: Vault | None = None
    if settings.vault.enabled and tenant == settings.service.tenant:
        vault = existing_vault(settings.vault.root_path, held.assembled.store, tenant)
    try:
        yield vault
    finally:
        if vault is not None:
            await vault.close()


# --- who may call


class _NewKey(Body):
    """A key to be made."""

    name: Name
    access: Access = "read"
    user: Name | None = None
    days: Annotated[int, Field(ge=1, le=3650)] | None = None


@pages.add("GET", "/access")
async def show_access(page: Page) -> Response:
    """The keys of the tenant and all settings, without what must stay secret."""
    return await _access(page)


@pages.add("POST", "/access/keys")
async def create_key(page: Page) -> Response:
    """Make a key for this tenant, and show it this once."""
    asked = page.checked(_NewKey, **{name: page.form.get(name) for name in _NewKey.model_fields})
    ends = None if asked.days is None else timedelta(days=asked.days)
    created = await memories_of(page.request).keys.create(
        asked.name,
        access=asked.access,
        tenant=caller_of(page.request.scope).tenant,
        user=asked.user,
        expires=ends,
    )
    return await _access(page, created.key)


@pages.add("POST", "/access/keys/{key:name}/revoke")
async def revoke_key(page: Page) -> Response:
    """Make a key of this tenant useless for ever."""
    keys, tenant = memories_of(page.request).keys, caller_of(page.request.scope).tenant
    name = page.request.path_params["key"]
    if name not in {each.id for each in await keys.list(tenant)}:
        raise HTTPException(404, "there is no key with this id")
    await keys.revoke(name)
    return page.redirect(page.address("access", done="revoked"))


async def _access(page: Page, made: str = "") -> Response:
    held, tenant = memories_of(page.request), caller_of(page.request.scope).tenant
    return page.render(
        "access.html",
        keys=(await held.keys.list(tenant))[::-1],
        made=made,
        at=now(),
        levels=ACCESS,
        settings=shown_settings(held.settings),
    )
