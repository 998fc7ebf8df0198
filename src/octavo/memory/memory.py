"""Memory in two verbs, `add` and `search`, and a third that makes a prompt of it: to be awaited, and for callers who block."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from octavo import erasing
from octavo.chat.messages import Role, to_record
from octavo.config import Settings, resolve_settings
from octavo.erasing import Certificate, Subject
from octavo.errors import ConfigError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Cursor
from octavo.kernel.ports import Embedder, Store, WriteStatus, write_ops
from octavo.kernel.text import content, estimate_tokens
from octavo.layers import checking
from octavo.layers.memory import LayeredMemory
from octavo.layers.records import COLLECTIONS, memory_of
from octavo.layers.values import Extractor, Fact, LogEntry, Outcome, Page, Undone
from octavo.memory import context as contexts
from octavo.memory.messages import Added, Said, read_messages
from octavo.memory.pending import PendingFacts, note_for
from octavo.memory.searching import (
    SOURCE_OF,
    SOURCES,
    Moment,
    Whose,
    check_limit,
    search,
)
from octavo.memory.undoing import UndoMany
from octavo.search.hits import Context, Hits
from octavo.search.recall import Recall
from octavo.util.sync import Portal, blocking

if TYPE_CHECKING:
    from octavo.erasing.parts import Documents
    from octavo.transfer import Moved

#: The settings of this folder, which the commands read too.
CONFIG = Path("config/memory.yaml")
_QUICK = 2**16  # characters of a context that is made without a thread


class AsyncMemory:
    """Remembers what was said, finds it again, and makes a block for a prompt of it.

    `store` is a URL or a store, which then stays open; without one, the settings of this folder and the environment
    decide, and else it is `sqlite:///octavo.db`. `model` names a model that finds facts (by the rules without one), or is an
    extractor; `embedder` names one that finds by meaning. A user that is not named is `"default_user"`.
    """

    def __init__(
        self,
        store: Store | str | None = None,
        *,
        model: str | Extractor | None = None,
        embedder: str | Embedder | None = None,
        tenant: str | None = None,
    ) -> None:
        for what, one, verb in (("model", model, "decide"), ("embedder", embedder, "embed")):
            if one is not None and not isinstance(one, str) and not hasattr(one, verb):
                raise TypeError(f"{what} is a name, or has a method `{verb}`; got {one!r}"[:200])
        extractor = None if isinstance(model, str) else model
        if store is None or isinstance(store, str):
            name = embedder if isinstance(embedder, str | None) else embedder.name
            named = {
                "database.dsn": ("store", store),
                "extraction.model": ("model", model if isinstance(model, str) else None),
                "vector.enabled": ("embedder", True if embedder else None),
                "vector.embedder": ("embedder", name),
                "service.tenant": ("tenant", tenant),
            }
            given = {key: option for key, option in named.items() if option[1] is not None}
            found = resolve_settings(CONFIG if CONFIG.exists() else None, given)
            own = None if isinstance(embedder, str) else embedder
            try:
                layers = LayeredMemory.from_settings(found.settings, extractor=extractor, embedder=own)
            except ConfigError as error:
                raise found.name_origin(error) from error.__cause__
            self._begin(layers)
        elif embedder is not None or isinstance(model, str):
            raise ConfigError(
                "a store that is handed in is used as it is; give its URL with model and embedder"
            )
        else:
            self._begin(LayeredMemory(store, tenant=tenant or "", extractor=extractor))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """A memory as the settings say."""
        return cls.from_layers(LayeredMemory.from_settings(settings), owned=True)

    @classmethod
    def from_layers(cls, layers: LayeredMemory, *, owned: bool = False) -> Self:
        """The front door of a layered memory, which stays open unless it is owned."""
        memory = cls.__new__(cls)
        memory._begin(layers, owned=owned)  # noqa: SLF001 - its own class
        return memory

    def _begin(self, layers: LayeredMemory, *, owned: bool = True) -> None:
        self.layers = layers
        self._owned = owned
        self._recall = Recall(layers.store)
        self._pending = PendingFacts(layers)

    def __deepcopy__(self, memo: object) -> Self:
        raise TypeError(
            "a memory holds connections and cannot be copied; share it, or open another on the same URL"
        )

    @property
    def store(self) -> Store:
        """Where everything is kept."""
        return self.layers.store

    # --- remembering

    async def add(
        self,
        messages: Said,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        infer: bool = True,
    ) -> Added:
        """Keep what was said, then find the facts in what the user said of it; with `infer=False`, keep each text as it is.

        A text, a message as OpenAI and Anthropic spell it, a `Msg`, or a list of these. With an agent and no user, it is
        the agent's own memory, and the facts are those in what the agent said.
        """
        whose = Whose(self.layers.tenant, user_id, agent_id, session_id)
        whose.check_storable()
        speaker: Role = "assistant" if "agent_id" in whose.owner else "user"
        checking.flag("infer", infer)
        told = checking.metadata(metadata)
        said = read_messages(messages, speaker=speaker, metadata=told)
        learnt = {**told, **whose.learnt_in}
        if not infer:
            return await self._keep([text for m in said if (text := m.get_text_content())], whose, learnt)
        records = [to_record(message, (), whose.talk) for message in said]
        notes = {
            record.id: note_for(record, whose.owner, learnt)
            for record in records
            if record.kind == speaker and record.text.strip()
        }
        done = await write_ops(self.store, [Add(records), Add(list(notes.values()))])
        names = [message.id for message in said]
        if not done.stored:
            self._pending.extract_later(list(notes.values()))
            note = "the store takes no writes: this is on disk, and its facts are found when it does again"
            return Added(messages=names, status="queued", note=note)
        self._pending.look()
        return await self._pending.find_all(names, [(notes[r.id], r) for r in records if r.id in notes])

    async def _keep(self, texts: list[str], whose: Whose, metadata: dict[str, Any]) -> Added:
        found: list[Outcome] = []
        status: WriteStatus = "stored"
        for text in texts:
            kept = await self.layers.remember(text, metadata=metadata, **whose.owner)
            status = "queued" if kept.status == "queued" else status
            told = {name: getattr(kept, name) for name in ("id", "layer", "category", "content")}
            found.append(Outcome(action="insert", reason="kept as it was said", **told))
        return Added(memories=found, status=status)

    async def update(self, memory_id: str, text: str, *, reason: str | None = None) -> Fact:
        """Let a memory say this instead; its log says what it said before, and why it changed."""
        return await self.layers.revise(memory_id, content=text, reason=reason)

    async def delete(self, memory_id: str, *, reason: str | None = None, forever: bool = False) -> Fact:
        """Remove a memory, and answer what it was; its log stays, and `undo` brings it back.

        What is removed `forever` is not learnt again, from whatever text.
        """
        return await self.layers.forget(memory_id, reason=reason, forever=forever)

    async def reject(self, memory_id: str, *, reason: str | None = None) -> Fact:
        """Remove a memory forever: what it says is not learnt again, until `allow` or `undo` lifts that."""
        return await self.delete(memory_id, reason=reason, forever=True)

    async def allow(self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None) -> None:
        """Let what a rejected memory said be learnt again; whose it was is named where its log is gone."""
        await self.layers.allow(memory_id, user_id=user_id, agent_id=agent_id)

    async def forget(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        memory_id: str | None = None,
        dry_run: bool = False,
        scrub: bool = False,
        keep_rejected: bool = False,
        vault: "Documents | None" = None,
        queue: str | Path | None = None,
    ) -> Certificate:
        """Erase for good all that belongs to one of these, its log too, and answer the certificate; nothing brings it back.

        A session is that of every user, and with a user that user's part of it. A dry run only counts. What was rejected can be kept rejected: its digests stay. `vault` is one whose files go too, `queue` the folder of a failure queue that others use.
        """
        named = {"user_id": user_id, "session_id": session_id, "agent_id": agent_id, "memory_id": memory_id}
        for what, value in (("dry_run", dry_run), ("scrub", scrub), ("keep_rejected", keep_rejected)):
            checking.flag(what, value)
        subject = Subject.of(self.layers.tenant, **named)
        key = self.layers.digest_key
        told = await erasing.forget(
            self.store, subject, key, dry_run=dry_run, scrub=scrub, keep_rejected=keep_rejected, vault=vault, queue=queue
        )  # fmt: skip
        if not dry_run:
            self._pending.forget(subject)
        return told

    async def scrub(
        self,
        *,
        vault: "Documents | None" = None,
        queue: str | Path | None = None,
    ) -> list[Certificate]:
        """Finish the erasures whose scrub is pending: write files anew, look through their bytes, and say what was found."""
        return await erasing.scrub(self.store, self.layers.digest_key, vault=vault, queue=queue)

    async def undo(self, change: str | LogEntry, *, reason: str | None = None) -> LogEntry:
        """Take back the last change of a memory: a row of its history, or the row's id."""
        return await self.layers.undo(change.id if isinstance(change, LogEntry) else change, reason)

    async def undo_all(
        self,
        *,
        add: Added | str | Sequence[str] | None = None,
        since: datetime | None = None,
        undo: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> Undone:
        """Take back all that one `add` did, all since a moment, or all that an earlier `undo_all` did (its id).

        What was changed again since is left as it is, and named in `kept`. A dry run says what would be taken back.
        """
        whose = Whose(self.layers.tenant, user_id, agent_id)
        checking.flag("dry_run", dry_run)
        return await UndoMany(self.layers, whose, reason, dry_run=dry_run).run(
            add, checking.moment("since", since), undo
        )

    # --- finding

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        sources: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        limit: int = 10,
        everyone: bool = False,
        as_of: datetime | None = None,
        max_bytes: int = 2**22,
    ) -> Hits:
        """What answers a question best, of everything that is kept for somebody: facts, messages, events, documents.

        `sources` names some of these. With a session, only what was said, learnt or done in it is searched. `as_of` asks
        what the answer would have been at that moment.
        """
        whose = Whose(self.layers.tenant, user_id, agent_id, session_id, everyone)
        then = await Moment.of(self._recall, as_of, whose, sources, since, until, metadata)
        return await search(then.recall, query, then.asked, limit, max_bytes)

    async def context(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        max_tokens: int = 1000,
        count: Callable[[str], int] = estimate_tokens,
        shown: Sequence[str] = (),
        as_of: datetime | None = None,
    ) -> Context:
        """One fenced block for a prompt, within a budget: who the user is, this session so far, and what else was found.

        Each line has its date; `parts` says how many tokens each part took. What it holds is data: it cannot close the fence.
        `shown` is what the prompt says already, which is not said again. `as_of` asks what the block would have been at
        that moment.
        """
        whose = Whose(self.layers.tenant, user_id, agent_id)
        then = await Moment.of(self._recall, as_of, whose)
        talk = Whose(self.layers.tenant, user_id, agent_id, session_id).talk
        parts, found = await contexts.read_parts(then, query, whose.owner_scope, talk)
        language = contexts.language_of([query, *(message.text for message in parts["recent"])])
        if sum(len(content(one.text, one.data)) for records in parts.values() for one in records) < _QUICK:
            block = contexts.build(parts, language, max_tokens, count, shown)
        else:  # where a long text must be cut is found by counting it again and again
            block = await asyncio.to_thread(contexts.build, parts, language, max_tokens, count, shown)
        return msgspec.structs.replace(block, probably_absent=found.probably_absent)

    # --- looking

    async def get(self, memory_id: str) -> Fact:
        """One memory, or NotFound."""
        return await self.layers.get(memory_id)

    async def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: Cursor | None = None,
        as_of: datetime | None = None,
    ) -> Page[Fact]:
        """What is remembered about somebody, newest first; the next page is `after` the cursor `following` of this one.

        `as_of` asks what was remembered at that moment.
        """
        check_limit(limit)
        whose = Whose(self.layers.tenant, user_id, agent_id, session_id)
        then = await Moment.of(self._recall, as_of, whose, ["facts"], None, None, metadata)
        asked = [
            msgspec.structs.replace(query, newest_first=True, limit=limit + 1, after=after)
            for query in then.asked
            if query.collection in COLLECTIONS.values()
        ]
        pages = await asyncio.gather(*map(then.recall.store.find, asked))
        found = sorted((record for page in pages for record in page), key=lambda r: r.rank, reverse=True)
        more = len(found) > limit > 0
        return Page(map(memory_of, found[:limit]), found[limit - 1].cursor if more else None)

    async def history(self, memory_id: str) -> list[LogEntry]:
        """All that happened to a memory and why, oldest first, also when it is gone."""
        return await self.layers.history(memory_id)

    async def export(
        self, to: Path | str, *, user_id: str | None = None, page: Path | str | None = None
    ) -> "Moved":
        """Write everything of a user to a file of JSON lines, which `octavo import` reads, and as a `page` of Markdown.

        That is what any face kept for him, with its log and earlier versions, and what was kept for nobody in sessions where
        he is the only user.
        """
        from octavo.memory.exporting import export_user  # reads and writes files, and few ever do

        [user] = Whose(self.layers.tenant, user_id).owner.values()
        return await export_user(self.store, user, to, page, tenant=self.layers.tenant)

    async def stats(self, *, user_id: str | None = None, agent_id: str | None = None) -> dict[str, Any]:
        """How many records of each source there are, of somebody or of all; what waits on disk for the store; and with an
        embedder, how many vectors there are of how many records."""
        whose = Whose(self.layers.tenant, user_id, agent_id, everyone=user_id is None and agent_id is None)
        asked = whose.queries(now())
        tallies = await asyncio.gather(*map(self.store.tally, asked))
        counts = dict.fromkeys(SOURCES, 0)
        for query, tally in zip(asked, tallies, strict=True):
            counts[SOURCE_OF[query.collection]] += tally.total
        lasts = [tally.last for tally in tallies if tally.last is not None]
        told = {**counts, "last": max(lasts, default=None)}
        if (status := getattr(self.store, "status", None)) is not None:  # of a Journal
            now_queued = status()
            told |= {"queued": now_queued.waiting, "dead_letters": now_queued.dead}
        if (coverage := getattr(self.store, "coverage", None)) is not None:  # of vectors, of everybody
            told["vectors"] = msgspec.to_builtins(await coverage())
        return told

    # --- opening and closing

    async def close(self) -> None:
        """Deliver what waits or leave it on disk, and close what this opened; a second call does nothing."""
        await self._pending.close()
        if self._owned:
            await self.layers.close()

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


