"""`octavo memory`: remember, look, search, see what was changed and why, forget and take back."""

from typing import Any

import click
import msgspec

from octavo.cli import running
from octavo.cli.memory_asked import (
    CATEGORY_NAMES,
    Asked,
    category,
    count,
    json_object,
    layer,
    layer_of,
    one_memory,
    owner,
    stdin,
    where,
)
from octavo.cli.memory_rows import Rows, plain, quoted
from octavo.cli.options import voice
from octavo.cli.teller import Teller
from octavo.cli.times import moment
from octavo.errors import ConfigError, NotFound
from octavo.layers import Layer, LayeredMemory, Memory
from octavo.layers.values import ACTIONS, LAYERS


@click.group("memory")
def memory() -> None:
    """Remember things about users and agents, and look after what is remembered.

    The profile layer is who somebody is, the event layer is what happened. The store is named as for octavo
    serve, and in the same folder it is the same. Every command takes --json, --quiet and --debug.

    \b
    Example: octavo memory add "Lin is a nurse" --user lin --layer profile --store sqlite:///octavo.db
    """  # fmt: skip


@memory.command("add")
@click.argument("text")
@owner
@layer("Where it belongs. [default: that of the category, or event]")
@category(f"What it is about: {', '.join(CATEGORY_NAMES)}. [default: by the rules]")
@click.option(
    "--auto", is_flag=True, help="Find the single facts of TEXT, and compare them with what is known."
)
@click.option("--permanent", is_flag=True, help="Keep it for ever; in the profile that is so anyway.")
@click.option("--ttl", metavar="AGE", help="Keep it so long: 7d, 12h, 30m, 90s.")
@click.option("--expires", metavar="WHEN", help="Keep it until then: 2027-03-01, 2027-03-01T12:00:00+08:00.")
@click.option("--metadata", metavar="JSON", help='An object of your own, such as {"from": "mail"}.')
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@where
@voice
def add_command(
    text: str, auto: bool, metadata: str | None, as_json: bool, quiet: bool, debug: bool, **given: Any
) -> None:  # fmt: skip
    """Remember TEXT as it is, or with --auto the facts in it. With - for TEXT, it is read from stdin.

    \b
    Example: octavo memory add "我喜欢喝咖啡，昨天和老板开了会" --user lin --auto
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = Asked(teller, given, must_exist=False)
        whose = asked.owner()
        said = stdin() if text == "-" else text
        extra = json_object("--metadata", metadata)
        wanted = one_memory(given, auto)

        async def remember(memory: LayeredMemory) -> None:
            if auto:
                extracted = await memory.extract(said, **whose, metadata=extra)
                Rows(teller).extracted(extracted)
                counted = {
                    name: getattr(extracted, name)
                    for name in (
                        "total_extracted", "inserted", "updated", "ignored", "profile_count", "event_count"
                    )
                }  # fmt: skip
                teller.document(
                    ok=True, command="memory add", mode="auto_extract", **msgspec.to_builtins(extracted), **counted
                )  # fmt: skip
                return
            kept = await memory.remember(said, **whose, metadata=extra, **wanted)
            teller.say(f"remembered {plain(kept.id)} in the {kept.layer} layer as {kept.category}")
            teller.document(ok=True, command="memory add", mode="direct", memory=msgspec.to_builtins(kept))

        return asked.run(remember)

    running.run(teller, [given["url"] or ""], work)


@memory.command("list")
@owner
@layer("Only this layer. [default: both, the profile first]")
@category("Only this category.")
@count(50, "No more than these of each layer.")
@click.option(
    "--as-of", metavar="WHEN", help="What was known then: 2026-03-01T12:00, or 2h for two hours ago."
)
@where
@voice
def list_command(
    layer: Layer | None, category: str | None, limit: int, as_of: str | None,
    as_json: bool, quiet: bool, debug: bool, **given: Any,
) -> None:  # fmt: skip
    """Show what is remembered about somebody, the newest first.

    \b
    Example: octavo memory list --user lin --layer profile --as-of 7d
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = Asked(teller, given)
        whose = asked.owner()
        at = moment("--as-of", as_of, ago=True)
        layers = LAYERS if layer is None and category is None else (layer_of(layer, category),)

        async def look(memory: LayeredMemory) -> None:
            found: list[Memory] = []
            for one in layers:
                read = memory.profile if one == "profile" else memory.events
                found += await read(**whose, category=category, limit=limit, as_of=at)
            Rows(teller).memories(found)
            if not found:
                teller.say("nothing is remembered")
            teller.document(
                ok=True, command="memory list", **{name: value for name, value in whose.items() if value},
                as_of=at, count=len(found), memories=msgspec.to_builtins(found),
            )  # fmt: skip

        return asked.run(look)

    running.run(teller, [given["url"] or ""], work)


