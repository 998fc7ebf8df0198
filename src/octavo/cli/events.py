"""`octavo events`: look at what agents lived through, search it, count it, prune it and move it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from octavo.cli import running
from octavo.cli.event_rows import Rows
from octavo.cli.event_sources import open_named
from octavo.cli.options import voice
from octavo.cli.settings import STORE_DEFAULT, configured, store_url
from octavo.cli.state import state_file
from octavo.cli.teller import Styled, Teller, several
from octavo.cli.times import moment
from octavo.errors import ConfigError, StoreUnavailable
from octavo.events import BaseMemoryStore, EventStore, EventType, Migrated, as_store, migrate, to_event
from octavo.events.records import COLLECTION
from octavo.events.retention import age, before
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.util.secrets import shown

F = TypeVar("F", bound=Callable[..., Any])
_LATE = timedelta(
    minutes=1
)  # an event may arrive so much later than its time says, and `tail -f` still shows it


@click.group("events")
def events() -> None:
    """Look at the events of agents, search, count, prune and move them.

    Where they are is named by --store, or else by OCTAVO_URL or the settings: the URL of any store, or module:name for a
    memory store of your own, which is a subclass of BaseMemoryStore or a function without arguments that makes one. Every
    command takes --json, --quiet and --debug.

    \b
    Example: octavo events tail -f --store sqlite:///agent_memory.db
    """


def which(command: F) -> F:
    """The store, and which of its events are meant."""
    for option in (
        click.option("--session", metavar="ID", help="Only this session's events."),
        click.option("--agent", metavar="NAME", help="Only this agent's events."),
        _STORE,
    ):
        command = option(command)
    return configured(command)


_STORE = click.option(
    "--store", "where", metavar="URL|MODULE:NAME", help=f"Where the events are. {STORE_DEFAULT}"
)


def when(command: F) -> F:
    """Of which type and time the events are."""
    for option in (
        click.option("--until", metavar="WHEN", help="Only events before then."),
        click.option("--since", metavar="WHEN", help="Only events from then on: 2026-03-01T12:00, or 2h for two hours ago."),
        click.option("--type", "event_type", metavar="TYPE", type=click.Choice([*EventType], case_sensitive=False), help="Only events of this type, such as user_message."),
    ):  # fmt: skip
        command = option(command)
    return command


def count(default: int) -> Callable[[F], F]:
    return click.option(
        "--limit", "-n", type=click.IntRange(min=0), default=default, show_default=True, metavar="N", help="No more than these."
    )  # fmt: skip


@events.command("list")
@which
@when
@count(100)
@voice
def list_command(limit: int, as_json: bool, quiet: bool, debug: bool, **asked: Any) -> None:
    """Show the newest events, the newest last. With --json, one line of JSON for each.

    \b
    Example: octavo events list --store sqlite:///agent_memory.db --type tool_call_error --since 24h
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def look(store: BaseMemoryStore) -> None:
        Rows(teller).show(await store.retrieve(**_filters(asked), limit=limit))

    _with_store(teller, asked, look)