async def remember(memory: AsyncMemory, text: str, **owner: Any) -> Added:
    """Keep a text with the facts in it; one in which there is none is kept as a fact itself, so that it can be listed."""
    added = await memory.add(text, **owner)
    if added.memories or added.status != "stored" or added.note:
        return added
    return await memory.add(text, infer=False, **owner)


class Memory:
    """The same for callers who block: `with Memory() as memory: …`, or `close()` at the end."""

    def __init__(
        self,
        store: Store | str | None = None,
        *,
        model: str | Extractor | None = None,
        embedder: str | Embedder | None = None,
        tenant: str | None = None,
    ) -> None:
        self.behind = AsyncMemory(store, model=model, embedder=embedder, tenant=tenant)
        self.portal = Portal("octavo-memory")

    add = blocking(AsyncMemory.add)
    search = blocking(AsyncMemory.search)
    context = blocking(AsyncMemory.context)
    get = blocking(AsyncMemory.get)
    get_all = blocking(AsyncMemory.get_all)
    update = blocking(AsyncMemory.update)
    delete = blocking(AsyncMemory.delete)
    reject = blocking(AsyncMemory.reject)
    allow = blocking(AsyncMemory.allow)
    forget = blocking(AsyncMemory.forget)
    scrub = blocking(AsyncMemory.scrub)
    history = blocking(AsyncMemory.history)
    undo = blocking(AsyncMemory.undo)
    undo_all = blocking(AsyncMemory.undo_all)
    export = blocking(AsyncMemory.export)
    stats = blocking(AsyncMemory.stats)
    _close = blocking(AsyncMemory.close)

    def close(self) -> None:
        """Deliver what waits or leave it on disk, and close what this opened; a second call does nothing."""
        try:
            self._close()
        except StoreClosed:
            return
        self.portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
