"""One search over everything of somebody, as it is or was at a moment: facts, messages, observations, agent events, documents."""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.codec import check_name
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Head, Op, Query, Record, Scope, Tally, check_count, exact_scope
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import Searches, Store
from octavo.kernel.terms.matches import Matches
from octavo.kernel.terms.terms import is_unspaced, terms
from octavo.kernel.text import content
from octavo.layers import checking
from octavo.layers.reading import LATEST, records_as_of
from octavo.layers.records import COLLECTIONS
from octavo.layers.values import DEFAULT_USER
from octavo.search.hits import Hit, Hits, MemoryHit, Recalled
from octavo.search.question import Filters, queries
from octavo.search.recall import MOST_HITS, Recall
from octavo.stores.memory import MemoryStore
from octavo.wraps.wrap import Wrap

#: Where messages are kept when no session is named.
DEFAULT_SESSION = "default_session"
#: What can be searched, and the collections it is kept in.
SOURCES = MappingProxyType({
    "facts": ("profile", "episodes", "entities"),
    "messages": ("messages", "exchanges"),
    "observations": ("observations",),
    "events": ("events",),
    "documents": ("configs", "knowledge"),
})  # fmt: skip
SOURCE_OF = {collection: source for source, collections in SOURCES.items() for collection in collections}
_WORD = re.compile(r"[a-z]+")  # whose term may be its stem
_SPARE = 10  # hits asked for beyond twice the limit: a fact and its sentence are one
_SHOWN_TERMS = 5
_WITH_NEIGHBOURS = 3  # messages whose neighbours are shown in a context
_BEST = 8  # hits that come before them: where the budget is small, another hit is worth more than a neighbour
#: What is written over when it changes: nobody can say any more what it was, so it is left out if it changed since.
_REWRITTEN = ("summaries", "entities", "configs", "knowledge")
_TICK = timedelta(microseconds=1)
_LONG = 400  # characters; of a longer sentence the facts are shown instead


