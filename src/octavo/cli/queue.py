"""`octavo queue`: what waits for a store, what was given up, and what a person can do about it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from octavo.cli import running
from octavo.cli.options import voice
from octavo.cli.settings import CONFIG, STORE_DEFAULT, configured, resolved
from octavo.cli.teller import Styled, Teller, indented, several
from octavo.cli.times import told
from octavo.errors import ConfigError, NotFound
from octavo.kernel.model import Add, Op
from octavo.transfer import Progress
from octavo.wraps.journal import DeadLetter, Spool, Waiting, inspect, peek

if TYPE_CHECKING:
    from octavo.wraps.journal import Journal

F = TypeVar("F", bound=Callable[..., Any])
_WIDEST = 200  # characters of an error that a line shows


@click.group("queue")
def queue() -> None:
    """Look after writes that could not be stored.

    They wait in a folder until their store takes them; those that it never takes become dead letters there. The folder is
    named by --dir, or else by failure_queue.directory of the environment or the settings. Every command takes --json,
    --quiet and --debug.

    \b
    Example: octavo queue status --dir octavo_queue
    """  # fmt: skip


def where(command: F) -> F:
    """The folder that is meant."""
    folder = click.option(
        "--dir",
        "folder",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="The folder of the queue. [default: failure_queue.directory]",
    )
    return configured(folder(command))


def which(command: F) -> F:
    """The dead letters that are meant."""
    for option in (
        click.option("--all", "everything", is_flag=True, help="All of them."),
        click.argument("ids", nargs=-1, metavar="[ID]..."),
    ):
        command = option(command)
    return command


@queue.command("status")
@click.option("--strict", is_flag=True, help="Fail (status 1) when there are dead letters or damaged lines.")
@where
@voice
def status_command(strict: bool, as_json: bool, quiet: bool, debug: bool, **named: Any) -> None:
    """Say how much waits, how much was given up and what was damaged.

    Nothing is changed, and services may be running.

    \b
    Example: octavo queue status --dir octavo_queue --strict
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        status = inspect(_Place(teller, **named).folder)
        teller.say(Styled(status.directory, bold=True))
        since = f", the oldest since {told(status.oldest_at)}" if status.oldest_at else ""
        teller.say(f"  {'waiting':14}{several(status.waiting, 'write')}{since}")
        teller.say(f"  {'dead letters':14}{status.dead:,}")
        teller.say(f"  {'bad lines':14}{status.bad_lines:,}")
        teller.say(f"  {'files':14}{status.files:,}, {status.bytes:,} bytes")
        for slot in status.slots:
            held = "in use" if slot.alive else "for the next service to take over"
            teller.say(f"  {f'slot {slot.number}':14}{several(slot.waiting, 'write')}, {held}")
        bad = strict and bool(status.dead or status.bad_lines)
        teller.document(ok=not bad, command="queue status", **msgspec.to_builtins(status))
        return 1 if bad else 0

    running.run(teller, [], work)


@queue.command("list")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--waiting", is_flag=True, help="What waits, instead of what was given up.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="At most N, oldest first.",
)
@where
@voice
def list_command(
    id_: str | None, waiting: bool, limit: int, as_json: bool, quiet: bool, debug: bool, **named: Any
) -> None:
    """List dead letters with the errors that killed them, or show one whole.

    Nothing is changed, and services may be running.

    \b
    Example: octavo queue list --dir octavo_queue
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        folder = _Place(teller, **named).folder
        if id_ is not None:
            entry = _one(folder, id_)
            teller.say_lines(indented(entry))
            teller.document(ok=True, command="queue list", entry=msgspec.to_builtins(entry))
            return 0
        entries: Iterable[Waiting | DeadLetter] = peek(folder) if waiting else Spool(folder).dead
        listed = list(islice(entries, limit + 1))
        more, listed = len(listed) > limit, listed[:limit]
        for each in listed:
            teller.say(teller.hidden(_line(each)))
        if not listed:
            teller.say("nothing waits" if waiting else "no dead letters")
        if more:
            teller.note(f"octavo: there are more than {limit:,}; --limit shows them")
        kind = "waiting" if waiting else "dead"
        teller.document(ok=True, command="queue list", more=more, **{kind: msgspec.to_builtins(listed)})
        return 0

    running.run(teller, [], work)


@queue.command("replay")
@which
@click.option(
    "--store",
    "url",
    metavar="URL",
    help=f"The store to bring everything to that waits. {STORE_DEFAULT}",
)
@where
@voice
def replay_command(
    ids: tuple[str, ...],
    everything: bool,
    url: str | None,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **named: Any,
) -> None:
    """Put dead letters back into the queue, and bring what waits to its store.

    Without a store the letters only go back into the queue, where the next service that looks takes them over. With a store
    that is named by --store, by the environment or by the settings that name the queue too, everything that no running
    service holds is brought to it right now; without IDs and without --all that is all that is done.

    \b
    Example: octavo queue replay --all --dir octavo_queue --store sqlite:///octavo.db
    """  # fmt: skip
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        place = _Place(teller, url=url, **named)
        applies = place.delivers
        if ids or everything or not applies:
            _chosen(ids, everything)
        revived = 0
        missing: list[str] = []
        if ids or everything:
            with Spool(place.folder) as spool:
                missing = _missing(spool, ids)
                revived = spool.revive(None if everything else ids)
            teller.say(f"put {several(revived, 'dead letter')} back into the queue")
        stored, left, error = 0, 0, ""
        if applies:
            with teller.progress("stored", "write") as progress:
                stored, left, error = asyncio.run(_deliver(place, progress))
            teller.say(f"stored {several(stored, 'write')}")
        for each in missing:
            teller.note(f"octavo: there is no dead letter {each}")
        if left:
            teller.note(f"octavo: {several(left, 'write')} not stored: {teller.hidden(error)}")
        ok = not missing and not left
        teller.document(
            ok=ok, command="queue replay", revived=revived, stored=stored, left=left, missing=missing
        )
        return 0 if ok else 1

    running.run(teller, [url or ""], work)


@queue.command("discard")
@which
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@where
@voice
def discard_command(
    ids: tuple[str, ...],
    everything: bool,
    yes: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **named: Any,
) -> None:
    """Forget dead letters for ever.

    \b
    Example: octavo queue discard q_0655f5e8a1b2c3 --dir octavo_queue
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        spool = Spool(_Place(teller, **named).folder)
        _chosen(ids, everything)
        missing = _missing(spool, ids)
        count = spool.dead.count if everything else len(set(ids)) - len(missing)
        if count and not yes:
            if as_json:
                raise ConfigError("--json needs --yes: there is nobody to ask")
            click.confirm(f"Forget {several(count, 'dead letter')} for ever?", abort=True, err=True)
        gone = spool.dead.discard(None if everything else ids) if count else 0
        teller.say(f"forgot {several(gone, 'dead letter')}")
        for each in missing:
            teller.note(f"octavo: there is no dead letter {each}")
        teller.document(ok=not missing, command="queue discard", discarded=gone, missing=missing)
        return 1 if missing else 0

    running.run(teller, [], work)


