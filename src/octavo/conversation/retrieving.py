"""Memory by retrieval: every exchange is kept as a document, and those that bear on the input are given back."""

import copy
import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from octavo.conversation.base import BaseMemory
from octavo.conversation.messages import AIMessage, HumanMessage, as_message
from octavo.conversation.recalling import Document, RecallRetriever
from octavo.errors import ConfigError
from octavo.util.user_code import called

log = logging.getLogger("octavo.conversation")
T = TypeVar("T")


class VectorStoreRetrieverMemory(BaseMemory):
    """Exchanges kept through a retriever, and found again by what the input is about.

    A retriever has `invoke` or `get_relevant_documents`, and `add_texts` or `add_documents`, its own or its
    `vectorstore`'s; or it is a `RecallRetriever` over any store. Answers are cached until something is saved or cleared
    here; with `cache_size=0` none are, which is right where others write to the same place.
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
        if not isinstance(cache_size, int) or cache_size < 0:
            raise ConfigError(f"cache_size is a number of answers from 0 on; got {cache_size!r}")
        self.memory_key = memory_key
        self.input_key = input_key
        self.output_key = output_key
        self.return_docs = return_docs
        self.exclude_input_keys = list(exclude_input_keys or [])
        self._retrieval_stats = _nothing_yet()
        self._query_cache: OrderedDict[str, list[Any]] = OrderedDict()
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
        if not any(hasattr(retriever, name) for name in _FIND):
            raise ConfigError(
                f"a retriever has one of {', '.join(_FIND)}; {type(retriever).__name__} has none of them"
            )
        with self._caching:
            self._retriever = retriever
            self._writes += 1
            self._query_cache.clear()

    @property
    def memory_variables(self) -> list[str]:
        """The name under which this memory gives what it found."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The exchanges that bear on the input: as text with their times, or as documents with `return_docs`."""
        return self._wait(self._load(inputs, plain=True))

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """`load_memory_variables`, awaited."""
        return await self._load(inputs, plain=False)

    def save_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Keep one exchange as a document."""
        self._wait(self._save(inputs, outputs, plain=True))

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """`save_context`, awaited."""
        await self._save(inputs, outputs, plain=False)

    def clear(self) -> None:
        """Remove the whole collection behind the retriever, where it can, and forget answers and statistics."""
        self._wait(self._clear(plain=True))

    async def aclear(self) -> None:
        """`clear`, awaited."""
        await self._clear(plain=False)

    def get_retrieval_stats(self) -> dict[str, Any]:
        """What was kept and asked so far; `total_retrievals` are those that no cached answer saved."""
        hits, misses = self._retrieval_stats["cache_hits"], self._retrieval_stats["total_retrievals"]
        return {
            **self._retrieval_stats,
            "cache_hit_rate": hits / max(hits + misses, 1),
            "cache_size": len(self._query_cache),
            "memory_type": "VectorStoreRetrieverMemory",
        }

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            if isinstance(self.retriever, RecallRetriever):
                self.retriever.refuse_deadlock()  # here: on the thread that waits, it could not know
        except RuntimeError:
            work.close()  # or Python warns that it was never awaited
            raise
        return super()._wait(work)

    async def _load(self, inputs: Mapping[str, Any], *, plain: bool) -> dict[str, Any]:
        query = self._said(inputs[self._asked_under(inputs)])
        with self._caching:
            docs = self._query_cache.get(query)
            if docs is not None:
                self._query_cache.move_to_end(query)
                self._retrieval_stats["cache_hits"] += 1
        if docs is None:
            docs = await self._retrieved(query, plain=plain)
        return {self.memory_key: _copies(docs) if self.return_docs else self._format_documents(docs)}

    async def _retrieved(self, query: str, *, plain: bool) -> list[Any]:
        writes, started = self._writes, time.perf_counter()
        docs = list(await _call(self.retriever, _FIND, query, plain=plain))
        seconds = time.perf_counter() - started
        with self._caching:
            stats = self._retrieval_stats
            stats["total_retrievals"] += 1
            surplus = seconds - stats["average_retrieval_time"]
            stats["average_retrieval_time"] += surplus / stats["total_retrievals"]
            # Not when something was saved meanwhile: an answer older than that would be given again and again.
            if writes == self._writes:
                self._query_cache[query] = _copies(docs)
                while len(self._query_cache) > self._cache_max_size:
                    self._query_cache.popitem(last=False)
        return docs

    async def _save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], *, plain: bool) -> None:
        asked = self._said(inputs[self._asked_under(inputs)])
        answered = self._said(outputs[self._answered_under(outputs)], AIMessage)
        content = f"Human: {asked}\nAI: {answered}"
        metadata = {
            "input": asked,
            "output": answered,
            "timestamp": time.time(),
            "conversation_id": self._generate_conversation_id(inputs),
        }
        place = self._place()
        try:
            if _has(place, _ADD):
                await _call(place, _ADD, [content], plain=plain, metadatas=[metadata])
            elif _has(place, _ADD_DOCUMENTS):
                await _call(place, _ADD_DOCUMENTS, [Document(content, metadata)], plain=plain)
            else:
                raise ConfigError(
                    f"nothing can be kept through {type(place).__name__}: it has neither add_texts nor add_documents"
                )
        finally:
            self._forget()  # also when it failed: it may have been kept all the same
        with self._caching:
            self._retrieval_stats["total_contexts_saved"] += 1
            self._retrieval_stats["total_documents_stored"] += 1

    async def _clear(self, *, plain: bool) -> None:
        place = self._place()
        if _has(place, _DELETE):
            await _call(place, _DELETE, plain=plain)
        else:
            log.warning("%s has no delete_collection: what is kept there stays", type(place).__name__)
        self._forget()
        self._retrieval_stats = _nothing_yet()

    def _forget(self) -> None:
        with self._caching:
            self._writes += 1
            self._query_cache.clear()

    def _place(self) -> Any:
        """Where documents are added: the retriever's vector store, or the retriever itself."""
        return getattr(self.retriever, "vectorstore", self.retriever)

    def _asked_under(self, inputs: Mapping[str, Any]) -> str:
        left_out = {self.memory_key, "stop", *self.exclude_input_keys}
        return _key("input_key", self.input_key, [key for key in inputs if key not in left_out], inputs)

    def _answered_under(self, outputs: Mapping[str, Any]) -> str:
        keys = (
            ["output"]
            if self.output_key is None and len(outputs) > 1 and "output" in outputs
            else list(outputs)
        )
        return _key("output_key", self.output_key, keys, outputs)

    def _said(self, value: Any, kind: type[HumanMessage | AIMessage] = HumanMessage) -> str:
        if isinstance(value, str):
            return value
        if hasattr(value, "content"):
            return as_message(value, kind).text
        return json.dumps(value, ensure_ascii=False, default=str)

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
        return hashlib.md5(str(dict(inputs)).encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[
            :8
        ]


_FIND = ("invoke", "get_relevant_documents", "ainvoke", "aget_relevant_documents")
_ADD = ("add_texts", "aadd_texts")
_ADD_DOCUMENTS = ("add_documents", "aadd_documents")
_DELETE = ("delete_collection", "adelete_collection")


def _has(thing: Any, names: Sequence[str]) -> bool:
    return any(hasattr(thing, name) for name in names)


async def _call(thing: Any, names: Sequence[str], *args: Any, plain: bool, **kwargs: Any) -> Any:
    """Call the first of these methods there is: plain ones first for who blocks, awaited ones for who awaits."""
    twins = [name for name in names if name.startswith("a") and name[1:] in names]
    order = [*(name for name in names if name not in twins), *twins] if plain else [*twins, *names]
    method = next(getattr(thing, name) for name in order if hasattr(thing, name))
    # A plain one on another thread: it may wait for a server, and may itself wait for this very loop.
    return await called(method, *args, **kwargs)


def _key(setting: str, given: str | None, candidates: Sequence[str], values: Mapping[str, Any]) -> str:
    if given is None and len(candidates) == 1:
        return candidates[0]
    if given is not None and given in values:
        return given
    named = ", ".join(map(repr, candidates if given is None else values)) or "there are none"
    if given is not None:
        raise ValueError(f"{setting} is {given!r}, and there is no such key: {named}")
    raise ValueError(f"which key holds what was said is not clear: {named}; give {setting} to say it")


def _copies(docs: Sequence[Any]) -> list[Any]:
    """Documents that can be changed without changing what is cached."""
    return copy.deepcopy(list(docs))


def _nothing_yet() -> dict[str, Any]:
    return {
        "total_contexts_saved": 0,
        "total_retrievals": 0,
        "average_retrieval_time": 0.0,
        "total_documents_stored": 0,
        "cache_hits": 0,
    }
