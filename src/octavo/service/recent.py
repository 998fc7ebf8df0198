"""What this process wrote lately, by session: the answer while the store cannot give one."""

from collections import OrderedDict

from octavo.kernel.codec import seal
from octavo.kernel.model import Change, Record
from octavo.kernel.shapes import StoredRecord
from octavo.util.cache import Cache, size_of

_MOST_BYTES = 4 * 2**20  # of one session: one that says much must not push out all others


class _RecentSession:
    """The newest records of one session, the oldest first, and the bytes they take."""

    def __init__(self) -> None:
        self.records: OrderedDict[str, StoredRecord] = OrderedDict()
        self.size_bytes = 450  # the session itself, its names, and the dicts it is found by

    def hold(self, sealed: StoredRecord) -> None:
        if (old := self.records.get(sealed.id)) is not None:
            self.size_bytes -= _size(old)
        self.records[sealed.id] = sealed
        self.size_bytes += _size(sealed)

    def drop_oldest(self) -> str:
        id_, sealed = self.records.popitem(last=False)
        self.size_bytes -= _size(sealed)
        return id_


class Recent:
    """The newest records of each collection and session. It forgets the least used session first, and keeps JSON, not objects."""

    def __init__(self, per_session: int = 200, *, sessions: int = 1000) -> None:
        self._per_session = per_session
        self._session_of: dict[tuple[str, str], str] = {}
        self._sessions: Cache[tuple[str, str], _RecentSession] = Cache(sessions, self._forget)

    def put(self, record: Record) -> None:
        """Remember a record that was acknowledged; one already held stays as it is."""
        if self._per_session <= 0:
            return
        key = (record.collection, record.scope.session or "")
        session = self._sessions.get(key) or _RecentSession()
        if record.id in session.records:
            return
        session.hold(seal(record))
        self._session_of[record.collection, record.id] = key[1]
        while len(session.records) > self._per_session or (
            session.size_bytes > _MOST_BYTES and len(session.records) > 1
        ):
            self._session_of.pop((record.collection, session.drop_oldest()), None)
        self._sessions.put(key, session, session.size_bytes)

    def change(self, collection: str, id_: str, change: Change) -> None:
        """Apply a change that was acknowledged to a record that is held."""
        key = (collection, self._session_of.get((collection, id_), ""))
        session = self._sessions.get(key)
        if session is not None and (held := session.records.get(id_)) is not None:
            session.hold(seal(change.applied_to(held.record)))
            self._sessions.put(key, session, session.size_bytes)

    def session_of(self, collection: str, id_: str) -> str | None:
        """The session of a record that is held."""
        return self._session_of.get((collection, id_))

    def get(self, collection: str, id_: str) -> Record | None:
        """A copy of the record, if it is held."""
        session = self._sessions.get((collection, self._session_of.get((collection, id_), "")))
        held = None if session is None else session.records.get(id_)
        return None if held is None else held.record

    def of(self, collection: str, session: str, limit: int | None = None) -> list[Record]:
        """Copies of a session's newest, newest first."""
        held = self._sessions.get((collection, session))
        newest = sorted(held.records.values() if held else (), key=lambda one: one.rank, reverse=True)
        return [sealed.record for sealed in newest[:limit]]

    def _forget(self, key: tuple[str, str], session: _RecentSession) -> None:
        for id_ in list(session.records):
            self._session_of.pop((key[0], id_), None)


def _size(held: StoredRecord) -> int:
    # And ids, times, and the dicts they are found by.
    return size_of(held.data_json, held.metadata_json, held.text) + 1000