class _Place:
    """The folder that was named, and the settings it belongs to."""

    def __init__(
        self, teller: Teller, *, folder: str | None, config: str | None, verbose: bool, url: str | None = None
    ) -> None:
        options = {"failure_queue.directory": ("--dir", folder), "database.dsn": ("--store", url)}
        found = resolved(teller, config, verbose, options)
        self.settings = found.settings
        self.folder = Path(self.settings.failure_queue.directory)
        if folder is not None and not self.folder.is_dir():
            raise ConfigError(f"there is no folder {folder}; check --dir")
        by_file = config is not None or CONFIG.exists()
        if not (by_file or "failure_queue.directory" in found.origins or self.folder.is_dir()):
            raise ConfigError(f"no queue was named; give --dir or --config, or make {CONFIG}")
        store = found.origins.get("database.dsn", "")
        self.store_named = bool(store) and not (by_file and store.startswith(str(config or CONFIG)))
        # A file that nobody named says where its own queue goes, and not where another folder's writes belong.
        self.delivers = self.store_named or config is not None or (by_file and folder is None)


async def _deliver(place: _Place, progress: Progress) -> tuple[int, int, str]:
    """Bring what waits to the store; how many got there, how many did not, and why."""
    journal = _journal(place)
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


def _journal(place: _Place) -> "Journal":
    from octavo.stores import open_store
    from octavo.wraps.journal import Journal

    if place.store_named:
        running.existing(place.settings.database.dsn)
        return Journal(open_store(place.settings.database.dsn), place.folder)
    from octavo.assemble import assemble

    journal = assemble(place.settings).journal
    if journal is None:
        raise ConfigError(
            "failure_queue.enabled is off in these settings; name the folder by --dir and the store by --store"
        )
    return journal


def _chosen(ids: Sequence[str], everything: bool) -> None:
    if bool(ids) == everything:
        raise ConfigError(
            "name the ids of dead letters, or --all for every one; octavo queue list shows them"
        )


def _missing(spool: Spool, ids: Sequence[str]) -> list[str]:
    there = {letter.id for letter in spool.dead} if ids else set()
    return [id_ for id_ in dict.fromkeys(ids) if id_ not in there]


def _one(folder: Path, id_: str) -> Waiting | DeadLetter:
    try:
        return Spool(folder).dead.get(id_)
    except NotFound:
        for entry in peek(folder):
            if entry.id == id_:
                return entry
        raise NotFound(f"nothing with the id {id_} waits in {folder} or was given up there") from None


def _line(entry: Waiting | DeadLetter) -> str:
    """One write in one line: which, when, what it does, what went wrong."""
    at = entry.died_at if isinstance(entry, DeadLetter) else entry.queued_at
    tried = f" after {several(entry.attempts, 'attempt')}" if entry.attempts else ""
    error = " ".join(entry.error.split())[:_WIDEST]
    wrong = f": {error}" if error else ""
    return f"{entry.id}  {told(at)}  {_does(entry.ops)}{tried}{wrong}"


def _does(ops: Sequence[Op]) -> str:
    said = []
    for op in ops:
        if isinstance(op, Add):
            collections = list(dict.fromkeys(record.collection for record in op.records))
            said.append(f"add {len(op.records):,} to {', '.join(collections) or 'nothing'}")
        else:
            said.append(f"{type(op).__name__.lower()} {op.query.collection}")
    return ", ".join(said) or "nothing"
