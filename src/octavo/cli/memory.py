"""`octavo add`, `octavo search` and `octavo context`: remember, find, and make a block for a prompt."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click
import msgspec

from octavo.cli.command import (
    Call,
    check_exists,
    flag,
    limit,
    number,
    options,
    override,
    parse_time,
    runs,
    several,
    store_option,
    text,
)
from octavo.cli.tables import TEXT, WHEN, owner_text, plain, say_table, when
from octavo.errors import ConfigError, InvalidQuery, InvalidRecord
from octavo.events.retention import age
from octavo.kernel.ids import now
from octavo.layers import CATEGORIES, Layer
from octavo.layers.records import COLLECTIONS
from octavo.layers.values import LAYERS
from octavo.memory import DEFAULT_USER, SOURCES, AsyncMemory, Hits
from octavo.memory.searching import Whose, search
from octavo.search.recall import Recall

F = TypeVar("F", bound=Callable[..., Any])
_CATEGORY_NAMES = [name for names in CATEGORIES.values() for name in names]
_COUNTED = {"insert": "inserted", "update": "updated", "ignore": "ignored"}
_ENDS = ("permanent", "ttl", "expires")
#: What is said about one memory, and nothing about the facts of a text.
_OF_ONE = ("layer", "category", *_ENDS, "reason")

owner_options = options(
    text("--user", "NAME", f"Whose memory it is. [default: {DEFAULT_USER}, unless --agent is given]"),
    text("--agent", "NAME", "The agent's own memory; with --user, the user's with this agent."),
)
session_option = text("--session", "NAME", "Only of this conversation. [default: of all]")
where_options = options(
    store_option,
    text("--tenant", "NAME", "Of this tenant. [default: as configured]", **override("service.tenant")),
)
reason_option = text("--reason", "TEXT", "Why, for the history.")
as_of_option = text("--as-of", "WHEN", "What was known then: 2026-03-01T12:00, or 2h for two hours ago.")


def layer_option(help_: str) -> Callable[[F], F]:
    """`--layer`, one of the two."""
    return click.option("--layer", type=click.Choice(LAYERS), help=help_)


def category_option(help_: str) -> Callable[[F], F]:
    """`--category`, of either layer."""
    return text("--category", "NAME", help_, type=click.Choice(_CATEGORY_NAMES))


@click.command("add")
@click.argument("said", metavar="TEXT")
@owner_options
@text("--session", "NAME", "The conversation it was said in.")
@text("--metadata", "JSON", 'An object of your own, such as {"from": "mail"}.')
@flag(
    "--no-infer",
    "Keep TEXT as one memory, as it is; needed by --layer, --category, --permanent, --ttl, --expires and --reason.",
)
@layer_option("Where it belongs. [default: that of the category, or event]")
@category_option(f"What it is about: {', '.join(_CATEGORY_NAMES)}. [default: by the rules]")
@flag("--permanent", "Keep it for ever; in the profile that is so anyway.")
@text("--ttl", "AGE", "Keep it so long: 7d, 12h, 30m, 90s.")
@text("--expires", "WHEN", "Keep it until then: 2027-03-01, 2027-03-01T12:00:00+08:00.")
@reason_option
@where_options
@runs
async def add_command(call: Call, said: str, no_infer: bool, metadata: str | None, **given: Any) -> int:
    """Remember TEXT and the facts in it.

    With - for TEXT, it is read from stdin. It is kept as a message. Each fact in it is compared with what is known: it is inserted, updates a memory, or is
    ignored because it is known.

    \b
    Example: octavo add "I live in Berlin and I am allergic to peanuts."
    """
    named = {f"{name}_id": given.pop(name) for name in ("user", "agent", "session")}
    try:
        said = sys.stdin.buffer.read().decode().removesuffix("\n") if said == "-" else said
    except UnicodeDecodeError as error:
        raise ConfigError(f"stdin is not UTF-8: {error}") from None
    extra = parse_metadata(metadata)
    wanted = _wanted(given, no_infer)
    async with open_memory(call, make=True) as memory:
        if no_infer:
            whose = Whose(**named)
            learnt = {**(extra or {}), **whose.learnt_in}
            kept = await memory.layers.remember(said, **whose.owner, metadata=learnt, **wanted)
            call.say(f"remembered in the {kept.layer} layer as {kept.category}: {plain(kept.id)}")
            return call.document(memory=msgspec.to_builtins(kept))
        added = await memory.add(said, **named, metadata=extra)
    rows = [
        (each.action, _changed(each.content, each.supersedes), each.layer, each.category, each.id or "-")
        for each in added.memories
    ]
    say_table(call, ("CHANGE", TEXT, "LAYER", "CATEGORY", "ID"), rows)
    counts: dict[str, Any] = {name: added.count(action) for action, name in _COUNTED.items()}
    facts = several(len(rows), "fact")
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    call.say(f"kept, and {facts} found in it: {told}" if rows else "kept; there is no fact in it")
    if added.note:
        call.note(added.note)
    return call.document(**msgspec.to_builtins(added), **counts)


def _changed(content: str, before: str | None) -> str:
    return f"{content} (was: {before})" if before else content


@click.command("search")
@click.argument("question")
@owner_options
@session_option
@text("--source sources", "NAMES", f"Only these, of {', '.join(SOURCES)}. [default: all]", multiple=True)
@layer_option("Only facts of this layer.")
@text("--since", "WHEN", "Only from then on: 2026-03-01T12:00, or 2h for two hours ago.")
@text("--until", "WHEN", "Only before then.")
@text("--metadata", "JSON", 'Only what has this metadata, such as {"from": "mail"}.')
@limit(10)
@flag("--everyone", "What is kept of everyone, in place of --user, --agent or --session.")
@as_of_option
@where_options
@runs
async def search_command(
    call: Call,
    question: str,
    sources: tuple[str, ...],
    layer: Layer | None,
    limit: int,
    everyone: bool,
    **given: Any,
) -> int:
    """Find what answers QUESTION, of all that is kept.

    That is facts, messages, observations, events of agents, and documents; the best comes first. The score, from 0 to 1, says how likely it is an answer. Exit status 1 says that nothing was found.

    \b
    Example: octavo search "where do I live?" --source facts,messages --since 30d
    """
    named = {f"{name}_id": given[name] for name in ("user", "agent", "session")}
    if everyone and any(name is not None for name in named.values()):
        raise ConfigError("give --user, --agent or --session, or --everyone, not both")
    chosen = [name.strip() for names in sources for name in names.split(",")] or None
    if layer is not None and chosen not in (None, ["facts"]):
        raise ConfigError("only facts have a layer; give --layer or --source, not both")
    filters: dict[str, Any] = {
        "since": parse_time("--since", given["since"], ages="ago"),
        "until": parse_time("--until", given["until"], ages="ago"),
        "metadata": parse_metadata(given["metadata"]),
    }
    as_of = parse_time("--as-of", given["as_of"], ages="ago")
    if layer is not None and as_of is not None:
        raise ConfigError("give --layer or --as-of, not both; octavo list takes both")
    async with open_memory(call) as memory:
        if layer is None:
            hits = await memory.search(
                question, **named, sources=chosen, limit=limit, everyone=everyone, as_of=as_of, **filters
            )
        else:
            whose = Whose(tenant=memory.layers.tenant, everyone=everyone, **named)
            asked = whose.queries(now(), ["facts"], **filters)
            asked = [query for query in asked if query.collection == COLLECTIONS[layer]]
            hits = await search(Recall(memory.store), question, asked, limit)
    _say_hits(call, hits)
    return call.document(
        ok=bool(hits),
        query=question,
        count=len(hits),
        probably_absent=hits.probably_absent,
        notes=hits.notes,
        hits=msgspec.to_builtins(list(hits)),
    )


def _say_hits(call: Call, hits: Hits) -> None:
    rows = [
        (
            f"{hit.score:.2f}",
            hit.text,
            hit.source,
            when(hit.when),
            owner_text(hit.user_id, hit.agent_id, hit.session_id),
            hit.why,
            hit.id,
        )
        for hit in hits
    ]
    say_table(call, ("SCORE", TEXT, "SOURCE", WHEN, "OWNER", "WHY", "ID"), rows)
    for note in hits.notes:
        call.note(call.hidden(note))
    absent = "memory probably holds no answer"
    if not hits:
        call.note(f"nothing was found: {absent}")
    elif hits.probably_absent:
        call.note(f"{absent}; this is the nearest there is")


@click.command("context")
@click.argument("question")
@owner_options
@text("--session", "NAME", "The conversation whose summary and last turns are part of it.")
@number("--max-tokens", "No more tokens than these.", 0, default=1000)
@as_of_option
@where_options
@runs
async def context_command(call: Call, question: str, max_tokens: int, as_of: str | None, **given: Any) -> int:
    """Print what is known as a block for a prompt.

    It says what a model should know to answer QUESTION: who the user is, the conversation so far, and what else was found, each line with its date, within a budget. The block
    alone goes to stdout, and nothing if there is nothing to know.

    \b
    Example: octavo context "what shall I cook?" --session monday --max-tokens 800
    """
    named = {f"{name}_id": value for name, value in given.items()}
    at = parse_time("--as-of", as_of, ages="ago")
    async with open_memory(call) as memory:
        block = await memory.context(question, **named, max_tokens=max_tokens, as_of=at)
    if block.text:
        call.say_lines(block.text)
    elif block.left_out:
        call.note(f"nothing fits into {several(max_tokens, 'token')}; --max-tokens gives it more")
    else:
        call.note("nothing is remembered")
    if block.text and block.probably_absent:
        call.note("memory probably holds no answer to that")
    return call.document(**msgspec.to_builtins(block))


# --- what the commands of a memory share


@asynccontextmanager
async def open_memory(call: Call, *, make: bool = False) -> AsyncIterator[AsyncMemory]:
    """The memory of the settings; `make` may make its store."""
    settings = call.unqueued_settings()
    if not make:
        check_exists(settings.database.dsn)
    layers = msgspec.structs.replace(settings.layers, sweep_seconds=0)  # only `octavo prune` sweeps
    try:
        async with AsyncMemory.from_settings(msgspec.structs.replace(settings, layers=layers)) as opened:
            yield opened
    except (InvalidQuery, InvalidRecord) as error:  # what was asked is wrong, not what came of it
        raise ConfigError(str(error)) from error


def parse_metadata(spelled: str | None) -> dict[str, Any] | None:
    """The object that --metadata gives."""
    try:
        return None if spelled is None else msgspec.json.decode(spelled, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f'--metadata must be a JSON object, such as {{"from": "mail"}}: {error}') from None


def layer_of(layer: Layer | None, category: str | None) -> Layer:
    """The layer that is meant: a category is of one only."""
    of = next((each for each, names in CATEGORIES.items() if category in names), None)
    if layer is not None and of is not None and layer != of:
        raise ConfigError(
            f"--category {category} belongs to the {of} layer; of the {layer} layer are {', '.join(CATEGORIES[layer])}"
        )
    return layer or of or "event"


def _wanted(given: dict[str, Any], no_infer: bool) -> dict[str, Any]:
    """What was said about one memory, as the layers are told it."""
    said = [f"--{name}" for name in _OF_ONE if given[name]]
    if not no_infer:
        if said:
            raise ConfigError(
                f"each fact of a text decides for itself; leave out {', '.join(said)}, or give --no-infer too"
            )
        return {}
    ends = [f"--{name}" for name in _ENDS if given[name]]
    if len(ends) > 1:
        raise ConfigError(f"{' and '.join(ends)} say different things about its end; give one of them")
    expires = parse_time("--expires", given["expires"])
    if expires is not None and expires <= now():
        raise ConfigError(f"--expires {given['expires']!r} is in the past")
    return {
        "layer": layer_of(given["layer"], given["category"]),
        "category": given["category"],
        "is_permanent": True if given["permanent"] else None,
        "ttl_seconds": None if given["ttl"] is None else age(given["ttl"]).total_seconds(),
        "expiry_date": expires,
        "reason": given["reason"],
    }
