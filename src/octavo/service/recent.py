"""What this process wrote lately, by session: the answer while the store cannot give one."""

from collections import OrderedDict

from octavo.codec import Sealed, seal
from octavo.model import Change, Record


class Recent:
    """A ring of records per collection and session. It forgets the least used session first, and keeps JSON, not objects."""

    def __init__(self, per_session: int = 200, *, sessions: int = 1000, most_bytes: int = 64 * 2**20) -> None:
        self._per_session = per_session
        self._sessions = sessions
        self._most_bytes = most_bytes
        self._rings: OrderedDict[tuple[str, str], OrderedDict[str, Sealed]] = OrderedDict()
        self._session_of: dict[tuple[str, str], str] = {}
        self._bytes = 0

    def put(self, record: Record) -> None:
        """Remember a record that was acknowledged; one already held stays as it is."""
        if self._per_session <= 0:
            return
        place = (record.collection, record.scope.session or "")
        ring = self._rings.setdefault(place, OrderedDict())
        self._rings.move_to_end(place)
        if record.id in ring:
            return
        self._hold(ring, seal(record))
        self._session_of[record.collection, record.id] = place[1]
        while len(ring) > self._per_session:
            self._drop(ring, place[0])
        while len(self._rings) > self._sessions or (self._bytes > self._most_bytes and len(self._rings) > 1):
            oldest, dropped = self._rings.popitem(last=False)
            while dropped:
                self._drop(dropped, oldest[0])
        while self._bytes > self._most_bytes and len(ring) > 1:
            self._drop(ring, place[0])

    def change(self, collection: str, id_: str, change: Change) -> None:
        """Apply a change that was acknowledged to a record that is held."""
        if (session := self._session_of.get((collection, id_))) is None:
            return
        ring = self._rings[collection, session]
        held = ring[id_]
        self._bytes -= _size(held)
        self._hold(ring, seal(change.applied_to(held.record)))

    def session_of(self, collection: str, id_: str) -> str | None:
        """The session of a record that is held."""
        return self._session_of.get((collection, id_))

    def get(self, collection: str, id_: str) -> Record | None:
        """A copy of the record, if it is held."""
        session = self._session_of.get((collection, id_))
        return None if session is None else self._rings[collection, session][id_].record

    def of(self, collection: str, session: str, limit: int | None = None) -> list[Record]:
        """Copies of a session's newest, newest first."""
        ring = self._rings.get((collection, session))
        newest = sorted(ring.values() if ring else (), key=_rank, reverse=True)
        return [held.record for held in newest[:limit]]

    def _hold(self, ring: OrderedDict[str, Sealed], held: Sealed) -> None:
        ring[held.id] = held
        self._bytes += _size(held)

    def _drop(self, ring: OrderedDict[str, Sealed], collection: str) -> None:
        id_, held = ring.popitem(last=False)
        self._bytes -= _size(held)
        self._session_of.pop((collection, id_), None)


def _size(held: Sealed) -> int:
    return len(held.data_json) + len(held.metadata_json) + len(held.text) + 500


def _rank(held: Sealed) -> tuple[object, ...]:
    return held.rank
