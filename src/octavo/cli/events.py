"""`octavo events`: look at what agents lived through, search it, count it, prune it and move it."""

import asyncio
import pkgutil
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, check_exists, echo, parse_span, pluralize
from octavo.cli.commands import root
from octavo.cli.tables import cut, pad, width
from octavo.cli.transfer import moved_text
from octavo.errors import ConfigError, StoreUnavailable
from octavo.events import AgentEvent, BaseMemoryStore, EventStore, EventType, as_store, migrate, to_event
from octavo.events.records import COLLECTION
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.text import escape_controls, escape_json_controls, spell
from octavo.util.ages import parse_age, subtract_age
from octavo.util.secrets import mask_url

_WIDEST = 24  # characters of a column
#: An event may arrive so much later than its time says, and `tail -f` still shows it.
_LATE = timedelta(minutes=1)

_which = option.combine(
    option.configured,
    option.text(
        "--store where",
        "URL|MODULE:NAME",
        f"Where the events are. {option.STORE_DEFAULT}",
        setting="database.dsn",
    ),
    option.text("--agent", "NAME", "Only this agent's events."),
    option.text("--session", "ID", "Only this session's events."),
)
_when = option.combine(
    option.text(
        "--type event_type",
        "TYPE",
        "Only events of this type, such as user_message.",
        type=click.Choice([*EventType], case_sensitive=False),
    ),
    option.text("--since", "WHEN", f"Only events from then on: {option.AGO}."),
    option.text("--until", "WHEN", "Only events before then."),
)


@root.group("events")
def events() -> None:
    """Look at the events of agents, search, count, prune and move them.

    Where they are is named by --store, or else by OCTAVO_URL or the settings; without any of them it is octavo.db here, as
    for every command. It is the URL of any store, such as sqlite:///agent_memory.db, which SQLiteMemoryStore() makes, or
    module:name for a memory store of your own, which is a subclass of BaseMemoryStore or a function without arguments that
    makes one. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo events tail -f --agent assistant
    """


@events.command("list")
@_which
@_when
@option.limit(100)
@as_command
async def list_command(call: CommandCall, limit: int, **asked: Any) -> int:
    """Show the newest events, the newest last. With --json, one line of JSON for each.

    \b
    Example: octavo events list --type tool_call_error --since 24h
    """
    kind = None if asked["event_type"] is None else EventType(asked["event_type"])
    since, until = _times(asked)
    named = _drop_none(**_owner(asked), event_type=kind, start_time=since, end_time=until)
    async with _open_named(call.existing_store()) as store:
        _Rows(call).show_found(await store.retrieve(**named, limit=limit))
    return 0


@events.command("tail")
@_which
@_when
@option.limit(10)
@option.flag("--follow -f", "Go on and show events as they come, until interrupted.")
@option.text("--every", "AGE", "How often to look for more.", default="1s")
@as_command
async def tail_command(call: CommandCall, limit: int, follow: bool, every: str, **asked: Any) -> int:
    """Show the last events, and with -f those that come. With --json, one line of JSON for each.

    \b
    Example: octavo events tail -f --agent assistant
    """
    pause = parse_age(every).total_seconds()
    async with _open_named(call.existing_store()) as store:
        rows, query = _Rows(call), _query(store, asked)
        find = as_store(store).find
        newest = await find(msgspec.structs.replace(query, limit=1))
        begun = newest[-1].created_at if newest else now()
        # Seen is looked up before the page is: what comes in between is shown by one or by the other.
        seen = await _find_since(find, query, begun - _LATE) if follow else {}
        page = await find(msgspec.structs.replace(query, limit=limit))
        rows.show([to_event(record) for record in page])
        seen.update((record.key, record) for record in page)
        down = False
        while follow:
            await asyncio.sleep(pause)
            try:
                fresh = await _find_since(find, query, begun - _LATE)
                down = False
            except StoreUnavailable as error:
                if not down:
                    call.note(f"{call.mask(str(error))}; waiting for it")
                down = True
                continue
            rows.show([to_event(record) for key, record in fresh.items() if key not in seen])
            begun = max([begun, *(record.created_at for record in fresh.values())])
            seen = {**seen, **fresh}
            seen = {key: record for key, record in seen.items() if record.created_at >= begun - _LATE}
    return 0


@events.command("search")
@click.argument("query")
@_which
@option.limit(10, least=1)
@option.flag("--words", "Only as whole words: quick, however many events there are.")
@option.flag("--everyone", "The events of everyone, in place of --agent or --session.")
@as_command
async def search_command(
    call: CommandCall, query: str, limit: int, words: bool, everyone: bool, **asked: Any
) -> int:
    """Show events that hold QUERY anywhere in their data, the newest first. With --json, one line of JSON for each.

    Case and width of letters do not matter; % and _ are characters like others. Exit status 1 says that nothing was found.

    \b
    Example: octavo events search 计算器 --agent assistant
    """
    named = _owner(asked)
    async with _open_named(call.existing_store()) as store:
        if bool(named) is everyone:
            both = ", not both" if named else ""
            raise ConfigError(f"whose events? name --agent or --session, or everyone by --everyone{both}")
        if everyone and isinstance(store, EventStore):  # a store of your own takes the documented names only
            named["everyone"] = True
        if words:
            if not isinstance(store, EventStore):
                raise ConfigError(
                    f"--words needs a built-in store; {type(store).__name__} has a search of its own"
                )
            named["whole_words"] = True
        found = await store.search(query, limit=limit, **named)
        _Rows(call).show_found(found or [])
    return 0 if found else 1