@events.command("tail")
@which
@when
@count(10)
@click.option("--follow", "-f", is_flag=True, help="Go on and show events as they come, until interrupted.")
@click.option("--every", metavar="AGE", default="1s", show_default=True, help="How often to look for more.")
@voice
def tail_command(
    limit: int, follow: bool, every: str, as_json: bool, quiet: bool, debug: bool, **asked: Any
) -> None:
    """Show the last events, and with -f those that come. With --json, one line of JSON for each.

    \b
    Example: octavo events tail -f --store sqlite:///agent_memory.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def look(store: BaseMemoryStore) -> None:
        pause = age(every).total_seconds()
        rows, query = Rows(teller), _query(store, asked)
        find = as_store(store).find
        newest = await find(msgspec.structs.replace(query, limit=1))
        begun = newest[-1].created_at if newest else now()
        # Seen is looked up before the page is: what comes in between is shown by one or by the other.
        seen = await _since(find, query, begun - _LATE) if follow else {}
        page = await find(msgspec.structs.replace(query, limit=limit))
        rows.show([to_event(record) for record in page])
        seen.update((record.key, record) for record in page)
        down = False
        while follow:
            await asyncio.sleep(pause)
            try:
                fresh = await _since(find, query, begun - _LATE)
                down = False
            except StoreUnavailable as error:
                if not down:
                    teller.note(f"octavo: {teller.hidden(str(error))}; waiting for it")
                down = True
                continue
            rows.show([to_event(record) for key, record in fresh.items() if key not in seen])
            begun = max([begun, *(record.created_at for record in fresh.values())])
            seen = {**seen, **fresh}
            seen = {key: record for key, record in seen.items() if record.created_at >= begun - _LATE}

    _with_store(teller, asked, look)


@events.command("search")
@click.argument("query")
@which
@count(10)
@click.option("--words", is_flag=True, help="Only as whole words: quick, however many events there are.")
@click.option("--everyone", is_flag=True, help="The events of everyone, in place of --agent or --session.")
@voice
def search_command(
    query: str,
    limit: int,
    words: bool,
    everyone: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **asked: Any,
) -> None:
    """Show events that hold QUERY anywhere in their data, the newest first. With --json, one line of JSON for each.

    Case and width of letters do not matter; % and _ are characters like others. Exit status 1 says that nothing was found.

    \b
    Example: octavo events search 计算器 --agent assistant --store sqlite:///agent_memory.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def look(store: BaseMemoryStore) -> int:
        named = _given(agent_name=asked["agent"], session_id=asked["session"])
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
        Rows(teller).show(found or [])
        return 0 if found else 1

    _with_store(teller, asked, look)


@events.command("stats")
@which
@voice
def stats_command(as_json: bool, quiet: bool, debug: bool, **asked: Any) -> None:
    """Count events, in all and by type, and say when the first and the last were.

    \b
    Example: octavo events stats --store sqlite:///agent_memory.db --agent assistant
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def look(store: BaseMemoryStore) -> None:
        stats = await store.get_stats(**_given(agent_name=asked["agent"], session_id=asked["session"])) or {}
        teller.document(ok=True, command="events stats", store=shown(asked["named"]), **stats)
        teller.say(Styled(several(stats.get("total_events", 0), "event"), bold=True))
        for kind, number in sorted(dict(stats.get("by_type") or {}).items(), key=lambda pair: -pair[1]):
            teller.say(f"  {kind!s:20}{number:>12,}")
        for name, words in (("first_event", "first"), ("last_event", "last"), ("total_size_bytes", "bytes")):
            if stats.get(name) is not None:
                teller.say(f"  {words:20}{stats[name]}")

    _with_store(teller, asked, look)


@events.command("prune")
@which
@click.option(
    "--older-than", required=True, metavar="AGE", help="Remove events older than this: 7d, 12h, 30m, 90s."
)
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@voice
def prune_command(
    older_than: str, dry_run: bool, as_json: bool, quiet: bool, debug: bool, **asked: Any
) -> None:
    """Remove events that are older than an age.

    \b
    Example: octavo events prune --older-than 7d --store sqlite:///agent_memory.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def work(store: BaseMemoryStore) -> None:
        cutoff = before(age(older_than), now())
        if dry_run:
            query = msgspec.structs.replace(_query(store, asked), until=cutoff)
            number = (await as_store(store).tally(query)).total
        else:
            named = _given(agent_name=asked["agent"], session_id=asked["session"])
            number = await store.clear(**named, end_time=cutoff) or 0
        done = "would remove" if dry_run else "removed"
        teller.say(f"{done} {several(number, 'event')} from before {cutoff.astimezone():%Y-%m-%d %H:%M:%S}")
        teller.document(
            ok=True, command="events prune", store=shown(asked["named"]), removed=0 if dry_run else number,
            matching=number, cutoff=cutoff,
        )  # fmt: skip

    _with_store(teller, asked, work)


