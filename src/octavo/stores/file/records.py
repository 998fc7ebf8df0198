"""The records in memory and which files hold them; no file is touched here."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from octavo.kernel.codec import Prepared, Sealed
from octavo.kernel.model import Head, Query, Record, Scope, Tally
from octavo.stores.draft import Effect, Key, draft
from octavo.stores.file.ledger import Frame, Part
from octavo.stores.file.lines import Rows, spelling
from octavo.stores.file.names import collection_of, family_of
from octavo.stores.image import Image

if TYPE_CHECKING:
    from octavo.kernel.ports import Lexicon
    from octavo.kernel.terms.matches import Matches
    from octavo.stores.term_index import Steps

_DEAD_LINES = 256  # below this many, rewriting a file to be rid of them is not worth it


class Family(msgspec.Struct):
    """What is known of a family: the size of the file written to, its lines in all, and how many records they keep."""

    size: int = 0
    lines: int = 0
    live: int = 0

    @property
    def untidy(self) -> bool:
        """Whether dead lines outweigh what is kept."""
        return not self.live or self.lines - self.live > max(self.live, _DEAD_LINES)


class Outgoing(msgspec.Struct):
    """What a write comes to: lines for each family, how many more records each then keeps, and strays that are gone."""

    lines: dict[str, list[bytes]] = {}
    live: dict[str, int] = {}
    gone: dict[tuple[str, Key], tuple[str, ...]] = {}


class Records:
    """All records of a directory, and the families that hold those kept elsewhere than this layout would."""

    def __init__(self, suffix: str, *, per_session: bool) -> None:
        self._suffix = suffix
        self._per_session = per_session
        self._image = Image()
        self._strays: dict[tuple[str, Key], tuple[str, ...]] = {}
        self.families: dict[str, Family] = {}

    def family(self, path: str) -> Family:
        family = self.families.get(path)
        if family is None:
            family = self.families[path] = Family()
        return family

    def _home(self, sealed: Sealed) -> str:
        """The family this layout gives a new record to."""
        return family_of(sealed.collection, sealed.scope.session if self._per_session else None, self._suffix)

    def _homes(self, sealed: Sealed) -> tuple[str, ...]:
        """The families that hold a record."""
        return self._strays.get((sealed.collection, sealed.key)) or (self._home(sealed),)

    # --- coming in

    def load(self, loaded: Iterable[tuple[str, int, Rows]]) -> None:
        """Replace everything by what the families (path, size, rows) hold; of two copies the one changed last counts."""
        self._strays, self.families = {}, {}
        self._image.shelves.clear()
        found: dict[tuple[str, Key], Sealed] = {}
        for path, size, rows in loaded:
            collection = collection_of(path)
            self.families[path] = Family(size, rows.total, len(rows.kept))
            for key, sealed in rows.sealed.items():
                where = (collection, key)
                other = found.get(where)
                homes = (path,) if other is None else (*self._homes(other), path)
                if homes != (self._home(sealed),):
                    self._strays[where] = homes
                if other is None or sealed.updated_at > other.updated_at:
                    found[where] = sealed
        # In order, each record goes to the end of every list it stands in.
        for sealed in sorted(found.values(), key=lambda one: one.rank):
            self._image.shelf(sealed.collection).put(sealed)

    def take_in(self, frame: Frame) -> None:
        """Follow a frame that somebody else has kept."""
        for part, added in zip(frame.parts, frame.added, strict=True):
            family = self.family(part.path)
            family.size, family.lines = part.after, part.lines
            read = spelling(collection_of(part.path)).read
            for raw in added.splitlines():
                key, _, sealed = read(raw, 0)
                self._take_line(part.path, family, key, sealed)
            if not family.lines:
                del self.families[part.path]

    def _take_line(self, path: str, family: Family, key: Key, sealed: Sealed | None) -> None:
        collection = collection_of(path)
        old = self._image.shelf(collection).get(key)
        homes = () if old is None else self._homes(old)
        if sealed is not None:
            if path not in homes:
                family.live += 1
                if (more := (*homes, path)) != (self._home(sealed),):
                    self._strays[collection, key] = more
            self._image.commit([Effect(old, sealed)])
        elif old is not None and path in homes:
            family.live -= 1
            if rest := tuple(home for home in homes if home != path):
                self._strays[collection, key] = rest
            else:
                self._strays.pop((collection, key), None)
                self._image.commit([Effect(old, None)])

    # --- going out

    def drafted(self, ops: list[Prepared]) -> tuple[list[Effect], list[int]]:
        """What a batch comes to, already true of the records; `undo` takes it back."""
        asking = draft(ops)
        try:
            question = next(asking)
            while True:
                question = asking.send(self._image.answer(question))
        except StopIteration as done:
            effects, counts = done.value
        self._image.commit(effects)
        return effects, counts

    def undo(self, effects: list[Effect]) -> None:
        self._image.commit(Effect(effect.after, effect.before) for effect in reversed(effects))

    def outgoing(self, effects: list[Effect]) -> Outgoing:
        """The lines the effects come to; a newer line goes to every family that holds the record."""
        out = Outgoing()
        for effect in effects:
            before, after = effect.before, effect.after
            if after is not None:
                line = spelling(after.collection).line(after)
                homes = (self._home(after),) if before is None else self._homes(before)
            elif before is not None:
                line = spelling(before.collection).tombstone(before)
                homes = self._homes(before)
                where = (before.collection, before.key)
                if where in self._strays:  # added again by a later effect, it goes where this layout puts it
                    out.gone[where] = self._strays.pop(where)
            else:
                continue
            change = (after is not None) - (before is not None)
            for path in homes:
                out.lines.setdefault(path, []).append(line)
                out.live[path] = out.live.get(path, 0) + change
        return out

    def kept(self, out: Outgoing, parts: list[Part]) -> None:
        """Count what was written."""
        for part in parts:
            family = self.family(part.path)
            family.size, family.lines = part.after, part.lines
            family.live += out.live[part.path]

    def not_kept(self, out: Outgoing) -> None:
        """Forget what could not be written."""
        self._strays.update(out.gone)

    # --- answers

    def find(self, query: Query) -> list[Record]:
        return [sealed.record for sealed in self._image.answer(query)]

    def heads(self, query: Query) -> list[Head]:
        return [sealed.head for sealed in self._image.answer(query)]

    def tally(self, query: Query) -> Tally:
        return self._image.shelf(query.collection).tally(query)

    def searched(self, query: Query, terms: tuple[str, ...]) -> "Steps[Matches]":
        from octavo.stores.lexicon import searched

        return searched(self._image, query, terms)

    def reindexed(self, collection: str) -> "Steps[int]":
        from octavo.stores.lexicon import reindexed

        return reindexed(self._image, collection)

    def verified(self, collection: str) -> "Steps[Lexicon]":
        from octavo.stores.lexicon import verified

        return verified(self._image, collection)

    def use_idle_time(self) -> bool:
        """Index a little of what waits, where anything was searched; answer whether more is waiting."""
        if not any(shelf.indexes for shelf in self._image.shelves.values()):
            return False
        from octavo.stores.lexicon import idle

        return idle(self._image)

    def tenants(self) -> list[str]:
        return self._image.tenants()

    def count(self) -> int:
        """How many records there are."""
        return sum(
            shelf.tally(Query(collection=collection, scope=Scope(tenant=tenant))).total
            for collection, shelf in self._image.shelves.items()
            for tenant in shelf.tenants
        )
