"""`octavo keys`: who may call the server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from octavo.cli import running
from octavo.cli.options import voice
from octavo.cli.settings import resolved, store_option
from octavo.cli.teller import Teller
from octavo.cli.times import told
from octavo.errors import ConfigError
from octavo.events.retention import age
from octavo.kernel.ids import now
from octavo.kernel.model import utc

if TYPE_CHECKING:
    from octavo.config import Settings
    from octavo.keys import KeyInfo, Keys

_ACCESS = ("read", "write", "admin")


@click.group("keys")
def keys() -> None:
    """Make, list and revoke API keys of the server.

    They are kept where the server keeps its memories: the store is named as for octavo serve, and in the
    same folder it is the same. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo keys create laptop --access write --store sqlite:///octavo.db
    """


@keys.command("create")
@click.argument("name")
@click.option(
    "--access",
    type=click.Choice(_ACCESS),
    default="read",
    show_default=True,
    help="What it may do; each includes those before it.",
)
@click.option(
    "--tenant", metavar="NAME", help="Whose memory it opens. [default: service.tenant, of the settings]"
)
@click.option(
    "--expires", metavar="WHEN", help="When it ends: 90d, or 2027-03-01. [default: when it is revoked]"
)
@store_option
@voice
def create_command(
    name: str,
    access: Any,
    tenant: str | None,
    expires: str | None,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **named: Any,
) -> None:
    """Make a key called NAME and print it, this once.

    Only a hash of it is kept, so it cannot be shown again; with --quiet the key is all that is printed. Send it as
    "Authorization: Bearer KEY" or set OCTAVO_API_KEY for the Python client.

    \b
    Example: octavo keys create laptop --access write --tenant acme --expires 90d
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def work(held: "Keys", settings: "Settings") -> int:
        whose = settings.service.tenant if tenant is None else tenant
        created = await held.create(name, access=access, tenant=whose, expires=_end(expires))
        if quiet and not as_json:
            click.echo(created.key)
        teller.say(created.key)
        teller.note(f"octavo: key {created.info.id} for {name!r}; keep it safe, it is not shown again")
        teller.document(ok=True, command="keys create", key=created.key, **msgspec.to_builtins(created.info))
        return 0

    _with_keys(teller, work, make=True, **named)


@keys.command("list")
@click.option("--tenant", metavar="NAME", help="Only this tenant's. [default: every tenant]")
@store_option
@voice
def list_command(tenant: str | None, as_json: bool, quiet: bool, debug: bool, **named: Any) -> None:
    """List every key there is or was, oldest first; what it opens with is not known.

    \b
    Example: octavo keys list --store sqlite:///octavo.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def work(held: "Keys", _: "Settings") -> int:
        infos = await held.list(tenant)
        for info in infos:
            teller.say(_line(info))
        if not infos:
            teller.say("no keys")
        teller.document(ok=True, command="keys list", keys=msgspec.to_builtins(infos))
        return 0

    _with_keys(teller, work, **named)


@keys.command("revoke")
@click.argument("key_id", metavar="ID")
@store_option
@voice
def revoke_command(key_id: str, as_json: bool, quiet: bool, debug: bool, **named: Any) -> None:
    """Make the key ID useless for ever. Servers that run learn of it within 5 seconds.

    \b
    Example: octavo keys revoke 3f9c2b1e0a7d4c55 --store sqlite:///octavo.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def work(held: "Keys", _: "Settings") -> int:
        info = await held.revoke(key_id)
        teller.say(f"revoked {info.id} ({info.name})")
        teller.document(ok=True, command="keys revoke", **msgspec.to_builtins(info))
        return 0

    _with_keys(teller, work, **named)


def _with_keys(
    teller: Teller,
    work: Callable[["Keys", "Settings"], Awaitable[int]],
    *,
    config: str | None,
    verbose: bool,
    url: str | None,
    make: bool = False,
) -> None:
    def run() -> int:
        settings = resolved(teller, config, verbose, {"database.dsn": ("--store", url)}).settings
        store = settings.database.dsn
        if store.startswith("memory:") or store == "sqlite:///:memory:":
            raise ConfigError(f"{store} forgets its keys with this command; name a store that lasts")
        if not make:  # the first key may be made before the server has ever run
            running.existing(store)

        async def worked() -> int:
            async with _opened(store) as held:
                return await work(held, settings)

        return asyncio.run(worked())

    running.run(teller, [url or ""], run)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator["Keys"]:
    from octavo.keys import Keys
    from octavo.stores import open_store

    async with open_store(url) as store:
        yield Keys(store)


def _end(spelled: str | None) -> datetime | timedelta | None:
    if spelled is None:
        return None
    try:
        return utc(datetime.fromisoformat(spelled))
    except (ValueError, OverflowError):
        pass
    try:
        return age(spelled)
    except ConfigError:
        raise ConfigError(
            f"--expires {spelled!r} is no time; try 90d, 12h, 2027-03-01 or 2027-03-01T12:00:00+08:00"
        ) from None


def _line(info: "KeyInfo") -> str:
    state = ""
    if info.revoked_at is not None:
        state = f"  revoked {told(info.revoked_at)}"
    elif info.expires_at is not None:
        state = f"  {'expired' if info.expires_at <= now() else 'expires'} {told(info.expires_at)}"
    tenant = f"  tenant {info.tenant}" if info.tenant else ""
    return f"{info.id}  {info.access:5}  {told(info.created_at)}  {info.name}{tenant}{state}"
