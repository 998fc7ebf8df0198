"""LangGraph's store: values by namespace and key, found by words, by meaning where there are vectors, and by filters."""

import asyncio
import contextlib
import itertools
import operator
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from langgraph.store.base import (  # type: ignore[import-not-found]
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from octavo.conversation.store_history import BoundStore, on_store_loop
from octavo.errors import ConfigError, Conflict, InvalidRecord, StoreUnavailable
from octavo.integrations.langgraph.items import (
    ITEMS,
    Namespace,
    end_of,
    first_written_at,
    is_wanted,
    is_within,
    join,
    list_below,
    list_namespaces,
    matches,
    namespace_of,
    to_item,
    to_record,
    with_birth,
    with_vectors,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.search.hits import Hit
from octavo.search.recall import MOST_HITS, Recall
from octavo.stores.base import BaseStore as KernelStore
from octavo.stores.gather import Gathering

Puts: TypeAlias = dict[tuple[Namespace, str], PutOp]
_FEW = 32  # namespaces that are asked one by one; of more, all items are looked through
_MARGIN = 5  # times as many are recalled where a filter may drop some
_SETTLE_SECONDS = 10.0
_MOST_PUTS = 1000  # that are written together
_PAGE = 200  # items that are read at once where a filter has dropped some


class OctavoStore(BoundStore, BaseStore):  # type: ignore[misc] # its types are not there without LangGraph
    """Items in a store, which a URL names or is handed in; one handed in stays open.

    `index` is LangGraph's: `{"embed": …, "fields": […]}` finds by meaning with these embeddings; without it, a store that has
    vectors does. `ttl` is LangGraph's too. With a `user_id`, all items are that user's, and are forgotten with him.
    """

    supports_ttl = True

    def __init__(
        self,
        url_or_store: str | Store,
        *,
        user_id: str = "",
        tenant: str = "",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        if index and not isinstance(url_or_store, str):
            raise ConfigError("a store that is handed in is used as it is; give its URL with index")
        BoundStore.__init__(self, url_or_store, user_id, None, tenant)
        self._indexed = with_vectors(self._store, index, ITEMS) if index else None
        self._store = self._indexed or self._store
        self.ttl_config = ttl
        self._fields = [str(field) for field in (index or {}).get("fields") or ["$"]]
        self._recall = Recall(self._store)
        # What a journal has queued is done later, whatever it expected: there nothing can be tried first.
        self._tries_new = isinstance(self._store, KernelStore)
        self._putting: Gathering[Puts, None] = Gathering(self._put_all, _MOST_PUTS, len)

    @on_store_loop
    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Answer all reads, then do all writes in one transaction; of two writes to one key, the last one is done."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
            if isinstance(op, PutOp) and not isinstance(op.value, dict | None):
                raise InvalidRecord(f"value must be a dict, such as {{'text': …}}; got {op.value!r}"[:200])
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        only_puts = all(isinstance(op, PutOp) for op in asked)
        answers = [None] * len(asked) if only_puts else await asyncio.gather(*map(self._answer, asked))
        if puts:
            await self._putting.submit(puts)
        return list(answers)

    @on_store_loop
    async def asweep_ttl(self) -> int:
        """Remove what has expired, which nobody sees any more; answer how many items that were."""
        query = Query(collection=ITEMS, scope=self._scope, expired_at=now())
        return sum(await self._store.apply([Remove(query)]))

    def sweep_ttl(self) -> int:
        """`asweep_ttl`, for callers who block."""
        return self._wait(self.asweep_ttl())

    async def _answer(self, op: Any) -> Any:
        if isinstance(op, GetOp):
            found = await self._store.find(self._query(op.namespace, op.key))
            await self._refresh(found, op.refresh_ttl)
            return Item(**to_item(found[0])) if found else None
        if isinstance(op, SearchOp):
            hits = await (self._recall_items(op) if op.query else self._list(op))
            shown = hits[op.offset : op.offset + op.limit]
            await self._refresh([record for record, _ in shown], op.refresh_ttl)
            return [SearchItem(**to_item(record), score=score) for record, score in shown]
        if isinstance(op, ListNamespacesOp):
            conditions = op.match_conditions or ()
            names = await list_namespaces(self._store, self._scope)
            meant = {
                name[: op.max_depth] for name in names if all(matches(each, name) for each in conditions)
            }
            return sorted(meant)[op.offset : op.offset + op.limit]
        if isinstance(op, PutOp):
            return None
        raise ValueError(f"Unknown operation type: {type(op)}")

    async def _put_all(self, callers: list[Puts]) -> list[None]:
        """Do the writes of all who wait, in one transaction; where callers write one key, the last one's is done."""
        puts: Puts = {}
        for name, op in (put for each in callers for put in each.items()):
            puts.pop(name, None)  # or it would stand in the place of the one before
            puts[name] = op
        at = now()
        records = [
            to_record(op, self._scope_of(op.namespace), at, self._fields)
            for op in puts.values()
            if op.value is not None
        ]
        if self._tries_new and len(records) == len(puts):
            # Most items are new, and then that is all there is to do. Of a caller's several writes all are done or none.
            alone = all(len(each) == 1 for each in callers)
            with contextlib.suppress(Conflict):
                added = await self._store.apply([Add(records, expect=None if alone else len(records))])
                if added == [len(records)]:
                    return [None] * len(callers)
        born = await self._find_first_writes(puts)
        written = [with_birth(record, born.get(record.key, at)) for record in records]
        # Written anew rather than changed, an item stands where the last ones are looked for.
        ops: list[Op] = [Remove(self._query(*name, alive=False)) for name in puts]
        await self._store.apply([*ops, Add(written)])
        return [None] * len(callers)

    async def _find_first_writes(self, puts: Puts) -> dict[tuple[str, str], datetime]:
        """When each item that is there already was first written; not known while the store is away."""
        keys: dict[Namespace, list[str]] = {}
        for namespace, key in puts:
            keys.setdefault(namespace, []).append(key)
        queries = [
            msgspec.structs.replace(self._query(namespace, alive=False), ids=tuple(names))
            for namespace, names in keys.items()
        ]
        with contextlib.suppress(StoreUnavailable):
            pages = await asyncio.gather(*map(self._store.find, queries))
            return {record.key: first_written_at(record) for page in pages for record in page}
        return {}

    async def _list(self, op: SearchOp) -> list[tuple[Record, None]]:
        """What passes the filter, last written first."""
        prefix = op.namespace_prefix
        whole = Query(collection=ITEMS, scope=self._scope, alive_at=now())
        if not prefix:
            found = await self._find_last(whole, op)
        else:  # what stands below is looked for meanwhile
            found, names = await asyncio.gather(
                self._find_last(self._query(prefix), op), list_below(self._store, self._scope, prefix, _FEW)
            )
            if len(names) > _FEW:
                found = await self._find_last(whole, op)
            elif len(names) > 1:
                pages = await asyncio.gather(*(self._find_last(self._query(name), op) for name in names[1:]))
                found = sorted(itertools.chain(found, *pages), key=operator.attrgetter("rank"), reverse=True)
        return [(record, None) for record in found]

    async def _find_last(self, query: Query, op: SearchOp) -> list[Record]:
        """As many as are asked for of those that pass the filter, last written first; older ones are not read."""
        wanted = op.offset + op.limit
        query = msgspec.structs.replace(query, newest_first=True, limit=wanted)
        found: list[Record] = []
        while wanted > len(found):
            page = await self._store.find(query)
            found += [record for record in page if self._is_meant(record, op)]
            if len(page) < (query.limit or 0):
                break
            query = msgspec.structs.replace(query, after=page[-1].cursor, limit=max(wanted, _PAGE))
        return found[:wanted]

    async def _recall_items(self, op: SearchOp) -> list[tuple[Record, float]]:
        """What answers the question and passes the filter, best first, with how likely it does."""
        if self._indexed is not None:  # what was just written is found by meaning too
            with contextlib.suppress(TimeoutError):
                await self._indexed.settle(_SETTLE_SECONDS)
        wanted = min((op.offset + op.limit) * _MARGIN, MOST_HITS)
        found = await self._recall.answer(
            op.query, await self._queries_below(op.namespace_prefix), wanted, explain=True
        )
        return [
            (hit.record, found.likelihood(hit))
            for hit in found
            if self._is_meant(hit.record, op) and (found.overview or _answers(hit))
        ]

    def _is_meant(self, record: Record, op: SearchOp) -> bool:
        return is_within(namespace_of(record), op.namespace_prefix) and is_wanted(
            record.data["value"], op.filter or {}
        )

    async def _queries_below(self, prefix: Namespace) -> list[Query]:
        """Where the items in and below a namespace are."""
        names = await list_below(self._store, self._scope, prefix, _FEW) if prefix else []
        if not prefix or len(names) > _FEW:
            return [Query(collection=ITEMS, scope=self._scope, alive_at=now())]
        return [self._query(name) for name in names]

    async def _refresh(self, records: Sequence[Record], wanted: bool) -> None:
        """Let what was read live on as long as it was to live when it was written."""
        at = now()
        ops = [
            Change(
                query=self._query(namespace_of(record), record.id),
                expires_at=end_of(at, minutes),
                updated_at=record.updated_at or at,
            )
            for record in records
            if wanted and (minutes := record.data.get("ttl_minutes")) is not None
        ]
        if ops:
            await self._store.apply(ops)

    def _query(self, namespace: Namespace, key: str | None = None, *, alive: bool = True) -> Query:
        ids = None if key is None else (key,)
        at = now() if alive else None
        return Query(collection=ITEMS, ids=ids, scope=self._scope_of(namespace), alive_at=at)

    def _scope_of(self, namespace: Namespace) -> Scope:
        whose = self._scope
        return Scope(tenant=whose.tenant, user=whose.user, agent="", session=join(namespace))


def _answers(hit: Hit) -> bool:
    """Whether it says something of what was asked; what merely stands beside such an item does not."""
    near = any(signal.name == "vector" and signal.rank for signal in hit.signals)
    return bool(hit.terms or hit.topics or near)
