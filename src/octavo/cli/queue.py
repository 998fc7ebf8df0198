"""`octavo queue`: what waits for a store, what was given up, and what a person can do about it."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, check_exists, format_json, pluralize
from octavo.cli.commands import root
from octavo.cli.tables import time_text
from octavo.errors import ConfigError, NotFound
from octavo.transfer import Progress
from octavo.wraps.journal import DeadLetter, Spool, Waiting, holds_writes, inspect, named_store, peek

if TYPE_CHECKING:
    from octavo.wraps.journal import Journal

_WIDEST = 200  # characters of an error that a line shows

_folder_option = option.combine(
    option.configured,
    option.text(
        "--dir",
        "DIR",
        "The folder of the queue. [default: failure_queue.directory]",
        type=click.Path(file_okay=False),
        setting="failure_queue.directory",
    ),
)
_which = option.combine(
    click.argument("ids", nargs=-1, metavar="[ID]..."), option.flag("--all everything", "All of them.")
)


@root.group("queue")
def queue() -> None:
    """Look after writes that could not be stored.

    They wait in a folder until their store takes them; those that it never takes become dead letters there. The folder is
    named by --dir, or else by failure_queue.directory of the environment or the settings. Every command takes --json,
    --quiet and --debug.

    \b
    Example: octavo queue status --dir octavo_queue
    """


@queue.command("status")
@option.flag("--strict", "Fail (status 1) when there are dead letters or damaged lines.")
@_folder_option
@as_command
def status_command(call: CommandCall, strict: bool) -> int:
    """Say how much waits, how much was given up and what was damaged.

    Nothing is changed, and services may be running.

    \b
    Example: octavo queue status --dir octavo_queue --strict
    """
    folder = _folder(call)
    status = inspect(folder)
    call.say(status.directory)
    if status.store and (status.waiting or status.dead):  # an empty one is anybody's
        call.say(f"  {'store':14}{status.store}")
    since = f", the oldest since {time_text(status.oldest_at)}" if status.oldest_at else ""
    call.say(f"  {'waiting':14}{pluralize(status.waiting, 'write')}{since}")
    call.say(f"  {'dead letters':14}{status.dead:,}")
    call.say(f"  {'bad lines':14}{status.bad_lines:,}")
    call.say(f"  {'files':14}{status.files:,}, {pluralize(status.bytes, 'byte')}")
    for slot in status.slots:
        held = "in use" if slot.alive else "for the next service to take over"
        call.say(f"  {f'slot {slot.number}':14}{pluralize(slot.waiting, 'write')}, {held}")
    root = Path(call.settings.failure_queue.directory)
    for other in [root, *sorted(root.glob("*/"))]:
        if other != folder and (meant := named_store(other)) and holds_writes(other):
            call.note(f"writes for {meant} are in {other}; octavo queue status --dir {other} shows them")
    bad = strict and bool(status.dead or status.bad_lines)
    return call.document(ok=not bad, **msgspec.to_builtins(status))


@queue.command("list")
@click.argument("id_", metavar="[ID]", required=False)
@option.flag("--waiting", "What waits, instead of what was given up.")
@option.limit(100, "At most N, oldest first.")
@_folder_option
@as_command
def list_command(call: CommandCall, id_: str | None, waiting: bool, limit: int) -> int:
    """List dead letters with the errors that killed them, or show one whole.

    Nothing is changed, and services may be running.

    \b
    Example: octavo queue list --dir octavo_queue
    """
    folder = _folder(call)
    if id_ is not None:
        entry = _one(folder, id_)
        call.say_lines(format_json(entry))
        return call.document(entry=entry)
    entries: Iterable[Waiting | DeadLetter] = peek(folder) if waiting else Spool(folder).dead
    listed = list(islice(entries, limit + 1))
    more, listed = len(listed) > limit, listed[:limit]
    for each in listed:
        call.say(call.mask(_row(each)))
    if not listed:
        call.say("nothing waits" if waiting else "no dead letters")
    if more:
        call.note(f"there are more than {limit:,}; --limit shows them")
    told: dict[str, Any] = {"waiting" if waiting else "dead": listed}
    return call.document(more=more, **told)


@queue.command("replay")
@_which
@option.text(
    "--store url",
    "URL",
    "The store to bring everything to that waits. [default: OCTAVO_URL, or database.dsn of the settings]",
    setting="database.dsn",
)
@option.flag(
    "--redirect", "Bring them to this store although they were queued for another: the database has moved."
)
@_folder_option
@as_command
def replay_command(call: CommandCall, ids: tuple[str, ...], everything: bool, redirect: bool) -> int:
    """Put dead letters back into the queue, and bring what waits to its store.

    Without a store the letters only go back into the queue, where the next service that looks takes them over. With a store
    that is named by --store, by the environment or by the settings that name the queue too, everything that no running
    service holds is brought to it right now; without IDs and without --all that is all that is done.

    \b
    Example: octavo queue replay --all --dir octavo_queue --store sqlite:///octavo.db
    """
    folder = _folder(call)
    # A file that nobody named says where its own queue goes, and not where another folder's writes belong.
    own_queue = call.by_file and "failure_queue.directory" not in call.overrides
    delivers = _store_is_named(call) or call.config is not None or own_queue
    if ids or everything or not delivers:
        _check_chosen(ids, everything)
    if delivers and not redirect:
        _check_store(call, folder)
    revived = 0
    missing: list[str] = []
    if ids or everything:
        with Spool(folder) as spool:
            missing = _find_missing(spool, ids)
            revived = spool.revive(None if everything else ids)
        call.say(f"put {pluralize(revived, 'dead letter')} back into the queue")
    stored, left, error = 0, 0, ""
    if delivers:
        with call.progress("stored", "write") as progress:
            stored, left, error = asyncio.run(_deliver(call, folder, progress))
        call.say(f"stored {pluralize(stored, 'write')}")
    _note_missing(call, missing)
    if left:
        call.note(f"{pluralize(left, 'write')} not stored: {call.mask(error)}")
    ok = not missing and not left
    return call.document(ok=ok, revived=revived, stored=stored, left=left, missing=missing)


@queue.command("discard")
@_which
@option.yes
@_folder_option
@as_command
def discard_command(call: CommandCall, ids: tuple[str, ...], everything: bool, yes: bool) -> int:
    """Forget dead letters for ever.

    \b
    Example: octavo queue discard q_0655f5e8a1b2c3 --dir octavo_queue
    """
    spool = Spool(_folder(call))
    _check_chosen(ids, everything)
    missing = _find_missing(spool, ids)
    count = spool.dead.count if everything else len(set(ids)) - len(missing)
    if count and not yes:
        call.confirm(f"Forget {pluralize(count, 'dead letter')} for ever?")
    gone = spool.dead.discard(None if everything else ids) if count else 0
    call.say(f"forgot {pluralize(gone, 'dead letter')}")
    _note_missing(call, missing)
    return call.document(ok=not missing, discarded=gone, missing=missing)


def _check_store(call: CommandCall, folder: Path) -> None:
    """Refuse to bring to a store what was queued for another."""
    from octavo.assemble import name_store

    meant, store = named_store(folder), name_store(call.settings.database.dsn)
    if meant not in ("", store) and holds_writes(folder):
        raise ConfigError(
            f"what waits in {folder} was queued for {meant}, and not for {store}; with --redirect it is brought there all the same"
        )


def _folder(call: CommandCall) -> Path:
    """The folder that is named, or else that of the store that is named; ConfigError where none was named and none is there."""
    folder = Path(call.settings.failure_queue.directory)
    if "failure_queue.directory" in call.overrides and not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; check --dir")
    if not (call.by_file or "failure_queue.directory" in call.resolved.origins or folder.is_dir()):
        raise ConfigError(f"no queue was named; give --dir or --config, or make {option.CONFIG}")
    if "failure_queue.directory" in call.overrides or not (call.by_file or _store_is_named(call)):
        return folder
    from octavo.assemble import queue_folder

    return queue_folder(call.settings)


def _store_is_named(call: CommandCall) -> bool:
    """Whether an option or the environment names the store, and not the settings file."""
    named_by = call.resolved.origins.get("database.dsn", "")
    return bool(named_by) and not (call.by_file and named_by.startswith(str(call.config or option.CONFIG)))


async def _deliver(call: CommandCall, folder: Path, progress: Progress) -> tuple[int, int, str]:
    """Bring what waits to the store; how many got there, how many did not, and why."""
    journal = _journal(call, folder)
    watching = asyncio.create_task(_watch(journal, progress))
    try:
        stored = await journal.replay_now()
        # Each call is one attempt; as long as one gets somewhere, the next may get further.
        while journal.status().waiting and (more := await journal.replay_now()):
            stored += more
        status = journal.status()
        return stored, status.waiting + status.buried, status.last_error or "given up; see octavo queue list"
    finally:
        watching.cancel()
        await journal.close()


async def _watch(journal: "Journal", progress: Progress) -> None:
    """Tell how far it has come, now and then: an attempt brings thousands of writes before it returns."""
    while True:
        await asyncio.sleep(0.2)
        status = journal.status()
        progress(status.replayed, status.replayed + status.waiting)


def _journal(call: CommandCall, folder: Path) -> "Journal":
    from octavo.assemble import assemble
    from octavo.stores import open_store
    from octavo.wraps.journal import Journal

    if _store_is_named(call):
        return Journal(open_store(check_exists(call.settings.database.dsn)), folder)
    if not call.settings.failure_queue.enabled:
        raise ConfigError(
            "failure_queue.enabled is off in these settings; name the folder by --dir and the store by --store"
        )
    # Without the queue of these settings, which may be another folder than the one that is named.
    timeout = call.settings.service.timeout_seconds
    return Journal(assemble(call.unqueued_settings()).store, folder, timeout=timeout)


def _check_chosen(ids: Sequence[str], everything: bool) -> None:
    if bool(ids) == everything:
        raise ConfigError(
            "name the ids of dead letters, or --all for every one; octavo queue list shows them"
        )


def _find_missing(spool: Spool, ids: Sequence[str]) -> list[str]:
    there = {letter.id for letter in spool.dead} if ids else set()
    return [id_ for id_ in dict.fromkeys(ids) if id_ not in there]


def _note_missing(call: CommandCall, missing: Sequence[str]) -> None:
    for id_ in missing:
        call.note(f"there is no dead letter {id_}")


def _one(folder: Path, id_: str) -> Waiting | DeadLetter:
    try:
        return Spool(folder).dead.get(id_)
    except NotFound:
        for entry in peek(folder):
            if entry.id == id_:
                return entry
        raise NotFound(f"nothing with the id {id_} waits in {folder} or was given up there") from None


def _row(entry: Waiting | DeadLetter) -> str:
    """One write in one line: which, when, what it does, what went wrong."""
    at = entry.died_at if isinstance(entry, DeadLetter) else entry.queued_at
    tried = f" after {pluralize(entry.attempts, 'attempt')}" if entry.attempts else ""
    error = " ".join(entry.error.split())[:_WIDEST]
    wrong = f": {error}" if error else ""
    return f"{entry.id}  {time_text(at)}  {entry.does}{tried}{wrong}"
