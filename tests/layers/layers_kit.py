"""What tests of layered memory share: a clock, an extractor, and the log read as the truth."""

from datetime import UTC, datetime, timedelta

import msgspec

from octavo import Query, Scope
from octavo.layers import Decision
from octavo.layers.records import COLLECTIONS, LAYER_OF, entry_of, state_of

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
LIN = {"user_id": "lin"}


class Clock:
    """Goes on by a millisecond whenever somebody looks at it, and as far as it is told."""

    def __init__(self, at=START):
        self.at = at

    def __call__(self):
        self.at += timedelta(milliseconds=1)
        return self.at

    def go(self, **by):
        self.at += timedelta(**by)
        return self.at


class Scripted:
    """Decides what it was told to, text by text, and keeps what it was shown."""

    def __init__(self, script=None):
        self.script = script or {}
        self.shown = []
        self.closed = 0

    async def decide(self, text, known, *, owner_type, at):
        self.shown.append([one.content for one in known])
        told = self.script.get(text, [])
        return told(known) if callable(told) else told

    async def close(self):
        self.closed += 1


async def kept(memory, content="She is a nurse.", **more):
    """A memory of the profile."""
    return await memory.remember(content, **{**LIN, "layer": "profile", "category": "career", **more})


async def happened(memory, content="She met Ann.", **more):
    """A memory of an event."""
    return await memory.remember(content, **{**LIN, "category": "meeting", **more})


def fact(content, action="insert", layer="profile", category="career", reason="因为他说了", **more):
    """A decision."""
    return Decision(action=action, layer=layer, category=category, content=content, reason=reason, **more)


async def table(store, tenant):
    """Every memory of a tenant as it stands in the tables, by id."""
    found = {}
    for collection in COLLECTIONS.values():
        for record in await store.find(Query(collection=collection, scope=Scope(tenant=tenant))):
            assert record.marks == (f"v{record.data['version']}",)
            found[record.id] = (LAYER_OF[collection], _owner(record.scope), state_of(record))
    return found


async def replayed(store, tenant):
    """Every memory of a tenant as its log tells it, by id; each log must be one chain."""
    chains = {}
    for record in await store.find(Query(collection="log", scope=Scope(tenant=tenant))):
        entry = entry_of(record)
        if entry.version is None:
            assert (entry.action, entry.before, entry.after) == ("ignore", None, None)
            continue
        assert entry.id == f"log_{entry.memory_id}_{entry.version}"
        chains.setdefault(entry.memory_id, []).append((entry, _owner(record.scope)))
    told = {}
    for id_, chain in chains.items():
        state, last = None, None
        for number, (entry, _) in enumerate(chain, 1):  # in the order of the log, which is that of time
            assert entry.version == number, [one.version for one, _ in chain]
            assert last is None or entry.created_at > last
            assert entry.before == state
            assert entry.reason.strip()
            assert (entry.action == "insert") == (entry.before is None)
            assert (entry.action in ("delete", "expire")) == (entry.after is None)
            state, last = entry.after, entry.created_at
            if state is not None:
                assert state.data["version"] == number
                assert state.updated_at == entry.created_at
        if state is not None:
            told[id_] = (chain[-1][0].memory_layer, chain[-1][1], state)
    return told


async def agree(store, tenant):
    """The log and the tables say the same."""
    told = await replayed(store, tenant)
    kept = await table(store, tenant)
    # As JSON: to Python 1 == True.
    spelled = msgspec.json.Encoder(order="deterministic").encode
    assert {id_: spelled(one) for id_, one in told.items()} == {
        id_: spelled(one) for id_, one in kept.items()
    }
    return kept


def _owner(scope):
    return (scope.user, scope.agent)
