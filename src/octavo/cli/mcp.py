"""`octavo mcp`: memory for programs that speak MCP, over stdin and stdout."""

from typing import get_args

import click

from octavo.cli.command import Call, flag, override, runs, text
from octavo.cli.memory import open_memory, where_options
from octavo.errors import ConfigError
from octavo.mcp.callers import Caller, Limits, Toolset
from octavo.mcp.install import CLIENTS, Entry, plan
from octavo.util.extras import missing_packages, store_extra


@click.command("mcp")
@text("--user", "NAME", "Whose memory it is. [default: mcp.user, or default_user]", **override("mcp.user"))
@click.option(
    "--toolset",
    type=click.Choice(get_args(Toolset)),
    help="Which tools: of a memory, of the official memory server, or with mem0's names. [default: memory]",
    **override("mcp.toolset"),
)
@click.option(
    "--install",
    "client",
    type=click.Choice(tuple(CLIENTS)),
    help="Write the lines that let this program start it, and end.",
)
@flag("--yes -y", "With --install, do not ask.")
@where_options
@runs
async def mcp_command(call: Call, client: str | None, yes: bool) -> int:
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
    if needed := missing_packages("mcp", *store_extra(settings.database.dsn)):
        raise ConfigError(f"octavo mcp needs {needed}")
    from octavo.mcp.server import new_server

    limits = Limits(answer_tokens=settings.mcp.max_tokens, content_bytes=settings.server.max_content_bytes)
    async with open_memory(call, make=True) as memory:
        caller = Caller(memory=memory, user_id=settings.mcp.user)
        server = new_server(lambda _: caller, settings.mcp.toolset, limits)
        await server.run_stdio_async()
    return 0


def _install(call: Call, client: str, *, yes: bool) -> int:
    """Show the change, ask, keep a copy, and write it."""
    change = plan(client, Entry.of(call.settings, call.config or None))
    if not change.changes:
        call.say(f"{change.path} has these lines already")
        return call.document(path=str(change.path), changed=False, copy=None)
    call.say(f"{change.path}:")
    call.say_lines(change.shown)
    if not yes:
        call.check_can_ask()
        if not click.confirm("Write this?", err=True):
            call.say("nothing was written")
            return call.document(ok=False, path=str(change.path), changed=False, copy=None)
    copy = change.write()
    kept = "" if copy is None else f"; what it was is in {copy}"
    call.say(f"written{kept}. Start {CLIENTS[client].title} again to use it")
    return call.document(path=str(change.path), changed=True, copy=None if copy is None else str(copy))
