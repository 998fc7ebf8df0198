"""One search over everything of somebody: facts, messages, observations, agent events and documents."""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.model import Query, Record, Scope
from octavo.kernel.ports import Store
from octavo.kernel.terms.matching import content
from octavo.kernel.terms.terms import unspaced
from octavo.memory.values import DEFAULT_SESSION, DEFAULT_USER
from octavo.search.hits import Hit, Hits, MemoryHit, Recalled
from octavo.search.question import Filters, queries
from octavo.search.recall import MOST_HITS, Recall

#: What can be searched, and the collections it is kept in.
SOURCES = MappingProxyType({
    "facts": ("profile", "episodes", "entities"),
    "messages": ("messages", "exchanges"),
    "observations": ("observations",),
    "events": ("events",),
    "documents": ("configs", "knowledge"),
})  # fmt: skip
SOURCE_OF = {collection: source for source, collections in SOURCES.items() for collection in collections}
_SPARE = 10  # hits asked for beyond twice the limit: a fact and its sentence are one
_SHOWN_TERMS = 5
_WITH_NEIGHBOURS = 3  # messages whose neighbours are shown in a context
_BEST = 8  # hits that come before them: where the budget is small, another hit is worth more than a neighbour
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
            if value is not None and (not isinstance(value, str) or not value):
                raise InvalidQuery(f"{name} must be a name; got {value!r}"[:200])
        if self.everyone and (self.user_id or self.agent_id or self.session_id):
            raise InvalidQuery("give user_id, agent_id or session_id, or everyone=True, not both")

    @property
    def owner(self) -> dict[str, Any]:
        """The one owner of facts, as the layers are told it."""
        if self.user_id is None and self.agent_id is not None:
            return {"agent_id": self.agent_id}
        return {"user_id": self.user_id or DEFAULT_USER}

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
        asked: list[Query] = []
        wide: Filters = {"since": since, "until": until, "everyone": self.everyone}
        for source in _checked(sources):
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


def _checked(sources: Sequence[str] | None) -> tuple[str, ...]:
    if sources is None:
        return tuple(SOURCES)
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    for name in named:
        if name not in SOURCES:
            raise InvalidQuery(f"unknown source {name!r}; known: {', '.join(SOURCES)}")
    if not named:
        raise InvalidQuery(f"sources names nothing to search; known: {', '.join(SOURCES)}")
    return tuple(dict.fromkeys(named))


async def search(
    recall: Recall, question: str, asked: Sequence[Query], limit: int, max_bytes: int | None = None
) -> Hits:
    """The hits of a question, best first; of a fact and the sentence it was made from, the better one."""
    wanted = min(limit * 2 + _SPARE, MOST_HITS) if limit else 0
    found = await recall.answer(question, asked, wanted, explain=True, max_bytes=max_bytes)
    best = max((hit.score for hit in found), default=0.0)
    shown = [_tell_hit(hit, found.presence * math.exp(hit.score - best), found) for hit in distinct(found)]
    return Hits(
        shown[:limit],
        probably_absent=found.probably_absent,
        notes=found.notes,
        left_out=found.left_out,
    )


def distinct(found: Recalled) -> list[Hit]:
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
            ordered.append(overtaking[hit.record.id])
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
    pages = await asyncio.gather(*[_next_to(store, said, at, earlier=earlier) for said, earlier in turns])
    found = [hit.record for hit in hits]
    told = {source for fact in profile for source in sources_of(fact)[-1:]}
    found[_BEST:_BEST] = [turn for page in pages for turn in page if turn.id not in told]
    return list({(record.collection, *record.key): record for record in found}.values())


async def _next_to(store: Store, said: Record, at: datetime, *, earlier: bool) -> list[Record]:
    """The message before or after one in its session."""
    scope = Scope(
        **{part: getattr(said.scope, part) or "" for part in ("tenant", "user", "agent", "session")}
    )
    query = Query(
        collection="messages", scope=scope, alive_at=at, after=said.cursor, newest_first=earlier, limit=1
    )
    return await store.find(query)


def _says_all(sentence: Hit, fact: Hit) -> bool:
    """Whether a sentence may stand for a fact that was made of it."""
    return len(sentence.record.text) <= _LONG and {*sentence.terms, *sentence.topics} >= {
        *fact.terms,
        *fact.topics,
    }


class Seen:
    """What was shown already, so that nothing is said twice: not a text, and not a fact beside its sentence."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._ids: set[str] = set()
        self._texts = set(map(_folded, texts))
        self._sentences: set[str] = set()  # those whose facts were shown

    def adds(self, record: Record) -> bool:
        """Whether the record says something new; then it is shown."""
        text = _folded(content(record.text, record.data))
        newest = sources_of(record)[-1:]
        if text in self._texts:
            self._ids.add(record.id)  # what it says is shown, so its facts need not be
            return False
        if record.id in self._ids or record.id in self._sentences or self._ids.intersection(newest):
            return False
        self._ids.add(record.id)
        self._texts.add(text)
        self._sentences.update(newest)
        return True


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def sources_of(record: Record) -> tuple[str, ...]:
    """The ids of what a fact was made from, the newest last; nothing for whatever is no fact."""
    return tuple(record.data.get("sources") or ()) if record.collection in SOURCES["facts"] else ()


def _tell_hit(hit: Hit, score: float, found: Recalled) -> MemoryHit:
    record, scope = hit.record, hit.record.scope
    return MemoryHit(
        id=record.id,
        text=content(record.text, record.data),
        score=round(score, 4),
        why=_reason(hit, found),
        when=record.updated_at or record.created_at,
        source=SOURCE_OF[hit.collection],
        kind=record.kind,
        user_id=scope.user or None,
        agent_id=scope.agent or None,
        session_id=scope.session or None,
        metadata=record.metadata,
        sources=sources_of(record),
    )


def _reason(hit: Hit, found: Recalled) -> str:
    """Why it is a hit, in a few words."""
    # Of a pair of characters and the two by themselves, the pair says more.
    words = sorted(hit.terms, key=lambda term: unspaced(term) and len(term) == 1)[:_SHOWN_TERMS]
    reasons = [f"says {', '.join(words)}"] if words else []
    reasons += [f"is about {', '.join(hit.topics)}"] if hit.topics else []
    for signal in hit.signals:
        if signal.name == "vector" and signal.rank and found.trust:
            reasons.append(f"number {signal.rank} by meaning")
        elif signal.name == "time" and signal.score > 0.5:
            reasons.append("from the time asked for")
    return "; ".join(reasons) or ("is known" if found.overview else "said next to what was found")
