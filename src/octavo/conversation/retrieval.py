"""Memory by retrieval: every exchange is kept as a document, and those that bear on the input are given back."""

import copy
import hashlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec

from octavo.conversation.memories import BaseMemory, input_message, log, output_message
from octavo.conversation.store_history import BoundStore, on_store_loop
from octavo.errors import ConfigError
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Query, Record, Remove, check_count
from octavo.kernel.ports import Store
from octavo.kernel.text import pluralize
from octavo.util.cache import Cache, size_of
from octavo.util.sync import as_plain, shared_portal
from octavo.util.user_code import Checked, call_function

EXCHANGES = "exchanges"
_FIND = ("invoke", "get_relevant_documents")
_NO_STATS: Mapping[str, Any] = {
    "total_contexts_saved": 0,
    "total_retrievals": 0,
    "average_retrieval_time": 0.0,
    "total_documents_stored": 0,
    "cache_hits": 0,
}


class Document(msgspec.Struct):
    """A piece of text with what is known about it."""

    page_content: str
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    id: str | None = None


class RecallRetriever(BoundStore):
    """Keeps documents of one user in a store and finds those that answer a question, best first.

    Without `session_id` it looks in all sessions of the user. A store that is opened by its URL can be reached from any
    thread and any event loop; one that is handed in belongs to one loop, and stays open.
    """

    k = Checked(lambda k: check_count(k, "k is the number of documents to find, from 1 on", ConfigError, 1))

    def __init__(
        self,
        url_or_store: str | Store,
        user_id: str = "default_user",
        session_id: str | None = None,
        *,
        k: int = 4,
        tenant: str = "",
    ) -> None:
        from octavo.search.recall import Recall  # takes time to load, which only who recalls should spend

        self.k = k
        super().__init__(url_or_store, user_id, session_id, tenant)
        self._recall = Recall(self._store)

    @property
    def vectorstore(self) -> Self:
        """Where documents are added: here."""
        return self

    @on_store_loop
    async def ainvoke(self, query: str) -> list[Document]:
        """The documents that answer a question best, best first."""
        hits = await self._recall.recall(query, self._scope, self.k, collections=(EXCHANGES,))
        return [Document(hit.record.text, dict(hit.record.metadata), hit.record.id) for hit in hits]

    async def aadd_texts(
        self, texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None = None
    ) -> list[str]:
        """Keep texts, all of them or none; answer their ids."""
        if isinstance(texts, str):  # it would be kept letter by letter
            raise TypeError(f"texts are a list of strings; got {texts!r}"[:300])
        held = list(texts)
        given = [{} for _ in held] if metadatas is None else list(metadatas)
        if len(given) != len(held):
            raise ValueError(
                f"each text has one metadata; got {pluralize(len(held), 'text')} and {len(given)} metadata"
            )
        return await self.aadd_documents(map(Document, held, given))

    @on_store_loop
    async def aadd_documents(self, documents: Iterable[Document]) -> list[str]:
        """Keep documents, all of them or none; answer their ids."""
        scope = msgspec.structs.replace(self._scope, session=self._scope.session or "")
        records = [
            Record(
                collection=EXCHANGES,
                scope=scope,
                text=document.page_content,
                metadata=dict(document.metadata),
                id=new_id() if document.id is None else document.id,
            )
            for document in documents
        ]
        if records:
            await self._store.apply([Add(records)])
        return [record.id for record in records]

    @on_store_loop
    async def adelete_collection(self) -> None:
        """Remove every document this retriever can find."""
        await self._store.apply([Remove(Query(collection=EXCHANGES, scope=self._scope))])

    invoke = get_relevant_documents = as_plain(ainvoke)
    aget_relevant_documents = ainvoke
    add_texts = as_plain(aadd_texts)
    add_documents = as_plain(aadd_documents)
    delete_collection = as_plain(adelete_collection)


