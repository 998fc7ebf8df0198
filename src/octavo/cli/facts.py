"""`octavo list`, `show`, `history`, `undo`, `delete`, `allow` and `prune`: look after what is remembered, one memory at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, parse_time, pluralize
from octavo.cli.commands import root
from octavo.cli.memory import layer_of, open_memory
from octavo.cli.tables import TEXT, WHEN, column_time, owner_text, quote, time_text, to_line
from octavo.errors import ConfigError, NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.text import content, spell
from octavo.layers import Fact, Layer, LogEntry
from octavo.layers.values import ACTIONS, LAYERS, Undone
from octavo.memory import DEFAULT_USER, SOURCES, AsyncMemory
from octavo.memory.retention import EXPIRED, RetentionSweep
from octavo.memory.searching import SOURCE_OF, Whose

_memory_argument = click.argument("id_", metavar="ID")


def _owner_options(command: Any) -> Any:
    """Whose the memory is; none is taken for granted."""
    agent = option.text("--agent agent_id", "NAME", "Only if it is this agent's own.")(command)
    return option.text("--user user_id", "NAME", "Only if it is this user's.")(agent)


@root.command("list")
@option.owner
@option.session
@option.layer("Only this layer. [default: both, the profile first]")
@option.category("Only this category.")
@option.limit(50, "No more than these of each layer.")
@option.as_of
@option.where
@as_command
async def list_command(
    call: CommandCall, layer: Layer | None, category: str | None, limit: int, as_of: str | None, **named: Any
) -> int:
    """List the facts known about somebody, the newest first.

    \b
    Example: octavo list --user lin --layer profile --as-of 7d
    """
    at = parse_time("--as-of", as_of, ages="ago")
    layers = LAYERS if layer is None and category is None else (layer_of(layer, category),)
    filtered = bool(as_of or layer or category or named["session_id"])
    found: list[Fact] = []
    more = False
    kept: dict[str, Any] = {}
    async with open_memory(call) as memory:
        whose = Whose(**named)
        # Where a fact was learnt is in its metadata, which only a look at each of them tells.
        most = None if whose.learnt_in else limit + 1
        for each in layers:
            read = memory.layers.profile if each == "profile" else memory.layers.events
            page = await read(category=category, as_of=at, limit=most, **whose.owner)
            there = [fact for fact in page if whose.learnt_in.items() <= fact.metadata.items()]
            found, more = found + there[:limit], more or len(there) > limit
        if not found and not filtered:
            kept = await memory.stats(**whose.owner)
    _say_facts(call, found)
    _note_more(call, more)
    if not (found or more):
        name = next(iter(whose.owner.values()))
        others = any(kept.get(source) for source in SOURCES if source != "facts")
        hint = "; octavo search looks through what else is kept" if others else ""
        call.say(f"no {'such ' if filtered else ''}memory of {quote(name)}{hint}")
    return call.document(**whose.owner, as_of=at, count=len(found), more=more, memories=found)


def _note_more(call: CommandCall, more: bool) -> None:
    if more:
        call.note("there are more; --limit shows them")


def _say_facts(call: CommandCall, facts: Sequence[Fact]) -> None:
    header = [TEXT, "LAYER", "CATEGORY", "TOPIC", WHEN, "UNTIL", "OWNER", "ID"]
    rows = [
        [
            *(fact.content, fact.layer, fact.category, fact.topic or "-", column_time(fact.updated_at)),
            "" if fact.expiry_date is None else column_time(fact.expiry_date),
            *(_owner(fact), fact.id),
        ]
        for fact in facts
    ]
    if not any(fact.expiry_date for fact in facts):
        for row in (header, *rows):
            del row[5]
    call.say_table(header, rows)


@root.command("show")
@_memory_argument
@_owner_options
@option.where
@as_command
async def show_command(call: CommandCall, id_: str, **owner: str | None) -> int:
    """Show one memory, its history and its sources.

    ID may also be that of a message, an event or a document that `octavo search` has found.

    \b
    Example: octavo show user_lin_1790000000.123456804310226914
    """
    async with open_memory(call) as memory:
        try:
            fact = await memory.layers.get(id_, **owner)
        except NotFound:
            if records := await _read(memory, [id_]):
                return _show_records(call, records)
            await memory.layers.history(id_, **owner)  # NotFound when there never was one
            gone = f"the memory {id_!r} is gone; `octavo history {id_}` says what happened to it"
            raise NotFound(gone) from None
        history = await memory.layers.history(id_, **fact.owner)
        sources = await _read(memory, fact.sources)
    _say_one(
        call,
        fact.content,
        fact.metadata,
        owner=_owner(fact),
        layer=fact.layer,
        category=fact.category,
        topic=fact.topic,
        created=time_text(fact.created_at),
        updated=time_text(fact.updated_at),
        happened=time_text(fact.happened_at),
        until="for ever" if fact.is_permanent else time_text(fact.expiry_date),
        id=fact.id,
    )
    call.say("")
    _say_history(call, history[::-1])
    if sources:
        call.say("")
        rows = [
            (content(record.text, record.data), record.kind or "-", *_columns(record)) for record in sources
        ]
        call.say_table((TEXT, "KIND", "SOURCE", WHEN, "OWNER", "ID"), rows)
    return call.document(memory=fact, history=history, sources=[_document(record) for record in sources])


def _show_records(call: CommandCall, records: Sequence[Record]) -> int:
    for record in records:
        source, _, owner, name = _columns(record)
        _say_one(
            call,
            content(record.text, record.data),
            record.metadata,
            owner=owner,
            source=source,
            kind=record.kind,
            session=record.scope.session or "",
            created=time_text(record.created_at),
            id=name,
        )
    return call.document(records=[_document(record) for record in records])


async def _read(memory: AsyncMemory, ids: Sequence[str]) -> list[Record]:
    """What the ids name, in their order, whatever it is: messages, observations, events or documents."""
    if not ids:
        return []
    scope = Scope(tenant=memory.layers.tenant)
    asked = [Query(collection=each, ids=tuple(ids), scope=scope, alive_at=now()) for each in SOURCE_OF]
    found = [record for page in await asyncio.gather(*map(memory.store.find, asked)) for record in page]
    return sorted(found, key=lambda record: ids.index(record.id))


def _columns(record: Record) -> tuple[str, str, str, str]:
    scope = record.scope
    owner = owner_text(scope.user, scope.agent, scope.session)
    return SOURCE_OF[record.collection], column_time(record.updated_at or record.created_at), owner, record.id


def _document(record: Record) -> dict[str, Any]:
    scope = record.scope
    return {
        "id": record.id,
        "text": content(record.text, record.data),
        "when": record.updated_at or record.created_at,
        "source": SOURCE_OF[record.collection],
        "kind": record.kind,
        "user_id": scope.user or None,
        "agent_id": scope.agent or None,
        "session_id": scope.session or None,
        "metadata": record.metadata,
    }


def _say_one(call: CommandCall, text: str, metadata: dict[str, Any], *, id: str, **fields: str) -> None:  # noqa: A002
    """A text as it is and what is known of it. It is indented, so that no line of it can pose as one of the fields."""
    for line in text.splitlines():
        call.say(f"    {line}")
    call.say("")
    for name, value in {**fields, "metadata": spell(metadata) if metadata else "", "id": id}.items():
        if value:
            call.say(f"{name:10}{to_line(value)}")


@root.command("history")
@click.argument("id_", metavar="[ID]", required=False)
@option.owner
@option.layer("Only changes in this layer.")
@option.choice("--action", ACTIONS, "Only this sort of change.")
@option.limit(100)
@option.flag("--everyone", "Of everyone, in place of --user or --agent.")
@option.where
@as_command
async def history_command(
    call: CommandCall,
    id_: str | None,
    layer: Layer | None,
    action: Any,
    limit: int,
    everyone: bool,
    **owner: str | None,
) -> int:
    """Show what was changed, when and why, the newest first.

    With ID that is the history of one memory, which stays when the memory is deleted; without, of all memories of
    somebody. The last column is what `octavo undo` takes.

    \b
    Example: octavo history --user lin --action update
    """
    named = {kind: name for kind, name in owner.items() if name is not None}
    if len(named) + everyone > 1:
        raise ConfigError("give one of --user, --agent and --everyone: a memory has one owner")
    if id_ is None and not named and not everyone:
        named = {"user_id": DEFAULT_USER}
    async with open_memory(call) as memory:
        asked: dict[str, Any] = {**named, "memory_layer": layer, "action": action, "limit": limit + 1}
        found = await memory.layers.logs(id_, **asked)
        if id_ is not None and not found and layer is None and action is None:
            if not named:
                await memory.history(id_)  # NotFound when there never was one
            else:
                of = "".join(f" of {name}" for name in named.values())
                raise NotFound(f"there is no memory {id_!r}{of}, and there was none")
    entries, more = found[:limit], len(found) > limit
    _say_history(call, entries)
    _note_more(call, more)
    if not found:
        call.say("nothing was changed")
    return call.document(count=len(entries), more=more, logs=entries)


def _say_history(call: CommandCall, entries: Sequence[LogEntry]) -> None:
    rows = []
    for each in entries:
        state = each.after or each.before
        said = "" if state is None else state.content
        rows.append((column_time(each.created_at), each.action, said, each.reason, each.id or "-"))
    call.say_table((WHEN, "CHANGE", TEXT, "REASON", "LOG ID"), rows)


@root.command("undo")
@click.argument("log_id", metavar="[LOG_ID]", required=False)
@option.text(
    "--add", "ID", "All that the message ID made, and itself; may be given several times.", multiple=True
)
@option.text("--since", "WHEN", f"All that was changed from then on: {option.AGO}.")
@option.text("--undo", "ID", "All that an earlier undo of --add, --since or --undo took back.")
@option.owner
@option.flag("--dry-run", "Only say what would be taken back.")
@option.reason
@option.where
@as_command
async def undo_command(
    call: CommandCall, log_id: str | None, add: tuple[str, ...], undo: str | None, dry_run: bool, **given: Any
) -> int:
    """Take back the last change of a memory, or many changes.

    `octavo history` shows the LOG_ID of each change. With --add, --since or --undo it is many changes of one owner. Taking
    back is a change too, and can be taken back.

    \b
    Example: octavo undo log_user_lin_1790000000.123456804310226914_2
    """
    since = parse_time("--since", given["since"], ages="ago")
    named = {name: given[name] for name in ("user_id", "agent_id")}
    if sum(map(bool, (log_id, add, since, undo))) != 1:
        raise ConfigError(
            "give one of LOG_ID, --add, --since and --undo; octavo history shows what was changed"
        )
    if log_id is not None and dry_run:
        raise ConfigError("--dry-run goes with --add, --since or --undo, not with a LOG_ID")
    async with open_memory(call) as memory:
        if log_id is None:
            undone = await memory.undo_all(
                add=add or None, since=since, undo=undo, reason=given["reason"], dry_run=dry_run, **named
            )
            return _tell_undone(call, undone)
        entry = await memory.layers.undo(log_id, given["reason"], **named)
    name = to_line(entry.memory_id)
    call.say(f"{name} is {quote(entry.after.content)} again" if entry.after else f"removed {name} again")
    return call.document(log=entry)


def _tell_undone(call: CommandCall, undone: Undone) -> int:
    _say_history(call, undone.changes)
    for name, why in undone.kept.items():
        call.note(f"{to_line(name)} stays as it is: {why}")
    counts = f"{pluralize(len(undone.changes), 'change')} and {pluralize(len(undone.messages), 'message')}"
    if undone.dry_run:
        call.say(f"would take back {counts}")
    else:
        again = f"; octavo undo --undo {to_line(undone.id)} takes that back"
        call.say(f"took back {counts}{again if undone.changes or undone.messages else ''}")
    return call.document(**msgspec.to_builtins(undone))


@root.command("delete")
@_memory_argument
@_owner_options
@option.reason
@option.flag("--forever", "Never learn it again, from whatever text; `octavo allow` lifts that.")
@option.yes
@option.where
@as_command
async def delete_command(
    call: CommandCall, id_: str, reason: str | None, forever: bool, yes: bool, **owner: Any
) -> int:
    """Remove a memory; that can be undone.

    What it was stays in its history, and `octavo undo` brings it back.

    \b
    Example: octavo delete user_lin_1790000000.123456804310226914 --reason "they asked for it"
    """
    if None not in owner.values():
        raise ConfigError("give --user or --agent, not both: a memory has one owner")
    async with open_memory(call) as memory:
        if not yes:
            there = await memory.layers.get(id_, **owner)
            call.confirm(f"Delete {quote(there.content)} of {quote(_owner(there))}?")
        gone = await memory.layers.forget(id_, **owner, reason=reason, forever=forever)
        last = (await memory.layers.logs(id_, action="delete", limit=1, **gone.owner))[0]
    learnt = f", and it is not learnt again (octavo allow {to_line(id_)})" if forever else ""
    call.say(f"deleted {quote(gone.content)}{learnt}; octavo undo {to_line(last.id)} brings it back")
    return call.document(memory=gone, log=last)


@root.command("allow")
@_memory_argument
@option.text("--user user_id", "NAME", "Whose it was, where its history is gone.")
@option.text("--agent agent_id", "NAME", "The agent whose own it was.")
@option.where
@as_command
async def allow_command(call: CommandCall, id_: str, **owner: str | None) -> int:
    """Let what a memory said be learnt again.

    ID is that of a memory which was removed by `octavo delete --forever`. It stays removed; a text that says it again adds it.

    \b
    Example: octavo allow user_lin_1790000000.123456804310226914
    """
    async with open_memory(call) as memory:
        await memory.allow(id_, **owner)
    call.say(f"what {to_line(id_)} said may be learnt again")
    return call.document(allowed=id_)


@root.command("prune")
@option.flag("--dry-run", "Only say how much would go.")
@option.where
@as_command
async def prune_command(call: CommandCall, dry_run: bool) -> int:
    """Remove what has expired, and what is not kept any longer.

    Expired memories nobody sees any more, of whatever tenant they are; each removal is in the history. How long and how much is
    kept of messages, events, log rows, versions and dead letters is in the section `retention` of the settings. What waits
    in a queue stays. A running server prunes by itself. Of one agent's events see `octavo events prune`.

    \b
    Example: octavo prune --dry-run --store sqlite:///octavo.db
    """
    async with open_memory(call) as memory:
        with call.progress("would remove" if dry_run else "removed") as progress:
            counted = await RetentionSweep(memory.layers, call.settings).prune(
                dry_run=dry_run, progress=progress
            )
    done = "would remove" if dry_run else "removed"
    expired = counted.pop(EXPIRED)
    call.say(f"{done} {expired:,} expired {'memory' if expired == 1 else 'memories'}")
    for name, count in counted.items():
        if count:
            call.say(f"{done} {count:,} of {name}")
    removed = 0 if dry_run else expired + sum(counted.values())
    return call.document(removed=removed, dry_run=dry_run, counts={EXPIRED: expired, **counted})


def _owner(fact: Fact) -> str:
    return owner_text(**{f"{fact.memory_type}_id": fact.entity_id})
