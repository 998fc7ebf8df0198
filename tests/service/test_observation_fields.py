"""What an observation holds comes back whole: fields that the service has no name for are kept under `extra`."""

import collections
import dataclasses
import types
from datetime import UTC, datetime

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from octavo import InvalidRecord
from octavo.service import EventRecord, Observation, ObservationType
from serving import said

GIVEN = {
    "evidence": [{"quote": "我对花生过敏", "at": 3}],
    "quality_flags": ["noisy", "late"],
    "confidence": 0.75,
    "tags": ["health"],
    "source_kind": "microphone",
    "received_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "whatever": None,
}
KEPT = {**GIVEN, "received_at": "2026-01-02T03:04:05Z"}
KNOWN = {
    "obs_type": ObservationType.MESSAGE,
    "payload": {"text": "hello"},
    "obs_id": "o",
    "metadata": {"a": 1},
}


@dataclasses.dataclass
class OwnDataclass:
    obs_type: ObservationType
    payload: dict
    obs_id: str
    metadata: dict
    evidence: list
    quality_flags: list
    confidence: float
    tags: list
    source_kind: str
    received_at: datetime
    whatever: object


class OwnStruct(Observation, kw_only=True):
    evidence: list
    quality_flags: list
    confidence: float
    tags: list
    source_kind: str
    received_at: datetime
    whatever: object


class OwnModel(BaseModel):
    model_config = ConfigDict(extra="allow")
    obs_type: ObservationType
    payload: dict
    confidence: float


class OwnSlots:
    __slots__ = ("__weakref__", "_lock", *KNOWN, *GIVEN, "never_set")

    def __init__(self, **fields):
        self._lock = object()
        for name, value in fields.items():
            setattr(self, name, value)


SHAPES = {
    "dataclass": OwnDataclass,
    "slots dataclass": dataclasses.make_dataclass("OwnSlotted", [*KNOWN, *GIVEN], slots=True),
    "struct": OwnStruct,
    "pydantic": OwnModel,
    "slots": OwnSlots,
    "object": types.SimpleNamespace,
    "named tuple": collections.namedtuple("OwnTuple", [*KNOWN, *GIVEN]),  # noqa: PYI024
    "dict": dict,
}


def test_fields_it_does_not_know_come_back(store_url, serve):
    """From whatever class they are in: at once, from this process's memory, and from the store."""
    memory = serve(store_url)
    for number, (shape, make) in enumerate(SHAPES.items()):
        event = memory.append_event(make(**{**KNOWN, "obs_id": f"o{number}"}, **GIVEN), shape)
        assert event.extra == KEPT, shape
        assert (event.obs_id, event.payload, event.metadata) == (f"o{number}", {"text": "hello"}, {"a": 1})
        assert memory.get_event(event.event_id) == event
        assert memory.get_recent_events(shape) == [event]
    if not store_url.startswith("memory:"):
        memory.close()
        again = serve(store_url)
        assert [again.get_recent_events(shape)[0].extra for shape in SHAPES] == [KEPT] * len(SHAPES)


def test_fields_come_back_through_the_queue(store_url, serve, faulty):
    """While the store is down they are told from memory; replayed, they are in the store."""
    memory = serve(store_url)
    memory.initialize()
    faulty[-1].mode = "down"
    event = memory.append_event(types.SimpleNamespace(**KNOWN, **GIVEN), "s")
    assert (event.status, event.extra) == ("queued", KEPT)
    assert memory.get_recent_events("s")[0].extra == KEPT
    faulty[-1].mode = "up"
    memory.replay_queue()
    assert memory.get_event(event.event_id).extra == KEPT


def test_an_observation_of_ours_has_nothing_more(serve):
    """Octavo's own observation is known whole."""
    event = serve("memory://").append_event(said("hello"), "s")
    assert event.extra == {}
    assert msgspec.convert(msgspec.to_builtins(event), EventRecord) == event


def test_a_field_that_cannot_be_kept_is_refused_by_name(serve):
    """Rather than left out; what is its own business begins with an underscore."""
    memory = serve("memory://")
    with pytest.raises(InvalidRecord, match="'socket' of the observation cannot be written as JSON"):
        memory.append_event(types.SimpleNamespace(**KNOWN, socket=object()), "s")
    assert memory.append_event(types.SimpleNamespace(**KNOWN, _socket=object()), "s").extra == {}
