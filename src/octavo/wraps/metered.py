"""A store that counts and times what is asked of it: what `/metrics` and traces are made from.

Spans are named as OpenTelemetry names what is done to memories. A write is `create_memory`, `update_memory`, `delete_memory`, or
`upsert_memory` when it is several of them; the rows of the log that go with it do not count. `gen_ai.memory.store.id` is the
collection. Reads that answer no question are `octavo.store.find` and so on. What records hold, and their ids, in which people
may be named, are told only where contents are wanted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from octavo import errors
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Tally
from octavo.kernel.ports import Store, Written
from octavo.util.metrics import OTHER, Family, Meter
from octavo.util.tracing import Span, is_tracing, span
from octavo.wraps.wrap import Wrap

T = TypeVar("T")
STORE_SECONDS = "octavo_store_seconds"
STORE_ERRORS = "octavo_store_errors_total"
STORE_RECORDS = "octavo_store_records_total"
RECALL_SECONDS = "octavo_recall_seconds"
#: What this wrap counts.
STORE_FAMILIES = (
    Family(
        STORE_SECONDS,
        "histogram",
        "How long the verbs of the store took, the queue in front of it included; failed ones too.",
        ("verb", "face"),
    ),
    Family(STORE_ERRORS, "counter", "Verbs of the store that failed, by class of error.", ("verb", "error")),
    Family(STORE_RECORDS, "counter", "Records that were written or answered.", ("verb", "face")),
    Family(RECALL_SECONDS, "histogram", "How long each stage of answering a question took.", ("stage",)),
)
#: Which face writes a collection.
FACES: Mapping[str, str] = {
    "events": "events",
    **dict.fromkeys(("messages", "summaries"), "chat"),
    **dict.fromkeys(("entities", "exchanges"), "conversation"),
    **dict.fromkeys(("observations", "turns"), "service"),
    **dict.fromkeys(("configs", "knowledge", "versions"), "vault"),
    **dict.fromkeys(("profile", "episodes", "log", "owners"), "layers"),
    **dict.fromkeys(("graph_nodes", "graph_edges"), "mcp"),
    **dict.fromkeys(("items", "checkpoints"), "langgraph"),
    **dict.fromkeys(("vectors", "pending"), "vectors"),
    "keys": "keys",
    "erasures": "erasing",
}
_READ = ("heads", "names", "search")  # each asks for one collection first
_NAMES: dict[Any, str] = {Add: "create_memory", Change: "update_memory", Remove: "delete_memory"}
_LOG = "log"
_MOST_RECORDS = 100  # whose contents one span holds


class Metered(Wrap):
    """Counts and times the verbs, by the face whose records they are about; `meter` holds the numbers.

    Outermost, so that what a caller waits for is what is measured. A recall tells it how long its stages took.
    """

    def __init__(self, store: Store, meter: Meter | None = None, *, owned: bool = True) -> None:
        super().__init__(store, owned=owned)
        self.meter = meter or Meter()
        for name in (*_READ, "find_within", "resembling", "write"):
            if callable(verb := getattr(store, name, None)):
                self.__dict__[name] = self._wrap_verb("find" if name == "find_within" else name, verb)

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        counts: list[int] = await self._measure("apply", _face_of_ops(ops), ops, self.inner.apply(ops))
        return counts

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        found: list[Record] = await self._measure("find", _face(query), query, self.inner.find(query))
        return found

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        counted: Tally = await self._measure("tally", _face(query), query, self.inner.tally(query))
        return counted

    def recalled(self, stages: Mapping[str, float]) -> None:
        """Be told how many milliseconds each stage of a recall took."""
        for stage, milliseconds in stages.items():
            self.meter.time(RECALL_SECONDS, (stage,), milliseconds / 1000)

    def _wrap_verb(self, verb: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The verb of the store inside, measured."""

        async def measuring(*args: Any, **named: Any) -> Any:
            return await self._measure(verb, _call_face(verb, args), args and args[0], call(*args, **named))

        return measuring

    def _measure(self, verb: str, face: str, asked: Any, work: Awaitable[T]) -> Awaitable[T]:
        timed = _time(self.meter, (verb, face), work)
        return _trace(verb, asked, timed) if is_tracing() else timed


async def _trace(verb: str, asked: Any, work: Awaitable[T]) -> T:
    with _verb_span(verb, asked) as seen:
        answer = await work
        seen.set("gen_ai.memory.record.count", _records_in(answer))
        if isinstance(answer, Written):
            seen.set("octavo.write.status", answer.status)
    return answer


async def _time(meter: Meter, labels: tuple[str, str], work: Awaitable[T]) -> T:
    started = time.perf_counter()
    try:
        answer = await work
    except BaseException as error:
        meter.count(STORE_ERRORS, (labels[0], error_class(error)))
        raise
    finally:
        meter.time(STORE_SECONDS, labels, time.perf_counter() - started)
    if count := _records_in(answer):
        meter.count(STORE_RECORDS, labels, count)
    return answer


def error_class(error: BaseException) -> str:
    """The class of an error as Octavo documents it, of which there are few."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return next((one.__name__ for one in type(error).__mro__ if one.__module__ == errors.__name__), OTHER)


def _face(asked: Any) -> str:
    """Whose a collection is; it may be anything, since it is the store that checks what it is asked."""
    name = asked if isinstance(asked, str) else getattr(asked, "collection", None)
    return FACES.get(name, OTHER) if isinstance(name, str) else OTHER


def _face_of_ops(ops: Sequence[Op]) -> str:
    first = ops[0] if isinstance(ops, list | tuple) and ops else None
    if isinstance(first, Add):
        return _face(first.records[0]) if isinstance(first.records, list | tuple) and first.records else OTHER
    return _face(getattr(first, "query", None))


def _call_face(verb: str, args: tuple[Any, ...]) -> str:
    if verb == "write":
        return _face_of_ops(args[0]) if args else OTHER
    if verb == "resembling":  # text, scope, collections, limit
        return _face(args[2][0]) if len(args) > 2 and args[2] else OTHER
    return _face(args[0]) if args else OTHER


# --- spans


def _verb_span(verb: str, asked: Any) -> Span:
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


def _records_in(answer: Any) -> int:
    """How many records a verb wrote or answered; a tally and a queued write say nothing of it."""
    if isinstance(answer, Written):
        return sum(answer.counts)
    if isinstance(answer, list):
        return sum(answer) if answer and isinstance(answer[0], int) else len(answer)
    found = getattr(answer, "found", None)
    return len(found) if isinstance(found, list) else 0