class Whose(msgspec.Struct, frozen=True):
    """Whose memory is meant. Without a user it is the agent's own; without either, the default user's.

    What was kept in a session for no user at all is part of that session for whoever names no user.
    """

    tenant: str = ""
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    everyone: bool = False

    def __post_init__(self) -> None:
        for name in ("user_id", "agent_id", "session_id"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise InvalidQuery(f"{name} must be a name; got {value!r}"[:200])
        if self.everyone and (self.user_id or self.agent_id or self.session_id):
            raise InvalidQuery("give user_id, agent_id or session_id, or everyone=True, not both")

    def check_storable(self) -> None:
        """InvalidRecord if nothing can be kept under one of the names; to ask for one just finds nothing."""
        for name in ("user_id", "agent_id", "session_id"):
            check_name(name, getattr(self, name) or "")

    @property
    def owner(self) -> dict[str, Any]:
        """The one owner of facts, as the layers are told it."""
        if self.user_id is None and self.agent_id is not None:
            return {"agent_id": self.agent_id}
        return {"user_id": self.user_id or DEFAULT_USER}

    @property
    def owner_scope(self) -> Scope:
        """Where the owner's facts are."""
        return Scope(tenant=self.tenant, **{key[:-3]: name for key, name in self.owner.items()})

    @property
    def learnt_in(self) -> dict[str, str]:
        """What a fact's metadata says of where it was learnt, beside its owner."""
        named = {"agent_id": self.agent_id, "session_id": self.session_id}
        return {name: value for name, value in named.items() if value and name not in self.owner}

    @property
    def talk(self) -> Scope:
        """Where the messages of the session are: with no agent named, where the chat face keeps them."""
        user, session = self.owner.get("user_id", ""), self.session_id or DEFAULT_SESSION
        return Scope(tenant=self.tenant, user=user, agent=self.agent_id or "", session=session)

    def scopes(self) -> list[Scope]:
        """Where to look: one scope, or two for a session that is nobody's and the default user's alike."""
        if self.everyone:
            return [Scope(tenant=self.tenant)]
        users = [self.user_id or ("" if self.agent_id else DEFAULT_USER)]
        if self.user_id is None and self.agent_id is None and self.session_id is not None:
            users.append("")
        return [
            Scope(tenant=self.tenant, user=user, agent=self.agent_id, session=self.session_id)
            for user in users
        ]

    def queries(
        self,
        at: datetime,
        sources: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Query]:
        """One query for each collection of the sources, in each scope."""
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidQuery(f"metadata must be a dict, such as {{'from': 'mail'}}; got {metadata!r}"[:200])
        since, until = checking.span(since, until)
        asked: list[Query] = []
        wide: Filters = {"since": since, "until": until, "everyone": self.everyone}
        for source in _check_sources(sources):
            for scope in self.scopes():
                where = dict(metadata or {})
                if source == "facts":
                    # They belong to their owner; where they were learnt is in their metadata.
                    where |= self.learnt_in
                    agent = scope.agent if "agent_id" in self.owner else None
                    scope = msgspec.structs.replace(scope, session=None, agent=agent)  # noqa: PLW2901
                filters: Filters = {**wide, "collections": SOURCES[source], "where": where}
                asked += queries(scope, at, filters)
        return asked


def _check_sources(sources: Sequence[str] | None) -> tuple[str, ...]:
    if sources is None:
        return tuple(SOURCES)
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    for name in named:
        if name not in SOURCES:
            raise InvalidQuery(f"unknown source {name!r}; known: {', '.join(SOURCES)}")
    if not named:
        raise InvalidQuery(f"sources names nothing to search; known: {', '.join(SOURCES)}")
    return tuple(dict.fromkeys(named))


def check_limit(limit: int) -> None:
    """Refuse what is no number of hits or rows."""
    check_count(limit, "limit must be a number, 0 or more")


async def search(
    recall: Recall, question: str, asked: Sequence[Query], limit: int, max_bytes: int | None = None
) -> Hits:
    """The hits of a question, best first; of a fact and the sentence it was made from, the better one."""
    check_limit(limit)
    wanted = min(limit * 2 + _SPARE, MOST_HITS) if limit else 0
    found = await recall.answer(question, asked, wanted, explain=True, max_bytes=checking.room(max_bytes))
    spelled = {term: word for word in _WORD.findall(question.lower()) for term in terms(word)}
    shown = [_tell_hit(hit, found.likelihood(hit), _reason(hit, found, spelled)) for hit in dedupe(found)]
    return Hits(
        shown[:limit],
        probably_absent=found.probably_absent,
        notes=found.notes,
        left_out=found.left_out,
    )


def dedupe(found: Recalled) -> list[Hit]:
    """The hits without those that say again what another one says: of a fact and its newest sentence there is one.

    It is the sentence, which has every detail, unless it is long, the fact has more of what was asked, or all that is
    known was asked for. A fact stands before the sentences that it has overtaken.
    """
    sentences = {hit.record.id: hit for hit in found if not sources_of(hit.record)}
    overtaking = {source: hit for hit in reversed(found) for source in sources_of(hit.record)[:-1]}
    ordered: list[Hit] = []
    for hit in found:
        newest = sentences.get("".join(sources_of(hit.record)[-1:]))
        if newest is not None and not found.overview and _says_all(newest, hit):
            ordered.append(msgspec.structs.replace(newest, score=max(newest.score, hit.score)))
        if hit.record.id in overtaking:
            ordered.append(msgspec.structs.replace(overtaking[hit.record.id], score=hit.score))
        ordered.append(hit)
    seen = Seen()
    return [hit for hit in ordered if seen.adds(hit.record)]


async def with_neighbours(
    store: Store, hits: Sequence[Hit], profile: Sequence[Record], at: datetime
) -> list[Record]:
    """The records of the hits, best first; after the best come the turns before and after the first messages among them.

    The answer to a question often stands next to the words it is asked with. What the profile tells is left to it.
    """
    spoken = [hit.record for hit in hits if hit.collection == "messages" and hit.record.scope.session]
    turns = [(said, earlier) for said in spoken[:_WITH_NEIGHBOURS] for earlier in (False, True)]
    pages = await asyncio.gather(*[_neighbour(store, one, at, earlier=earlier) for one, earlier in turns])
    found = [hit.record for hit in hits]
    told = {source for fact in profile for source in sources_of(fact)[-1:]}
    found[_BEST:_BEST] = [turn for page in pages for turn in page if turn.id not in told]
    return list({(record.collection, *record.key): record for record in found}.values())


async def _neighbour(store: Store, said: Record, at: datetime, *, earlier: bool) -> list[Record]:
    """The message before or after one in its session."""
    query = Query(
        collection="messages", scope=exact_scope(said.scope), alive_at=at, after=said.cursor,
        newest_first=earlier, limit=1,
    )  # fmt: skip
    return await store.find(query)


def _says_all(sentence: Hit, fact: Hit) -> bool:
    """Whether a sentence may stand for a fact that was made of it."""
    return len(sentence.record.text) <= _LONG and {*sentence.terms, *sentence.topics} >= {
        *fact.terms,
        *fact.topics,
    }


class Seen:
    """What was shown already, so that nothing is said twice: not a text, and not a fact beside its sentence.

    But a fact of `standing` is said even so: what it has overtaken may be shown too, and would be the last word.
    """

    def __init__(self, texts: Iterable[str] = (), standing: Collection[str] = ()) -> None:
        self._ids: set[str] = set()
        self._standing = standing
        self._texts = set(map(_fold, texts))
        self._sentences: set[str] = set()  # those whose facts were shown

    def adds(self, record: Record) -> bool:
        """Whether the record says something new; then it is shown."""
        text = _fold(content(record.text, record.data))
        newest = sources_of(record)[-1:]
        if text in self._texts:
            self._ids.add(record.id)  # what it says is shown, so its facts need not be
            return False
        if record.id in self._ids or record.id in self._sentences:
            return False
        if self._ids.intersection(newest) and record.id not in self._standing:
            return False
        self._ids.add(record.id)
        self._texts.add(text)
        self._sentences.update(newest)
        return True


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def sources_of(record: Record) -> tuple[str, ...]:
    """The ids of what a fact was made from, the newest last; nothing for whatever is no fact."""
    return tuple(record.data.get("sources") or ()) if record.collection in SOURCES["facts"] else ()


def _tell_hit(hit: Hit, score: float, why: str) -> MemoryHit:
    record, scope = hit.record, hit.record.scope
    return MemoryHit(
        id=record.id,
        text=content(record.text, record.data),
        score=score,
        why=why,
        when=record.updated_at or record.created_at,
        source=SOURCE_OF[hit.collection],
        kind=record.kind,
        user_id=scope.user or None,
        agent_id=scope.agent or None,
        session_id=scope.session or None,
        metadata=record.metadata,
        sources=sources_of(record),
    )


def _reason(hit: Hit, found: Recalled, spelled: Mapping[str, str]) -> str:
    """Why it is a hit, in a few words: those of the question, and not their stems."""
    # Of a pair of characters and the two by themselves, the pair says more.
    words = sorted(hit.terms, key=lambda term: is_unspaced(term) and len(term) == 1)[:_SHOWN_TERMS]
    words = list(dict.fromkeys(spelled.get(term, term) for term in words))
    reasons = [f"says {', '.join(words)}"] if words else []
    reasons += [f"is about {', '.join(hit.topics)}"] if hit.topics else []
    for signal in hit.signals:
        if signal.name == "vector" and signal.rank and found.trust:
            reasons.append(f"number {signal.rank} by meaning")
        elif signal.name == "rerank" and signal.rank:
            reasons.append(f"number {signal.rank} when read again")
        elif signal.name == "alike" and signal.score and not reasons:
            reasons.append("says it in other words")
        elif signal.name == "later" and signal.score and not hit.terms:
            reasons.append("goes on about the best hit")
        elif signal.name == "time" and signal.score > 0.5:
            reasons.append("from the time asked for")
    return "; ".join(reasons) or ("is known" if found.overview else "said next to what was found")


# --- as it was


class StoreAsOf(Wrap):
    """Answers questions about somebody as they would have been answered then; it cannot be written to.

    What was removed since is not there, unless it was a fact: only facts have a log. By its meaning a fact that changed
    since is not found, only by its words of then.
    """

    def __init__(self, store: Store, at: datetime, facts: Store) -> None:
        super().__init__(store, owned=False)
        self._at = at
        self._facts = facts

    @classmethod
    async def of(cls, store: Store, at: datetime, queries: Sequence[Query]) -> "StoreAsOf":
        """The store at that moment, as far as these queries look into facts."""
        if any(query.scope == Scope(tenant=query.scope.tenant) for query in queries):
            raise InvalidQuery("as_of is asked about somebody: name a user or an agent in place of everyone")
        facts = MemoryStore()
        asked = {(q.collection, q.scope): q for q in queries if q.collection in COLLECTIONS.values()}
        for collection, scope in asked:
            found = await records_as_of(store, Query(collection=collection, scope=scope), at)
            await facts.apply([Add(found)])
        return cls(store, at, facts)

    async def apply(self, ops: Sequence[Op]) -> list[int]:  # noqa: ARG002 - none of them is done
        """Refused: what was is past."""
        raise InvalidQuery(f"what was at {self._at.isoformat()} can be read, not changed")

    async def find(self, query: Query) -> list[Record]:
        """What answers the query, as it was."""
        store, asked = self._translate(query)
        return [record for record in await store.find(asked) if self._did_exist(query, record)]

    async def heads(self, query: Query) -> list[Head]:
        """The same without texts and bodies."""
        store, asked = self._translate(query)
        return [head for head in await list_heads(store, asked) if self._did_exist(query, head)]

    async def tally(self, query: Query) -> Tally:
        """How many there were."""
        return Tally.of(query, await self.find(query.unpaged))

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """What has these terms; what has changed since is left out when it is read."""
        store, asked = self._translate(query)
        return await cast(Searches, store).search(asked, terms)

    def _translate(self, query: Query) -> tuple[Store, Query]:
        """Which store knows it, and what it is asked."""
        until = self._at + _TICK if query.until is None else min(query.until, self._at + _TICK)
        store = self._facts if query.collection in COLLECTIONS.values() else self.inner
        return store, msgspec.structs.replace(query, until=until)

    def _did_exist(self, query: Query, found: Record | Head) -> bool:
        changed_at = found.updated_at or found.created_at
        return query.collection not in _REWRITTEN or changed_at <= self._at


class Moment(NamedTuple):
    """Somebody's memory at one moment: what finds in the store as it is or was, when that is, and what is asked."""

    recall: Recall
    at: datetime
    asked: Sequence[Query]

    @classmethod
    async def of(cls, recall: Recall, as_of: datetime | None, whose: Whose, *filters: Any) -> Self:
        """The memory as it is, or was at that moment."""
        at = checking.moment("as_of", as_of)
        at = None if at is None else min(at, LATEST)
        asked = whose.queries(at or now(), *filters)
        if at is None:
            return cls(recall, now(), asked)
        return cls(Recall(await StoreAsOf.of(recall.store, at, asked), lambda: at), at, asked)
