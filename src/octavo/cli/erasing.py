"""`octavo forget`: erase for good what belongs to somebody, and say what was done."""

from contextlib import AsyncExitStack
from typing import Any

import click
import msgspec

from octavo.cli.command import Call, flag, runs, table, text
from octavo.cli.memory import open_memory, where_options
from octavo.cli.tables import quoted
from octavo.config import local_path
from octavo.erasing import Certificate, scrub
from octavo.errors import ConfigError
from octavo.memory import AsyncMemory
from octavo.service.vault import existing_vault

_PARTS = ("user", "session", "agent", "memory")


@click.command("forget")
@text("--user", "NAME", "All that is this user's.")
@text("--session", "NAME", "All that was said, done or learnt in this conversation.")
@text("--agent", "NAME", "All that names this agent.")
@text("--memory", "ID", "This memory, its history and the texts it was made from.")
@flag("--dry-run", "Only count what would go.")
@flag("--keep-rejected", "Keep the digests of what was rejected, so that it stays rejected.")
@click.option(
    "--scrub/--no-scrub",
    default=None,
    help="Whether to write the files anew and look through their bytes. [default: of a store on this disk; not of a server]",
)
@flag("--yes -y", "Do not ask.")
@where_options
@runs
async def forget_command(
    call: Call, dry_run: bool, keep_rejected: bool, scrub: bool | None, yes: bool, **named: str | None
) -> int:
    """Erase for good what belongs to somebody.

    Records, history, vectors, queued writes, dead letters, documents and their versions go; nothing brings them back. A certificate
    without names or texts is kept. With --scrub alone, erasures whose scrub is pending are finished.

    \b
    Example: octavo forget --user lin --dry-run
    """
    given: dict[str, Any] = {f"{part}_id": name for part in _PARTS if (name := named[part]) is not None}
    if not given and scrub and not dry_run:
        return await _scrub(call)
    if len(given) != 1:
        raise ConfigError(
            "whose data is to go? give one of --user, --session, --agent and --memory; or --scrub alone"
        )
    if not (yes or dry_run):
        call.check_can_ask()
    settings = call.settings
    scrubs = local_path(settings.database.dsn) is not None if scrub is None else scrub
    async with AsyncExitStack() as stack:
        memory, beside = await _opened(call, stack)
        whose: dict[str, Any] = {**given, "keep_rejected": keep_rejected}
        counted = await memory.forget(**whose, **beside, dry_run=True)
        _say_counts(call, counted)
        if dry_run:
            return call.document(certificate=msgspec.to_builtins(counted))
        if not yes:
            [name] = given.values()
            click.confirm(f"Erase all this of {quoted(name)} for good?", abort=True, err=True)
        certificate = await memory.forget(**whose, **beside)
        if scrubs:
            done = await _scrubbed(call, memory, beside)
            certificate = next(each for each in done if each.id == certificate.id)
    _say(call, certificate)
    return call.document(ok=certificate.scrub != "found", certificate=msgspec.to_builtins(certificate))


async def _scrub(call: Call) -> int:
    async with AsyncExitStack() as stack:
        memory, beside = await _opened(call, stack)
        done = await _scrubbed(call, memory, beside)
    for certificate in done:
        _say(call, certificate)
    if not done:
        call.say("no erasure waits for a scrub; the files were written anew")
    found = any(each.scrub == "found" for each in done)
    return call.document(ok=not found, certificates=msgspec.to_builtins(done))


async def _scrubbed(call: Call, memory: AsyncMemory, beside: dict[str, Any]) -> list[Certificate]:
    with call.progress("scrubbed", "step") as tell:
        return await scrub(
            memory.store,
            memory.layers.digest_key,
            **beside,
            progress=lambda _, done, total: tell(done, total),
        )


async def _opened(call: Call, stack: AsyncExitStack) -> tuple[AsyncMemory, dict[str, Any]]:
    """The memory, and what stands beside its store."""
    memory = await stack.enter_async_context(open_memory(call))
    settings = call.settings
    vault = None
    if (
        settings.vault.enabled and "service.tenant" not in call.overrides
    ):  # else the files may be another tenant's
        vault = existing_vault(settings.vault.root_path, memory.store, settings.service.tenant)
    return memory, {
        "vault": vault,
        "queue": settings.failure_queue.directory,
    }


def _say_counts(call: Call, counted: Certificate) -> None:
    if counted.removed:
        call.say_lines(
            table([("WHERE", "HOW MANY"), *((place, f"{n:,}") for place, n in counted.removed.items())])
        )
    else:
        call.say("nothing of that is kept")


def _say(call: Call, certificate: Certificate) -> None:
    looked = {
        "pending": "scrub: pending (octavo forget --scrub)",
        "done": f"scrub: done, {certificate.scanned.get('bytes', 0):,} bytes looked through, none of it found",
        "found": f"scrub: {certificate.found:,} pieces are still there",
    }[certificate.scrub]
    call.say(f"erased {certificate.total:,}; {looked}; certificate {certificate.id}")
    for each in certificate.unreached:
        call.note(f"out of reach: {each}")