class VectorStoreRetrieverMemory(BaseMemory):
    """Exchanges kept through a retriever, and found again by what the input is about.

    A retriever has `invoke` or `get_relevant_documents`, and `add_texts` or `add_documents`, its own or its
    `vectorstore`'s; or it is a `RecallRetriever` over any store. Answers are cached until something is saved or cleared
    here; with `cache_size=0` none are, which is right where others write there too.
    """

    def __init__(
        self,
        retriever: Any,
        memory_key: str = "history",
        input_key: str | None = None,
        return_docs: bool = False,
        exclude_input_keys: Sequence[str] | None = None,
        output_key: str | None = None,
        cache_size: int = 100,
    ) -> None:
        if isinstance(exclude_input_keys, str):  # it would be taken letter by letter
            raise TypeError(f"exclude_input_keys is a list of names; got {exclude_input_keys!r}")
        check_count(cache_size, "cache_size is a number of answers from 0 on", ConfigError)
        self.memory_key = memory_key
        self.input_key = input_key
        self.output_key = output_key
        self.return_docs = return_docs
        self.exclude_input_keys = list(exclude_input_keys or [])
        self._retrieval_stats = dict(_NO_STATS)
        self._query_cache: Cache[str, list[Any]] = Cache(cache_size)
        self._cache_max_size = cache_size
        self._writes = 0
        self._caching = threading.Lock()  # blocking and awaiting callers are on different threads
        self.retriever = retriever

    @property
    def retriever(self) -> Any:
        """Where exchanges are kept and found; assigning another forgets the answers of the one before."""
        return self._retriever

    @retriever.setter
    def retriever(self, retriever: Any) -> None:
        if _method(retriever, *_FIND) is None:
            raise ConfigError(
                f"a retriever has one of {', '.join(_FIND)} or a twin to await; {type(retriever).__name__} has none of them"
            )
        self._retriever = retriever
        self._forget_answers()

    @property
    def memory_variables(self) -> list[str]:
        """The name under which this memory gives what it found."""
        return [self.memory_key]

    def refuse_deadlock(self) -> None:
        """RuntimeError when the retriever lives on the very event loop that would be blocked."""
        if isinstance(self.retriever, RecallRetriever):
            self.retriever.refuse_deadlock()

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The exchanges that bear on the input: as text with their times, or as documents with `return_docs`."""
        query = self._question(inputs)
        docs = self._query_cache.get(query)
        if docs is None:
            docs = await self._aretrieve(query)
        else:
            with self._caching:
                self._retrieval_stats["cache_hits"] += 1
        # Copies: what is given may be changed without changing what is cached.
        return {self.memory_key: copy.deepcopy(docs) if self.return_docs else self._format_documents(docs)}

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Keep one exchange as a document."""
        asked, answered = self._question(inputs), output_message(outputs, self.output_key).text
        content = f"Human: {asked}\nAI: {answered}"
        metadata = {
            "input": asked,
            "output": answered,
            "timestamp": time.time(),
            "conversation_id": self._generate_conversation_id(inputs),
        }
        target = self._target()
        try:
            if add := _method(target, "add_texts"):
                await call_function(add, [content], metadatas=[metadata])
            elif add := _method(target, "add_documents"):
                await call_function(add, [Document(content, metadata)])
            else:
                raise ConfigError(
                    f"nothing can be kept through {type(target).__name__}: it has neither add_texts nor add_documents"
                )
        finally:
            self._forget_answers()  # also when it failed: it may have been kept all the same
        with self._caching:
            self._retrieval_stats["total_contexts_saved"] += 1
            self._retrieval_stats["total_documents_stored"] += 1

    async def aclear(self) -> None:
        """Remove the whole collection behind the retriever, where it can, and forget answers and statistics."""
        target = self._target()
        if delete := _method(target, "delete_collection"):
            await call_function(delete)
        else:
            log.warning("%s has no delete_collection: what is kept there stays", type(target).__name__)
        self._forget_answers()
        self._retrieval_stats = dict(_NO_STATS)

    def get_retrieval_stats(self) -> dict[str, Any]:
        """What was kept and asked so far; `total_retrievals` are those that no cached answer saved."""
        hits, misses = self._retrieval_stats["cache_hits"], self._retrieval_stats["total_retrievals"]
        return {
            **self._retrieval_stats,
            "cache_hit_rate": hits / max(hits + misses, 1),
            "cache_size": len(self._query_cache),
            "memory_type": "VectorStoreRetrieverMemory",
        }

    async def _aretrieve(self, query: str) -> list[Any]:
        writes, started = self._writes, time.perf_counter()
        docs = list(await call_function(_method(self.retriever, *_FIND), query))
        seconds = time.perf_counter() - started
        with self._caching:
            stats = self._retrieval_stats
            stats["total_retrievals"] += 1
            surplus = seconds - stats["average_retrieval_time"]
            stats["average_retrieval_time"] += surplus / stats["total_retrievals"]
            # Not when something was saved meanwhile: an answer older than that would be given again and again.
            if writes == self._writes:
                texts = (doc.page_content for doc in docs)
                self._query_cache.put(query, copy.deepcopy(docs), size_of(query, *texts))
        return docs

    def _forget_answers(self) -> None:
        with self._caching:
            self._writes += 1
            self._query_cache.clear()

    def _target(self) -> Any:
        """Where documents are added: the retriever's vector store, or the retriever itself."""
        return getattr(self.retriever, "vectorstore", self.retriever)

    def _question(self, inputs: Mapping[str, Any]) -> str:
        return input_message(inputs, self.input_key, (self.memory_key, "stop", *self.exclude_input_keys)).text

    def _format_documents(self, docs: Sequence[Any]) -> str:
        """Documents as text, each with the time it was kept at, where that is known."""
        shown = []
        for doc in docs:
            kept_at = (doc.metadata or {}).get("timestamp")
            if isinstance(kept_at, int | float):
                at = datetime.fromtimestamp(kept_at).astimezone()
                shown.append(f"[{at:%Y-%m-%d %H:%M}] {doc.page_content}")
            else:
                shown.append(doc.page_content)
        return "\n\n".join(shown)

    def _generate_conversation_id(self, inputs: Mapping[str, Any]) -> str:
        said = str(dict(inputs)).encode("utf-8", "replace")
        return hashlib.md5(said, usedforsecurity=False).hexdigest()[:8]


def _method(thing: Any, *verbs: str) -> Any:
    """The first of these methods that there is: plain ones first for who blocks, their awaited twins for who awaits.

    A plain one is called on another thread: it may wait for a server, and may itself wait for this very loop.
    """
    twins = tuple(f"a{verb}" for verb in verbs)
    order = verbs + twins if shared_portal().is_here else twins + verbs
    return next((getattr(thing, name) for name in order if hasattr(thing, name)), None)
