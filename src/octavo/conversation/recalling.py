"""Octavo's own recall as a retriever: exchanges kept in any store, found again by their words and their meaning."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import msgspec

from octavo.conversation.waiting import Housed
from octavo.errors import ConfigError
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.util.attributes import Checked
from octavo.util.sync import Closing

EXCHANGES = "exchanges"


class Document(msgspec.Struct):
    """A piece of text with what is known about it."""

    page_content: str
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    id: str | None = None


def _most(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k is the number of documents to find, from 1 on; got {k!r}")
    return k


class RecallRetriever(Closing):
    """Keeps documents of one user in a store and finds those that answer a question, best first.

    Without `session_id` it looks in all sessions of the user. A store that is opened by its URL can be reached from any
    thread and any event loop; one that is handed in belongs to one loop, and stays open.
    """

    k = Checked(_most)

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

        for name, value in (("user_id", user_id), ("session_id", session_id or ""), ("tenant", tenant)):
            if not isinstance(value, str):
                raise TypeError(f"{name} is a string; got {value!r}"[:300])
        self.k = k
        self._place = Housed(url_or_store)
        self._store = self._place.store
        self._recall = Recall(self._store)
        self._asked = Scope(tenant=tenant, user=user_id, agent="", session=session_id)
        self._kept = Scope(tenant=tenant, user=user_id, agent="", session=session_id or "")

    @property
    def vectorstore(self) -> Self:
        """Where documents are added: here."""
        return self

    def invoke(self, query: str) -> list[Document]:
        """The documents that answer a question best, best first."""
        return self._place.block(self._find(query))

    async def ainvoke(self, query: str) -> list[Document]:
        """`invoke`, awaited."""
        return await self._place.run(self._find(query))

    get_relevant_documents = invoke
    aget_relevant_documents = ainvoke

    def add_texts(self, texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None = None) -> list[str]:
        """Keep texts, all of them or none; answer their ids."""
        return self._place.block(self._add(_documents(texts, metadatas)))

    async def aadd_texts(
        self, texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None = None
    ) -> list[str]:
        """`add_texts`, awaited."""
        return await self._place.run(self._add(_documents(texts, metadatas)))

    def add_documents(self, documents: Iterable[Document]) -> list[str]:
        """Keep documents, all of them or none; answer their ids."""
        return self._place.block(self._add(list(documents)))

    async def aadd_documents(self, documents: Iterable[Document]) -> list[str]:
        """`add_documents`, awaited."""
        return await self._place.run(self._add(list(documents)))

    def delete_collection(self) -> None:
        """Remove every document this retriever can find."""
        self._place.block(self._clear())

    async def adelete_collection(self) -> None:
        """`delete_collection`, awaited."""
        await self._place.run(self._clear())

    def close(self) -> None:
        """Close the store, unless it was handed in; called again, it does nothing."""
        self._place.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self._place.aclose()

    def refuse_deadlock(self) -> None:
        """RuntimeError when the store belongs to the very event loop that would be blocked."""
        self._place.refuse_deadlock()

    async def _find(self, query: str) -> list[Document]:
        hits = await self._recall.recall(query, self._asked, self.k, collections=(EXCHANGES,))
        return [Document(hit.record.text, dict(hit.record.metadata), hit.record.id) for hit in hits]

    async def _add(self, documents: list[Document]) -> list[str]:
        records = [
            Record(
                collection=EXCHANGES,
                scope=self._kept,
                text=document.page_content,
                metadata=dict(document.metadata),
                id=new_id() if document.id is None else document.id,
            )
            for document in documents
        ]
        if records:
            await self._store.apply([Add(records)])
        return [record.id for record in records]

    async def _clear(self) -> None:
        await self._store.apply([Remove(Query(collection=EXCHANGES, scope=self._asked))])


def _documents(texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None) -> list[Document]:
    if isinstance(texts, str):  # it would be kept letter by letter
        raise TypeError(f"texts are a list of strings; got {texts!r}"[:300])
    held = list(texts)
    if metadatas is not None and len(metadatas) != len(held):
        raise ValueError(f"each text has one metadata; got {len(held)} texts and {len(metadatas)} metadatas")
    return [Document(text, {} if metadatas is None else metadatas[at]) for at, text in enumerate(held)]
