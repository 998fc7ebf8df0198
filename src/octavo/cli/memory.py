"""`octavo add`, `search`, `context` and `forget`: remember, find, make a block for a prompt, and erase for good."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click
import msgspec

from octavo import erasing
from octavo.assemble import queue_folder
from octavo.cli import option
from octavo.cli.command import CommandCall, as_command, check_exists, parse_span, parse_time, pluralize
from octavo.cli.commands import root
from octavo.cli.tables import TEXT, WHEN, column_time, figures, owner_text, quote, to_line
from octavo.config import local_path
from octavo.erasing import Certificate
from octavo.errors import ConfigError, InvalidQuery, InvalidRecord
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.ids import now
from octavo.layers import CATEGORIES, Layer
from octavo.layers.records import COLLECTIONS
from octavo.memory import SOURCES, AsyncMemory, Hits
from octavo.memory.searching import Whose, search
from octavo.search.recall import Recall
from octavo.util.ages import parse_age

_COUNTED = {"insert": "inserted", "update": "updated", "ignore": "ignored"}
_WHOSE = ("user_id", "agent_id", "session_id")
_ENDS = ("permanent", "ttl", "expires")
#: What is said about one memory, and nothing about the facts of a text.
_OF_ONE = ("layer", "category", *_ENDS, "reason")


@root.command("add")
@click.argument("said", metavar="TEXT")
@option.owner
@option.text("--session session_id", "NAME", "The conversation it was said in.")
@option.text("--metadata", "JSON", 'An object of your own, such as {"from": "mail"}.')
@option.flag(
    "--no-infer",
    "Keep TEXT as one memory, as it is; needed by --layer, --category, --permanent, --ttl, --expires and --reason.",
)
@option.layer("Where it belongs. [default: that of the category, or event]")
@option.category(f"What it is about: {', '.join(option.CATEGORY_NAMES)}. [default: by the rules]")
@option.flag("--permanent", "Keep it for ever; in the profile that is so anyway.")
@option.text("--ttl", "AGE", "Keep it so long: 7d, 12h, 30m, 90s.")
@option.text(
    "--expires", "WHEN", "Keep it until then: 2027-03-01, which is local time, or 2027-03-01T12:00:00+08:00."
)
@option.reason
@option.where
@as_command
async def add_command(
    call: CommandCall, said: str, no_infer: bool, metadata: str | None, **given: Any
) -> int:
    """Remember TEXT and the facts in it.

    With - for TEXT, it is read from stdin. It is kept as a message. Each fact in it is compared with what is known: it is inserted, updates a memory, or is
    ignored because it is known.

    \b
    Example: octavo add "I live in Berlin and I am allergic to peanuts."
    """
    named = {name: given.pop(name) for name in _WHOSE}
    said = _read_stdin() if said == "-" else said
    extra = parse_metadata(metadata)
    wanted = _fact_options(given, no_infer)
    async with open_memory(call, make=True) as memory:
        if no_infer:
            whose = Whose(**named)
            learnt = {**(extra or {}), **whose.learnt_in}
            kept = await memory.layers.remember(said, **whose.owner, metadata=learnt, **wanted)
            call.say(f"remembered in the {kept.layer} layer as {kept.category}: {to_line(kept.id)}")
            return call.document(memory=kept)
        added = await memory.add(said, **named, metadata=extra)
    rows = [
        (
            each.action,
            f"{each.content} (was: {each.supersedes})" if each.supersedes else each.content,
            *(each.layer, each.category, each.id or "-"),
        )
        for each in added.memories
    ]
    call.say_table(("CHANGE", TEXT, "LAYER", "CATEGORY", "ID"), rows)
    counts: dict[str, Any] = {name: added.count(action) for action, name in _COUNTED.items()}
    facts = pluralize(len(rows), "fact")
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    call.say(f"kept, and {facts} found in it: {told}" if rows else "kept; there is no fact in it")
    if added.note:
        call.note(added.note)
    return call.document(**msgspec.to_builtins(added), **counts)


def _read_stdin() -> str:
    if sys.stdin is None:
        raise ConfigError("stdin is closed; give the text itself, or send it through a pipe")
    told = sys.stdin.buffer.read(MAX_RECORD_BYTES + 1)
    if len(told) > MAX_RECORD_BYTES:
        raise ConfigError(f"stdin holds more than {MAX_RECORD_BYTES:,} bytes; add it in parts")
    try:
        return told.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(f"stdin is not UTF-8: {error}") from None


@root.command("search")
@option.question
@option.owner
@option.session
@option.text(
    "--source sources", "NAMES", f"Only these, of {', '.join(SOURCES)}. [default: all]", multiple=True
)
@option.layer("Only facts of this layer.")
@option.text("--since", "WHEN", f"Only from then on: {option.AGO}.")
@option.text("--until", "WHEN", "Only before then.")
@option.text("--metadata", "JSON", 'Only what has this metadata, such as {"from": "mail"}.')
@option.limit(10, least=1)
@option.flag("--everyone", "What is kept of everyone, in place of --user, --agent or --session.")
@option.as_of
@option.where
@as_command
async def search_command(
    call: CommandCall,
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
    named = {name: given[name] for name in _WHOSE}
    if everyone and any(name is not None for name in named.values()):
        raise ConfigError("give --user, --agent or --session, or --everyone, not both")
    chosen = [name.strip() for names in sources for name in names.split(",")] or None
    if layer is not None and chosen not in (None, ["facts"]):
        raise ConfigError("only facts have a layer; give --layer or --source, not both")
    since, until = parse_span(given["since"], given["until"])
    filters: dict[str, Any] = {
        "since": since,
        "until": until,
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
        hits=list(hits),
    )


def _say_hits(call: CommandCall, hits: Hits) -> None:
    rows = [
        (
            f"{hit.score:.2f}",
            hit.text,
            hit.source,
            column_time(hit.when),
            owner_text(hit.user_id, hit.agent_id, hit.session_id),
            hit.why,
            hit.id,
        )
        for hit in hits
    ]
    call.say_table(("SCORE", TEXT, "SOURCE", WHEN, "OWNER", "WHY", "ID"), rows)
    for note in hits.notes:
        call.note(call.mask(note))
    absent = "memory probably holds no answer"
    if not hits:
        call.note(f"nothing was found: {absent}" if hits.probably_absent else "nothing was found")
    elif hits.probably_absent:
        call.note(f"{absent}; this is the nearest there is")


@root.command("context")
@option.question
@option.owner
@option.text("--session session_id", "NAME", "The conversation whose summary and last turns are part of it.")
@option.number("--max-tokens", "No more tokens than these.", 0, default=1000)
@option.as_of
@option.where
@as_command
async def context_command(
    call: CommandCall, question: str, max_tokens: int, as_of: str | None, **named: Any
) -> int:
    """Print what is known as a block for a prompt.

    It says what a model should know to answer QUESTION: who the user is, the conversation so far, and what else was found, each line with its date, within a budget. The block
    alone goes to stdout, and nothing if there is nothing to know.

    \b
    Example: octavo context "what shall I cook?" --session monday --max-tokens 800
    """
    at = parse_time("--as-of", as_of, ages="ago")
    async with open_memory(call) as memory:
        block = await memory.context(question, **named, max_tokens=max_tokens, as_of=at)
    if block.text:
        call.say_lines(block.text)
    elif block.left_out:
        call.note(f"nothing fits into {pluralize(max_tokens, 'token')}; --max-tokens gives it more")
    else:
        call.note("nothing is remembered")
    if block.text and block.probably_absent:
        call.note("memory probably holds no answer to that")
    return call.document(**msgspec.to_builtins(block))


# --- erasing


@root.command("forget")
@option.text("--user user_id", "NAME", "All that is this user's.")
@option.text(
    "--session session_id",
    "NAME",
    "All that was said, done or learnt in this conversation, by every user; with --user, by that one.",
)
@option.text("--agent agent_id", "NAME", "All that names this agent, of every user.")
@option.text("--memory memory_id", "ID", "This memory, its history and the texts it was made from.")
@option.flag("--dry-run", "Only count what would go.")
@option.flag("--keep-rejected", "Keep the digests of what was rejected, so that it stays rejected.")
@option.make(
    "--scrub/--no-scrub",
    "Whether to write the files anew and look through their bytes. [default: of a store on this disk; not of a server]",
    default=None,
)
@option.yes
@option.where
@as_command
async def forget_command(
    call: CommandCall, dry_run: bool, keep_rejected: bool, scrub: bool | None, yes: bool, **named: str | None
) -> int:
    """Erase for good what belongs to somebody.

    Records, history, vectors, queued writes, dead letters, documents and their versions go; nothing brings them back. A certificate
    without names or texts is kept. With --scrub alone, erasures whose scrub is pending are finished.

    \b
    Example: octavo forget --user lin --dry-run
    """
    whose: dict[str, Any] = {part: named[part] for part in (*_WHOSE, "memory_id") if named[part] is not None}
    scrub_alone = scrub and not whose and not dry_run
    if len(whose) != 1 and {*whose} != {"user_id", "session_id"} and not scrub_alone:
        raise ConfigError(
            "whose data is to go? give one of --user, --session, --agent and --memory, or --user and --session; or --scrub alone"
        )
    scrubs = local_path(call.settings.database.dsn) is not None if scrub is None else scrub
    async with open_memory(call) as memory:
        beside = _parts_beside(call, memory)
        if scrub_alone:
            return _tell_scrubbed(call, await _scrub(call, memory, beside))
        asked = {**whose, **beside, "keep_rejected": keep_rejected}
        counted = await memory.forget(**asked, dry_run=True)
        rows = [(where, f"{count:,}") for where, count in counted.removed.items()]
        call.say_lines(figures([("WHERE", "HOW MANY"), *rows]) if rows else "nothing of that is kept")
        users = _tell_users(counted) if "user_id" not in whose else ""
        if users:
            call.say(f"that is of {users}")
        if dry_run:
            return call.document(certificate=counted)
        if not yes and (rows or call.json):  # a program must say --yes, whatever is there
            whom = " in ".join(f"{part.removesuffix('_id')} {quote(name)}" for part, name in whose.items())
            of = f", of {users}," if users else ""
            call.confirm(f"Erase all this of the {whom}{of} for good?")
        certificate = await memory.forget(**asked)
        if scrubs:
            done = await _scrub(call, memory, beside)
            certificate = next(each for each in done if each.id == certificate.id)
    _say_erased(call, certificate)
    return call.document(ok=certificate.scrub != "found", certificate=certificate)


def _tell_users(counted: Certificate) -> str:
    """Whose it is that would go: how many users, and the first of them by name."""
    more = ", …" if counted.users > len(counted.named) else ""
    names = ", ".join(map(quote, counted.named))
    return f"{pluralize(counted.users, 'user')}: {names}{more}" if counted.users else ""


def _parts_beside(call: CommandCall, memory: AsyncMemory) -> dict[str, Any]:
    """What stands beside the store; the vault's files may be another tenant's where one is named."""
    from octavo.service.vault import (
        existing_vault,  # with the whole service; to add and to search needs none of it
    )

    settings, vault = call.settings, None
    if settings.vault.enabled and "service.tenant" not in call.overrides:
        vault = existing_vault(settings.vault.root_path, memory.store, settings.service.tenant)
    return {"vault": vault, "queue": queue_folder(settings)}


async def _scrub(call: CommandCall, memory: AsyncMemory, beside: dict[str, Any]) -> list[Certificate]:
    key = memory.layers.digest_key
    with call.progress("scrubbed", "step") as tell:
        return await erasing.scrub(
            memory.store, key, **beside, progress=lambda _, done, total: tell(done, total)
        )


def _tell_scrubbed(call: CommandCall, done: list[Certificate]) -> int:
    for certificate in done:
        _say_erased(call, certificate)
    if not done:
        call.say("no erasure waits for a scrub; the files were written anew")
    found = any(each.scrub == "found" for each in done)
    return call.document(ok=not found, certificates=done)


def _say_erased(call: CommandCall, certificate: Certificate) -> None:
    looked = {
        "pending": "scrub: pending (octavo forget --scrub)",
        "done": f"scrub: done, {certificate.scanned.get('bytes', 0):,} bytes looked through, none of it found",
        "found": f"scrub: {certificate.found:,} pieces are still there",
    }[certificate.scrub]
    call.say(f"erased {certificate.total:,}; {looked}; certificate {certificate.id}")
    for each in certificate.unreached:
        call.note(f"out of reach: {each}")


# --- what the commands of a memory share


@asynccontextmanager
async def open_memory(call: CommandCall, *, make: bool = False) -> AsyncIterator[AsyncMemory]:
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


def _fact_options(given: dict[str, Any], no_infer: bool) -> dict[str, Any]:
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
        "ttl_seconds": None if given["ttl"] is None else parse_age(given["ttl"]).total_seconds(),
        "expiry_date": expires,
        "reason": given["reason"],
    }