@memory.command("search")
@click.argument("query")
@owner
@layer("Only this layer. [default: both]")
@count(10)
@click.option("--everyone", is_flag=True, help="The memories of everyone, in place of --user or --agent.")
@where
@voice
def search_command(
    query: str, layer: Layer | None, limit: int, everyone: bool,
    as_json: bool, quiet: bool, debug: bool, **given: Any,
) -> None:  # fmt: skip
    """Show the memories of somebody that answer QUERY best, the best first.

    Exit status 1 says that nothing was found.

    \b
    Example: octavo memory search 咖啡 --user lin
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = Asked(teller, given)
        whose = asked.owner_or_everyone(everyone=everyone)

        async def look(memory: LayeredMemory) -> int:
            found = await memory.recall(query, **whose, layer=layer, top_k=limit)
            Rows(teller).memories([each.memory for each in found])
            if not found:
                teller.note("octavo: nothing was found")
            teller.document(
                ok=bool(found), command="memory search", query=query, count=len(found),
                memories=[{**msgspec.to_builtins(each.memory), "score": each.score} for each in found],
            )  # fmt: skip
            return 0 if found else 1

        return asked.run(look)

    running.run(teller, [given["url"] or ""], work)


@memory.command("log")
@click.argument("id_", metavar="[ID]", required=False)
@owner
@layer("Only changes in this layer.")
@click.option("--action", type=click.Choice(ACTIONS), help="Only this sort of change.")
@count(100)
@where
@voice
def log_command(
    id_: str | None, layer: Layer | None, action: Any, limit: int,
    as_json: bool, quiet: bool, debug: bool, **given: Any,
) -> None:  # fmt: skip
    """Show what was changed and why, the newest first: of one memory, of an owner or of everybody.

    The log of a memory stays when it is forgotten.

    \b
    Example: octavo memory log --user lin --action update
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = Asked(teller, given)
        whose = asked.perhaps_owner()

        async def look(memory: LayeredMemory) -> None:
            entries = await memory.logs(id_, **whose, memory_layer=layer, action=action, limit=limit)
            if id_ is not None and not entries and layer is None and action is None and limit:
                of = next((f" of {value}" for value in whose.values() if value), "")
                raise NotFound(f"there is no memory {id_!r}{of}, and there was none")
            Rows(teller).log(entries)
            if not entries:
                teller.say("nothing was changed")
            teller.document(
                ok=True, command="memory log", count=len(entries), logs=msgspec.to_builtins(entries)
            )

        return asked.run(look)

    running.run(teller, [given["url"] or ""], work)


@memory.command("forget")
@click.argument("id_", metavar="ID")
@owner
@layer("Only if it is in this layer.")
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@where
@voice
def forget_command(
    id_: str, layer: Layer | None, reason: str | None, yes: bool,
    as_json: bool, quiet: bool, debug: bool, **given: Any,
) -> None:  # fmt: skip
    """Remove a memory of somebody. What it was stays in the log, and `octavo memory undo` brings it back.

    \b
    Example: octavo memory forget user_lin_1790000000.123456804310226914 --user lin
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = Asked(teller, given)
        whose = asked.owner()
        if as_json and not yes:
            raise ConfigError("--json needs --yes: there is nobody to ask")

        async def forget(memory: LayeredMemory) -> None:
            if not yes:
                there = await memory.get(id_)
                if (there.memory_type, there.entity_id) != next(
                    (name.removesuffix("_id"), value) for name, value in whose.items() if value
                ):
                    raise NotFound(f"{asked.named} has no memory {id_!r}")
                click.confirm(f"Forget {quoted(there.content)}?", abort=True, err=True)
            gone = await memory.forget(id_, **whose, layer=layer, reason=reason)
            teller.say(f"forgot {quoted(gone.content)}")
            teller.document(ok=True, command="memory forget", memory=msgspec.to_builtins(gone))

        return asked.run(forget)

    running.run(teller, [given["url"] or ""], work)


@memory.command("undo")
@click.argument("log_id", metavar="LOG_ID")
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@where
@voice
def undo_command(
    log_id: str, reason: str | None, as_json: bool, quiet: bool, debug: bool, **given: Any
) -> None:
    """Take back the last change of a memory; `octavo memory log` shows the LOG_ID of each.

    \b
    Example: octavo memory undo log_user_lin_1790000000.123456804310226914_2
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def undo(memory: LayeredMemory) -> None:
        entry = await memory.undo(log_id, reason)
        if entry.after is None:
            teller.say(f"removed {plain(entry.memory_id)} again")
        else:
            teller.say(f"{plain(entry.memory_id)} is {quoted(entry.after.content)} again")
        teller.document(ok=True, command="memory undo", log=msgspec.to_builtins(entry))

    running.run(teller, [given["url"] or ""], lambda: Asked(teller, given).run(undo))


@memory.command("sweep")
@where
@voice
def sweep_command(as_json: bool, quiet: bool, debug: bool, **given: Any) -> None:
    """Remove and log what has expired, which nobody sees any more. A running server does so by itself.

    \b
    Example: octavo memory sweep --store sqlite:///octavo.db
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    async def sweep(memory: LayeredMemory) -> None:
        removed = await memory.sweep()
        teller.say(f"removed {removed:,} expired {'memory' if removed == 1 else 'memories'}")
        teller.document(ok=True, command="memory sweep", removed=removed)

    running.run(teller, [given["url"] or ""], lambda: Asked(teller, given).run(sweep))
