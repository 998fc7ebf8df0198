"""`octavo memory`: remember, look, search, see what was changed and why, forget and take back."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click
import msgspec

from octavo.cli.command import (
    Call,
    check_exists,
    flag,
    limit,
    options,
    override,
    parse_time,
    runs,
    several,
    store_option,
    text,
    time_text,
)
from octavo.errors import ConfigError, InvalidQuery, InvalidRecord, NotFound
from octavo.events.retention import age
from octavo.kernel.ids import now
from octavo.kernel.text import printable
from octavo.layers import CATEGORIES, Fact, Layer, LayeredMemory
from octavo.layers.values import ACTIONS, LAYERS

F = TypeVar("F", bound=Callable[..., Any])
_CATEGORY_NAMES = [name for names in CATEGORIES.values() for name in names]
_COUNTS = ("total_extracted", "inserted", "updated", "ignored", "profile_count", "event_count")
_MOST_QUOTED = 60  # characters of a content inside of a sentence

_owner_options = options(
    text("--user", "NAME", "The user whose memory it is."),
    text("--agent", "NAME", "The agent whose memory it is."),
)
_where = options(
    store_option,
    text("--tenant", "NAME", "Whose memory it is. [default: as configured]", **override("service.tenant")),
)
_reason = text("--reason", "TEXT", "Why, for the log.")


def _layer(help_: str) -> Callable[[F], F]:
    return click.option("--layer", type=click.Choice(LAYERS), help=help_)


def _category(help_: str) -> Callable[[F], F]:
    return text("--category", "NAME", help_, type=click.Choice(_CATEGORY_NAMES))


@click.group("memory")
def memory() -> None:
    """Remember things about users and agents, and look after what is remembered.

    The profile layer is who somebody is, the event layer is what happened. The store is named as for octavo
    serve, and in the same folder it is the same. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo memory add "Lin is a nurse" --user lin --layer profile --store sqlite:///octavo.db
    """


@memory.command("add")
@click.argument("content", metavar="TEXT")
@_owner_options
@_layer("Where it belongs. [default: that of the category, or event]")
@_category(f"What it is about: {', '.join(_CATEGORY_NAMES)}. [default: by the rules]")
@flag("--auto", "Find the single facts of TEXT, and compare them with what is known.")
@flag("--permanent", "Keep it for ever; in the profile that is so anyway.")
@text("--ttl", "AGE", "Keep it so long: 7d, 12h, 30m, 90s.")
@text("--expires", "WHEN", "Keep it until then: 2027-03-01, 2027-03-01T12:00:00+08:00.")
@text("--metadata", "JSON", 'An object of your own, such as {"from": "mail"}.')
@_reason
@_where
@runs
async def add_command(call: Call, content: str, auto: bool, metadata: str | None, **given: Any) -> int:
    """Remember TEXT as it is, or with --auto the facts in it. With - for TEXT, it is read from stdin.

    \b
    Example: octavo memory add "我喜欢喝咖啡，昨天和老板开了会" --user lin --auto
    """
    whose = _owner({name: given.pop(name) for name in ("user", "agent")})
    try:
        content = sys.stdin.buffer.read().decode().removesuffix("\n") if content == "-" else content
        extra = None if metadata is None else msgspec.json.decode(metadata, type=dict[str, Any])
    except UnicodeDecodeError as error:
        raise ConfigError(f"stdin is not UTF-8: {error}") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f'--metadata must be a JSON object, such as {{"from": "mail"}}: {error}') from None
    wanted = _wanted(auto, **given)
    async with _open_memory(call, make=True) as memory:
        if not auto:
            kept = await memory.remember(content, **whose, metadata=extra, **wanted)
            call.say(f"remembered {_plain(kept.id)} in the {kept.layer} layer as {kept.category}")
            return call.document(mode="direct", memory=msgspec.to_builtins(kept))
        extracted = await memory.extract(content, **whose, metadata=extra)
    for each in extracted.memories:
        was = f"  (was: {_quoted(each.supersedes)})" if each.supersedes else ""
        call.say(f"{each.action:6}  {_which(each)}  {_plain(each.content)}{was}")
    counts = {name: getattr(extracted, name) for name in _COUNTS}
    facts = several(extracted.total_extracted, "fact")
    call.say("{}: {inserted} inserted, {updated} updated, {ignored} ignored".format(facts, **counts))
    return call.document(mode="auto_extract", **msgspec.to_builtins(extracted), **counts)


@memory.command("list")
@_owner_options
@_layer("Only this layer. [default: both, the profile first]")
@_category("Only this category.")
@limit(50, "No more than these of each layer.")
@text("--as-of", "WHEN", "What was known then: 2026-03-01T12:00, or 2h for two hours ago.")
@_where
@runs
async def list_command(
    call: Call, layer: Layer | None, category: str | None, limit: int, as_of: str | None, **owner: str | None
) -> int:
    """Show what is remembered about somebody, the newest first.

    \b
    Example: octavo memory list --user lin --layer profile --as-of 7d
    """
    whose = _owner(owner)
    at = parse_time("--as-of", as_of, ages="ago")
    layers = LAYERS if layer is None and category is None else (_layer_of(layer, category),)
    asked = {**whose, "category": category, "limit": limit, "as_of": at}
    async with _open_memory(call) as memory:
        found = await memory.profile(**asked) if "profile" in layers else []
        found += await memory.events(**asked) if "event" in layers else []
    _say_memories(call, found)
    if not found:
        call.say("nothing is remembered")
    named = {name: value for name, value in whose.items() if value}
    return call.document(**named, as_of=at, count=len(found), memories=msgspec.to_builtins(found))


@memory.command("search")
@click.argument("query")
@_owner_options
@_layer("Only this layer. [default: both]")
@limit(10)
@flag("--everyone", "The memories of everyone, in place of --user or --agent.")
@_where
@runs
async def search_command(
    call: Call, query: str, layer: Layer | None, limit: int, everyone: bool, **owner: str | None
) -> int:
    """Show the memories of somebody that answer QUERY best, the best first.

    Exit status 1 says that nothing was found.

    \b
    Example: octavo memory search 咖啡 --user lin
    """
    named = any(name is not None for name in owner.values())
    if named is everyone:
        both = ", not both" if named else ""
        raise ConfigError(f"whose memories? name one by --user or --agent, or everyone by --everyone{both}")
    whose = _owner(owner, needed=False)
    async with _open_memory(call) as memory:
        found = await memory.recall(query, **whose, everyone=everyone, layer=layer, top_k=limit)
    _say_memories(call, [each.memory for each in found])
    if not found:
        call.note("nothing was found")
    scored = [{**msgspec.to_builtins(each.memory), "score": each.score} for each in found]
    return call.document(ok=bool(found), query=query, count=len(found), memories=scored)


@memory.command("log")
@click.argument("id_", metavar="[ID]", required=False)
@_owner_options
@_layer("Only changes in this layer.")
@click.option("--action", type=click.Choice(ACTIONS), help="Only this sort of change.")
@limit(100)
@_where
@runs
async def log_command(
    call: Call, id_: str | None, layer: Layer | None, action: Any, limit: int, **owner: str | None
) -> int:
    """Show what was changed and why, the newest first: of one memory, of an owner or of everybody.

    The log of a memory stays when it is forgotten.

    \b
    Example: octavo memory log --user lin --action update
    """
    whose = _owner(owner, needed=False)
    async with _open_memory(call) as memory:
        entries = await memory.logs(id_, **whose, memory_layer=layer, action=action, limit=limit)
    if id_ is not None and not entries and layer is None and action is None and limit:
        of = next((f" of {name}" for name in owner.values() if name), "")
        raise NotFound(f"there is no memory {id_!r}{of}, and there was none")
    for each in entries:
        what = f"{each.action:6}  {each.memory_layer:7}  {_plain(each.id) or '-'}  {_plain(each.reason)}"
        call.say(f"{time_text(each.created_at)}  {what}")
    if not entries:
        call.say("nothing was changed")
    return call.document(count=len(entries), logs=msgspec.to_builtins(entries))


@memory.command("forget")
@click.argument("id_", metavar="ID")
@_owner_options
@_layer("Only if it is in this layer.")
@_reason
@flag("--yes -y", "Do not ask.")
@_where
@runs
async def forget_command(
    call: Call, id_: str, layer: Layer | None, reason: str | None, yes: bool, **owner: str | None
) -> int:
    """Remove a memory of somebody. What it was stays in the log, and `octavo memory undo` brings it back.

    \b
    Example: octavo memory forget user_lin_1790000000.123456804310226914 --user lin
    """
    whose = _owner(owner)
    if not yes:
        call.check_can_ask()
    async with _open_memory(call) as memory:
        if not yes:
            there = await memory.get(id_)
            if owner[there.memory_type] != there.entity_id:
                named = next(f"{kind} {name}" for kind, name in owner.items() if name is not None)
                raise NotFound(f"the {named} has no memory {id_!r}")
            click.confirm(f"Forget {_quoted(there.content)}?", abort=True, err=True)
        gone = await memory.forget(id_, **whose, layer=layer, reason=reason)
    call.say(f"forgot {_quoted(gone.content)}")
    return call.document(memory=msgspec.to_builtins(gone))


@memory.command("undo")
@click.argument("log_id", metavar="LOG_ID")
@_reason
@_where
@runs
async def undo_command(call: Call, log_id: str, reason: str | None) -> int:
    """Take back the last change of a memory; `octavo memory log` shows the LOG_ID of each.

    \b
    Example: octavo memory undo log_user_lin_1790000000.123456804310226914_2
    """
    async with _open_memory(call) as memory:
        entry = await memory.undo(log_id, reason)
    name = _plain(entry.memory_id)
    call.say(
        f"removed {name} again" if entry.after is None else f"{name} is {_quoted(entry.after.content)} again"
    )
    return call.document(log=msgspec.to_builtins(entry))


@memory.command("sweep")
@_where
@runs
async def sweep_command(call: Call) -> int:
    """Remove and log what has expired, which nobody sees any more. A running server does so by itself.

    \b
    Example: octavo memory sweep --store sqlite:///octavo.db
    """
    async with _open_memory(call) as memory:
        removed = await memory.sweep()
    call.say(f"removed {removed:,} expired {'memory' if removed == 1 else 'memories'}")
    return call.document(removed=removed)


@asynccontextmanager
async def _open_memory(call: Call, *, make: bool = False) -> AsyncIterator[LayeredMemory]:
    """The memory of the settings; `make` may make its store."""
    settings = call.unqueued_settings()
    if not make:
        check_exists(settings.database.dsn)
    layers = msgspec.structs.replace(settings.layers, sweep_seconds=0)
    try:
        async with LayeredMemory.from_settings(msgspec.structs.replace(settings, layers=layers)) as opened:
            yield opened
    except (InvalidQuery, InvalidRecord) as error:  # what was asked is wrong, not what came of it
        raise ConfigError(str(error)) from error


def _owner(named: dict[str, str | None], *, needed: bool = True) -> dict[str, Any]:
    """Whose memory is meant by --user and --agent."""
    given = [name for name in named.values() if name is not None]
    if len(given) > 1:
        raise ConfigError("give --user or --agent, not both: a memory has one owner")
    if needed and not given:
        raise ConfigError("whose memory? name a user by --user or an agent by --agent")
    return {"user_id": named["user"], "agent_id": named["agent"]}


def _wanted(auto: bool, **given: Any) -> dict[str, Any]:
    """What was said about one memory, which says nothing about the facts of a text."""
    names = ("layer", "category", "permanent", "ttl", "expires", "reason")
    named = [f"--{name}" for name in names if given[name]]
    if auto:
        if named:
            raise ConfigError(f"--auto decides for each fact by itself; leave out {', '.join(named)}")
        return {}
    ends = [name for name in named if name in ("--permanent", "--ttl", "--expires")]
    if len(ends) > 1:
        raise ConfigError(f"{' and '.join(ends)} say different things about its end; give one of them")
    expires = parse_time("--expires", given["expires"])
    if expires is not None and expires <= now():
        raise ConfigError(f"--expires {given['expires']!r} is in the past")
    return {
        "layer": _layer_of(given["layer"], given["category"]),
        "category": given["category"],
        "is_permanent": True if given["permanent"] else None,
        "ttl_seconds": None if given["ttl"] is None else age(given["ttl"]).total_seconds(),
        "expiry_date": expires,
        "reason": given["reason"],
    }


def _layer_of(layer: Layer | None, category: str | None) -> Layer:
    """The layer that is meant: a category is of one only."""
    of = next((each for each, names in CATEGORIES.items() if category in names), None)
    if layer is not None and of is not None and layer != of:
        raise ConfigError(
            f"--category {category} belongs to the {of} layer; of the {layer} layer are {', '.join(CATEGORIES[layer])}"
        )
    return layer or of or "event"


def _say_memories(call: Call, memories: Sequence[Fact]) -> None:
    for each in memories:
        end = f"  (until {each.expiry_date:%Y-%m-%d %H:%M} UTC)" if each.expiry_date else ""
        call.say(f"{time_text(each.updated_at)}  {_which(each)}  {_plain(each.content)}{end}")


def _which(memory: Any) -> str:
    """Layer, category and id of a memory, or of what became of a fact."""
    return f"{memory.layer:7}  {memory.category:12}  {_plain(memory.id) or '-'}"


def _plain(text: str) -> str:
    """What was remembered, on one line: runs of spaces and line ends are one space."""
    return printable(" ".join(text.split()))


def _quoted(text: str) -> str:
    """A content inside of a sentence."""
    text = _plain(text)
    return f"“{text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + '…'}”"
