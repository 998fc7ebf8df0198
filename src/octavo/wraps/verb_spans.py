"""The span of one verb of a store, named as OpenTelemetry names what is done to memories.

A write is `create_memory`, `update_memory`, `delete_memory`, or `upsert_memory` when it is several of them; the rows of the log
that go with it do not count. `gen_ai.memory.store.id` is the collection. Reads that answer no question are `octavo.store.find`
and so on. What records hold, and their ids, in which people may be named, are told only where contents are wanted.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from octavo.kernel.model import Add, Change, Remove
from octavo.kernel.ports import Written
from octavo.util.tracing import Span, span

_NAMES: dict[Any, str] = {Add: "create_memory", Change: "update_memory", Remove: "delete_memory"}
_LOG = "log"
_MOST_RECORDS = 100  # whose contents one span holds


def verb_span(verb: str, asked: Any) -> Span:
    """The span of a verb that is asked for this: a list of ops, a query, or the name of a collection."""
    if verb in ("apply", "write"):
        return _write_span(verb, asked if isinstance(asked, list | tuple) else ())
    attributes: dict[str, Any] = {"octavo.verb": verb}
    collection = asked if verb == "names" else getattr(asked, "collection", None)
    if isinstance(collection, str):
        attributes["gen_ai.memory.store.id"] = collection
    return span(f"octavo.store.{verb}", attributes)


def _write_span(verb: str, ops: Any) -> Span:
    told = [(op, collection) for op in ops for collection in _collections(op)]
    own = [(op, collection) for op, collection in told if collection != _LOG] or told
    names = {_NAMES[type(op)] for op, _ in own}
    name = names.pop() if len(names) == 1 else "upsert_memory"
    stores = ",".join(dict.fromkeys(collection for _, collection in own))
    attributes = {"gen_ai.operation.name": name, "gen_ai.memory.store.id": stores, "octavo.verb": verb}
    seen = span(name, attributes)
    if seen.contents:
        records = [record for op, _ in own if isinstance(op, Add) for record in op.records]
        content = [{"id": one.id, "content": one.text} for one in records[:_MOST_RECORDS]]
        seen.set("gen_ai.memory.records", msgspec.json.encode(content).decode())
    return seen


def _collections(op: Any) -> Iterator[str]:
    """Where an op writes to; what is none is left to the store to refuse."""
    if isinstance(op, Add):
        records = op.records if isinstance(op.records, list | tuple) else ()
        yield from dict.fromkeys(
            name for one in records if isinstance(name := getattr(one, "collection", 0), str)
        )
    elif isinstance(op, Change | Remove) and isinstance(op.query.collection, str):
        yield op.query.collection


def describe_answer(seen: Span, answer: Any) -> None:
    """Say how many records it was about, and what became of a write."""
    seen.set("gen_ai.memory.record.count", records_in(answer))
    if isinstance(answer, Written):
        seen.set("octavo.write.status", answer.status)


def records_in(answer: Any) -> int:
    """How many records a verb wrote or answered; a tally and a queued write say nothing of it."""
    if isinstance(answer, Written):
        return sum(answer.counts)
    if isinstance(answer, list):
        return sum(answer) if answer and isinstance(answer[0], int) else len(answer)
    found = getattr(answer, "found", None)
    return len(found) if isinstance(found, list) else 0