@events.command("migrate")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--batch", type=click.IntRange(min=1), default=500, show_default=True, metavar="N", help="Events per read and write.")  # fmt: skip
@click.option("--state", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where to keep how far it has come. [default: a file of this command's own]")  # fmt: skip
@click.option("--restart", is_flag=True, help="Forget an interrupted run and begin again.")
@voice
def migrate_command(
    source: str, target: str, batch: int, state: Path | None, restart: bool, as_json: bool, quiet: bool, debug: bool
) -> None:  # fmt: skip
    """Add every event of SOURCE to TARGET, in order, with ids and times.

    Both are URLs or module:name. What TARGET already has is left alone; an interrupted run goes on where it stopped when
    the same command is run again.

    \b
    Example: octavo events migrate file://./agent_memory sqlite:///agent_memory.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def move(trail: Path | None) -> Migrated:
        async with _opened(source) as old, _opened(target) as new:
            with teller.progress("moved", "event") as progress:
                return await migrate(old, new, batch=batch, resume=trail, progress=progress)

    def work() -> int:
        running.existing(source)
        trail = state or state_file("migrate", shown(source), shown(target))
        if trail is not None:
            if restart:
                trail.unlink(missing_ok=True)
            if trail.exists():
                teller.note("continuing an interrupted migration; --restart begins again")
        teller.resumable = trail is not None
        begun = time.monotonic()
        moved = asyncio.run(move(trail))
        aside = [f"{moved.read - moved.added:,} already there"] if moved.read > moved.added else []
        aside += [f"{moved.resumed:,} more by an earlier run"] if moved.resumed else []
        inside = f" ({', '.join(aside)})" if aside else ""
        teller.say(f"moved {several(moved.read, 'event')}{inside}")
        teller.document(
            ok=True, command="events migrate", source=shown(source), target=shown(target),
            **msgspec.to_builtins(moved), seconds=round(time.monotonic() - begun, 3),
        )  # fmt: skip
        return 0

    running.run(teller, [source, target], work)


def _with_store(
    teller: Teller, asked: dict[str, Any], look: Callable[[BaseMemoryStore], Awaitable[int | None]]
) -> None:
    async def looked(named: str) -> int:
        async with _opened(named) as store:
            return await look(store) or 0

    def work() -> int:
        named = asked["named"] = store_url(teller, asked["where"], asked["config"], asked["verbose"])
        running.existing(named)
        try:
            return asyncio.run(looked(named))
        except KeyboardInterrupt:  # the way to end `tail -f`: there is nothing to say about it
            return 130

    running.run(teller, [asked["where"] or ""], work)


@asynccontextmanager
async def _opened(named: str) -> AsyncIterator[BaseMemoryStore]:
    async with open_named(named) as store:
        yield store


async def _since(
    find: Callable[[Query], Awaitable[list[Record]]], query: Query, since: datetime
) -> dict[tuple[str, str], Record]:
    since = max(since, query.since) if query.since is not None else since
    return {record.key: record for record in await find(msgspec.structs.replace(query, since=since))}


def _query(store: BaseMemoryStore, asked: dict[str, Any]) -> Query:
    kind = asked.get("event_type")
    return Query(
        collection=COLLECTION,
        scope=Scope(tenant=store.tenant, agent=asked["agent"], session=asked["session"]),
        kinds=None if kind is None else (EventType(kind).value,),
        since=moment("--since", asked.get("since"), ago=True),
        until=moment("--until", asked.get("until"), ago=True),
    )


def _filters(asked: dict[str, Any]) -> dict[str, Any]:
    return _given(
        agent_name=asked["agent"], session_id=asked["session"],
        event_type=None if asked["event_type"] is None else EventType(asked["event_type"]),
        start_time=moment("--since", asked["since"], ago=True), end_time=moment("--until", asked["until"], ago=True),
    )  # fmt: skip


def _given(**named: Any) -> dict[str, Any]:
    """Only what was given: a memory store somebody wrote may not take the rest."""
    return {name: value for name, value in named.items() if value is not None}
