"""`octavo serve`, the REST server; `octavo keys`, who may call it; `octavo mcp`, memory for programs that speak MCP."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, check_exists, echo, parse_time
from octavo.cli.commands import root
from octavo.cli.memory import open_memory
from octavo.cli.tables import time_text
from octavo.config import local_path
from octavo.errors import ConfigError, InvalidRecord
from octavo.kernel.ids import now
from octavo.keys import ACCESS, KeyInfo, Keys
from octavo.mcp import ToolCaller, Toolset
from octavo.mcp.install import CLIENTS, ServerEntry, plan
from octavo.stores import open_store
from octavo.util.disk import is_usable_folder
from octavo.util.secrets import mask_url
from octavo.util.system import missing_packages, store_extra

if TYPE_CHECKING:
    from octavo.config import Settings
    from octavo.server.running import Prepared


@root.command("serve")
@option.store
@option.text(
    "--host",
    "NAME",
    "Where to listen; anything but loopback needs keys. [default: 127.0.0.1]",
    setting="server.host",
)
@option.number("--port", "The port; 0 is any that is free. [default: 8000]", 0, 65_535, setting="server.port")
@option.number("--workers", "Processes that answer. [default: 1]", 1, 256, setting="server.workers")
@option.make(
    "--console/--no-console",
    "Whether to serve the pages for people, under /console. [default: yes]",
    default=None,
    setting="server.console",
)
@option.flag("--sample", "Begin with one user to look at, user123.")
@as_command
def serve_command(call: CommandCall, sample: bool) -> int:
    """Serve memories, events and logs over HTTP.

    Each request is one line on stderr, of JSON unless that is a terminal; --quiet leaves only warnings. Stopped by SIGTERM or
    Ctrl-C, it finishes what is under way. API keys are made with octavo keys create; on loopback none are needed.

    \b
    Example: octavo serve --store sqlite:///octavo.db --sample
    """
    settings = call.settings
    _check_packages("server", call)
    gc.disable()  # what is imported is no garbage: to look for some, again and again, is a tenth of the start
    from octavo.server import running as server

    gc.freeze()
    gc.enable()

    server.check_settings(settings)
    with server.bind(settings.server.host, settings.server.port) as sock:
        # A store in memory is made in the process that serves it, and nothing can be made ready for it here.
        alone = local_path(settings.database.dsn) == ""
        if alone:
            prepared = server.Prepared(reachable=True, keys=0)
        else:
            prepared = asyncio.run(server.prepare(settings, sample=sample))
        port = sock.getsockname()[1]
        return server.serve(
            settings,
            sock,
            lambda: _announce(call, settings, prepared, port),
            sample=sample and alone,
            requests=not call.quiet,
        )


def _check_packages(extra: str, call: CommandCall) -> None:
    """Refuse to begin without what the command and its store need."""
    if needed := missing_packages(extra, *store_extra(call.settings.database.dsn)):
        raise ConfigError(f"octavo {call.command} needs {needed}")


def _announce(call: CommandCall, settings: "Settings", prepared: "Prepared", port: int) -> None:
    """Say where it listens, on what store, who may call, and something to try."""
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    address = f"http://{host}:{port}"
    store = mask_url(settings.database.dsn)
    who = "no key needed, only this machine can call"
    if server.needs_key:
        missing = ", and there is none: octavo keys create NAME makes one"
        who = f"an API key is needed{'' if prepared.keys or not prepared.reachable else missing}"
    call.say(f"octavo listens on {address} · store {store} · {who}")
    # To call any address of this machine, one of them must be named.
    near = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104 - it is not bound here
    key = ' -H "Authorization: Bearer $OCTAVO_API_KEY"' if server.needs_key else ""
    call.say(f'try: curl{key} "{near}/memory/user/user123/profile"')
    if not prepared.reachable:
        queue = settings.failure_queue
        queued = "queued" if queue.enabled and is_usable_folder(Path(queue.directory)) else "refused"
        call.note(f"the store cannot be reached yet: {prepared.trouble}; writes are {queued} until it can")
    call.document(
        url=address,
        store=store,
        workers=server.workers,
        needs_key=server.needs_key,
        keys=prepared.keys,
        reachable=prepared.reachable,
    )


@root.group("keys")
def keys() -> None:
    """Make, list and revoke API keys of the server.

    They are kept where the server keeps its memories: the store is named as for octavo serve, and in the
    same folder it is the same. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo keys create laptop --access write --store sqlite:///octavo.db
    """


@keys.command("create")
@click.argument("name")
@option.choice("--access", ACCESS, "What it may do; each includes those before it.", default="read")
@option.text("--tenant", "NAME", "Whose memory it opens. [default: service.tenant, of the settings]")
@option.text("--user", "NAME", "The only user whose memory it opens. [default: every user of the tenant]")
@option.text(
    "--expires",
    "WHEN",
    "When it ends: 90d, or 2027-03-01, which is local time. [default: when it is revoked]",
)
@option.store
@as_command
async def create_command(
    call: CommandCall, name: str, access: Any, tenant: str | None, user: str | None, expires: str | None
) -> int:
    """Make a key called NAME and print it, this once.

    Only a hash of it is kept, so it cannot be shown again; with --quiet the key is all that is printed. Send it as
    "Authorization: Bearer KEY" or set OCTAVO_API_KEY for the Python client.

    \b
    Example: octavo keys create laptop --access write --tenant acme --expires 90d
    """
    tenant = call.settings.service.tenant if tenant is None else tenant
    ends = parse_time("--expires", expires, ages="from now")
    async with _open_keys(call, make=True) as held:
        created = await held.create(name, access=access, tenant=tenant, user=user, expires=ends)
    if call.quiet and not call.json:
        echo(created.key)
    call.say(created.key)
    where = mask_url(call.settings.database.dsn)
    call.note(f"key {created.info.id} for {name!r}, kept in {where}; keep it safe, it is not shown again")
    return call.document(key=created.key, **msgspec.to_builtins(created.info))


@keys.command("list")
@option.text("--tenant", "NAME", "Only this tenant's. [default: every tenant]")
@option.store
@as_command
async def list_command(call: CommandCall, tenant: str | None) -> int:
    """List every key there is or was, oldest first; what it opens with is not known.

    \b
    Example: octavo keys list --store sqlite:///octavo.db
    """
    async with _open_keys(call) as held:
        infos = await held.list(tenant)
    for info in infos:
        call.say(_row(info))
    if not infos:
        call.say("no keys")
    return call.document(keys=infos)


@keys.command("revoke")
@click.argument("key_id", metavar="ID")
@option.store
@as_command
async def revoke_command(call: CommandCall, key_id: str) -> int:
    """Make the key ID useless for ever. Servers that run learn of it within 5 seconds.

    \b
    Example: octavo keys revoke 3f9c2b1e0a7d4c55 --store sqlite:///octavo.db
    """
    async with _open_keys(call) as held:
        info = await held.revoke(key_id)
    call.say(f"revoked {info.id} ({info.name})")
    return call.document(**msgspec.to_builtins(info))


@asynccontextmanager
async def _open_keys(call: CommandCall, *, make: bool = False) -> AsyncIterator[Keys]:
    """The keys of the store that is named; `make` may make the store: the first key may come before the first run."""
    url = call.settings.database.dsn
    if local_path(url) == "":
        raise ConfigError(f"{url} forgets its keys with this command; name a store that lasts")
    if not make:
        check_exists(url)
    async with open_store(url) as store:
        try:
            yield Keys(store)
        except InvalidRecord as error:  # what was asked is wrong
            raise ConfigError(str(error)) from error


def _row(info: KeyInfo) -> str:
    state = ""
    if info.revoked_at is not None:
        state = f"  revoked {time_text(info.revoked_at)}"
    elif info.expires_at is not None:
        state = f"  {'expired' if info.expires_at <= now() else 'expires'} {time_text(info.expires_at)}"
    tenant = f"  tenant {info.tenant}" if info.tenant else ""
    user = f"  user {info.user}" if info.user else ""
    return f"{info.id}  {info.access:5}  {time_text(info.created_at)}  {info.name}{tenant}{user}{state}"


# --- MCP


@root.command("mcp")
@option.text("--user", "NAME", "Whose memory it is. [default: mcp.user, or default_user]", setting="mcp.user")
@option.choice(
    "--toolset",
    get_args(Toolset),
    "Which tools: of a memory, of the official memory server, or with mem0's names. [default: memory]",
    setting="mcp.toolset",
)
@option.choice("--install client", CLIENTS, "Write the lines that let this program start it, and end.")
@option.flag("--yes -y", "With --install, do not ask.")
@option.where
@as_command
async def mcp_command(call: CommandCall, client: str | None, yes: bool) -> int:
    """Serve memory over MCP on stdin and stdout.

    Claude Desktop, Claude Code, Cursor, VS Code and Codex start it by themselves: --install writes the lines for one of them, after it has shown the change, and keeps a
    copy of the file. The tools are remember, search_memory, get_context, list_memories, update_memory, delete_memory and memory_history.

    \b
    Example: octavo mcp --install claude-desktop --store sqlite:////home/lin/octavo.db --user lin
    """
    settings = call.settings
    if client is not None:
        return _install(call, client, yes=yes)
    if yes:
        raise ConfigError("--yes goes with --install")
    if call.json:
        raise ConfigError("--json goes with --install: stdout is for the protocol")
    _check_packages("mcp", call)
    from octavo.mcp.server import new_server

    async with open_memory(call, make=True) as memory:
        caller = ToolCaller(
            memory=memory,
            user_id=settings.mcp.user,
            answer_tokens=settings.mcp.max_tokens,
            content_bytes=settings.server.max_content_bytes,
        )
        server = new_server(lambda _: caller, settings.mcp.toolset)
        await server.run_stdio_async()
    return 0


def _install(call: CommandCall, client: str, *, yes: bool) -> int:
    """Show the change, ask, keep a copy, and write it."""
    change = plan(client, ServerEntry.of(call.settings, call.config or None))
    if not change.changes:
        call.say(f"{change.path} has these lines already")
        return call.document(path=str(change.path), changed=False, copy=None)
    call.say(f"{change.path}:")
    call.say_lines(change.shown)
    if not yes and not call.confirm("Write this?", abort=False):
        call.say("nothing was written")
        return call.document(ok=False, path=str(change.path), changed=False, copy=None)
    copy = change.write()
    kept = "" if copy is None else f"; what it was is in {copy}"
    call.say(f"written{kept}. Start {CLIENTS[client].title} again to use it")
    return call.document(path=str(change.path), changed=True, copy=None if copy is None else str(copy))