@events.command("stats")
@_which
@as_command
async def stats_command(call: CommandCall, **asked: Any) -> int:
    """Count events, in all and by type, and say when the first and the last were.

    \b
    Example: octavo events stats --agent assistant
    """
    url = call.existing_store()
    async with _open_named(url) as store:
        stats = await store.get_stats(**_owner(asked)) or {}
    call.say(pluralize(stats.get("total_events", 0), "event"))
    for kind, count in sorted(dict(stats.get("by_type") or {}).items(), key=lambda pair: -pair[1]):
        call.say(f"  {kind!s:20}{count:>12,}")
    for name, words in (("first_event", "first"), ("last_event", "last"), ("total_size_bytes", "bytes")):
        if stats.get(name) is not None:
            call.say(f"  {words:20}{stats[name]}")
    return call.document(store=mask_url(url), **stats)


@events.command("prune")
@_which
@option.text("--older-than", "AGE", "Remove events older than this: 7d, 12h, 30m, 90s.", required=True)
@option.flag("--dry-run", "Only say how many there are.")
@as_command
async def prune_command(call: CommandCall, older_than: str, dry_run: bool, **asked: Any) -> int:
    """Remove events that are older than an age.

    \b
    Example: octavo events prune --older-than 7d
    """
    url = call.existing_store()
    cutoff = subtract_age(parse_age(older_than), now())
    async with _open_named(url) as store:
        if dry_run:
            query = msgspec.structs.replace(_query(store, asked), until=cutoff)
            number = (await as_store(store).tally(query)).total
        else:
            number = await store.clear(**_owner(asked), end_time=cutoff) or 0
    done = "would remove" if dry_run else "removed"
    call.say(f"{done} {pluralize(number, 'event')} from before {cutoff.astimezone():%Y-%m-%d %H:%M:%S}")
    removed = 0 if dry_run else number
    return call.document(store=mask_url(url), removed=removed, matching=number, cutoff=cutoff)


@events.command("migrate")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@option.number("--batch", "Events per read and write.", 1, default=500)
@option.resumable
@as_command
async def migrate_command(
    call: CommandCall, source: str, target: str, batch: int, state: Path | None, restart: bool
) -> int:
    """Add every event of SOURCE to TARGET, in order, with ids and times.

    Both are URLs or module:name. What TARGET already has is left alone; an interrupted run goes on where it stopped when
    the same command is run again.

    \b
    Example: octavo events migrate file://./agent_memory sqlite:///octavo.db
    """
    check_exists(source)
    resume = call.state_file(state, restart, "migration", mask_url(source), mask_url(target))
    async with _open_named(source) as old, _open_named(target) as new:
        with call.progress("moved", "event") as progress:
            moved = await migrate(old, new, batch=batch, resume=resume, progress=progress)
    call.say(moved_text("moved", moved, "event"))
    numbers = msgspec.to_builtins(moved)
    return call.document(source=mask_url(source), target=mask_url(target), **numbers, seconds=call.seconds)


class _Rows:
    """Shows events as they come: a row each for people, a line of JSON each for programs."""

    def __init__(self, call: CommandCall) -> None:
        self._call = call
        self._widths = [0, 0, 0]  # of the columns: as wide as what was seen so far

    def show_found(self, events: Sequence[AgentEvent]) -> None:
        """Print what was found, or that nothing was."""
        self.show(events)
        if not events:
            self._call.say("no such event", err=True)

    def show(self, events: Sequence[AgentEvent]) -> None:
        """Print these events."""
        if self._call.json:
            for event in events:
                echo(escape_json_controls(event.to_json()))
            return
        rows = [
            [escape_controls(each) for each in (str(event.event_type), event.agent_name, event.session_id)]
            for event in events
        ]
        for column in range(3):
            widest = max((width(row[column]) for row in rows), default=0)
            self._widths[column] = max(self._widths[column], min(_WIDEST, widest))
        for event, row in zip(events, rows, strict=True):
            at = f"{event.timestamp.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3]
            cells = [at, *(pad(text, columns) for text, columns in zip(row, self._widths, strict=True))]
            line = escape_controls("  ".join([*cells, spell(event.data)]))
            room = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else width(line)
            self._call.say(cut(line, room))


def _open_named(named: str) -> BaseMemoryStore:
    """A store by URL, or by `module:name` of a subclass of BaseMemoryStore or of a function that makes one."""
    if "://" in named or ":" not in named:
        return EventStore(named)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: the class is most likely in a file of this folder
    try:
        made = pkgutil.resolve_name(named)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{named} cannot be loaded: {error}") from error
    if not isinstance(made, BaseMemoryStore) and callable(made):
        made = made()
    if not isinstance(made, BaseMemoryStore):
        raise ConfigError(f"{named} is a {type(made).__name__}, not a BaseMemoryStore")
    return made


async def _find_since(
    find: Callable[[Query], Awaitable[list[Record]]], query: Query, since: datetime
) -> dict[tuple[str, str], Record]:
    since = max(since, query.since) if query.since is not None else since
    return {record.key: record for record in await find(msgspec.structs.replace(query, since=since))}


def _query(store: BaseMemoryStore, asked: dict[str, Any]) -> Query:
    """The question to the store below that is asked for."""
    kind = asked.get("event_type")
    since, until = _times(asked)
    return Query(
        collection=COLLECTION,
        scope=Scope(tenant=store.tenant, agent=asked["agent"], session=asked["session"]),
        kinds=None if kind is None else (EventType(kind).value,),
        since=since,
        until=until,
    )


def _times(asked: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    return parse_span(asked.get("since"), asked.get("until"))


def _owner(asked: dict[str, Any]) -> dict[str, Any]:
    return _drop_none(agent_name=asked["agent"], session_id=asked["session"])


def _drop_none(**named: Any) -> dict[str, Any]:
    """Only what was given: a memory store somebody wrote may not take the rest."""
    return {name: value for name, value in named.items() if value is not None}
