"""Answers as the OpenAPI document shows them: values of the very structs that are answered."""

from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from octavo import __version__
from octavo.client.answers import Counted, MemoryWithHistory, Replayed, Session, Stats
from octavo.layers.values import LogEntry, Memory, State
from octavo.server.answers import (
    Answers,
    Configuration,
    EventList,
    FoundMemory,
    HealthReport,
    LogList,
    MemoryList,
    Remembered,
    SessionList,
    TurnList,
)
from octavo.service.records import EventRecord, TurnRecord
from octavo.wraps.journal import JournalStatus

_AT = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
_ID = "user_user123_1794731400.123456"

MEMORY = Memory(
    id=_ID,
    memory_type="user",
    entity_id="user123",
    layer="profile",
    category="career",
    content="用户是一名软件工程师，毕业于北京大学",
    is_permanent=True,
    created_at=_AT,
    updated_at=_AT,
)
REVISED = replace(MEMORY, version=2)
EPISODE = replace(
    MEMORY,
    id="user_user123_1794731460.654321",
    layer="event",
    category="meeting",
    content="Joined the product review in the afternoon",
    is_permanent=False,
)
_STATE = State(
    category="career",
    content=MEMORY.content,
    data={"is_permanent": True},
    created_at=_AT,
    updated_at=_AT,
)
_LOG = LogEntry(
    id=f"log_{_ID}_1",
    memory_id=_ID,
    memory_layer="profile",
    action="insert",
    reason="用户直接写入",
    created_at=_AT,
    version=1,
    after=_STATE,
)
UNDONE = replace(
    _LOG,
    id=f"log_{_ID}_3",
    action="update",
    reason="记错了",
    metadata={"undo_of": f"log_{_ID}_2"},
    version=3,
    before=_STATE,
)
REMEMBERED = Remembered(id=_ID, status="success", created_at=_AT, layer="profile", category="career")
WITH_HISTORY = MemoryWithHistory(**asdict(MEMORY), history=[_LOG])
PROFILE = MemoryList(user_id="user123", layer="profile", count=1, memories=[MEMORY])
EPISODES = MemoryList(user_id="user123", layer="event", count=1, memories=[EPISODE])
FOUND = Answers(query="他在哪里上的大学？", count=1, memories=[FoundMemory(**asdict(MEMORY), score=0.82)])
MEMORY_LOG = LogList(memory_id=_ID, count=1, logs=[_LOG])
OWNER_LOG = LogList(user_id="user123", count=1, logs=[_LOG])
EVENT = EventRecord(
    event_id="evt_4f2d0c3d9a0b4b5a8c7d6e5f40312233",
    session_key="dm:lin",
    obs_id="obs_0655f5e8a1b2c3",
    obs_type="message",
    payload={"text": "我对花生过敏"},
    source_name="cli",
    actor="lin",
    timestamp=_AT,
    created_at=_AT,
)
_TURN = TurnRecord(
    turn_id="turn_0655f5e8a1b2c3",
    session_key="dm:lin",
    input_event_id=EVENT.event_id,
    plan={"steps": ["answer"]},
    status="ok",
    final_output_obs_id="obs_answer",
    created_at=_AT,
    finished_at=_AT,
)
EVENTS = EventList(session=None, count=1, events=[EVENT])
SESSION_EVENTS = EventList(session="dm:lin", count=1, events=[EVENT])
TURNS = TurnList(session="dm:lin", count=1, turns=[_TURN])
SESSIONS = SessionList(count=1, sessions=[Session(session="dm:lin", events=12, first_at=_AT, last_at=_AT)])
_COUNTED = Counted(total=2, by_kind={"career": 1, "preference": 1}, first_at=_AT, last_at=_AT)
_NONE = Counted(total=0, by_kind={}, first_at=None, last_at=None)
STATS = Stats(
    profile=_COUNTED, event=_NONE, logs=replace(_COUNTED, by_kind={"insert": 2}), events=_NONE, turns=_NONE
)
QUEUE = JournalStatus(
    state="up",
    directory="octavo_queue",
    waiting=0,
    dead=0,
    bad_lines=0,
    stored=120,
    queued=3,
    replayed=3,
    buried=0,
    refused=0,
)
REPLAYED = Replayed(replayed=3, waiting=0)
HEALTH = HealthReport(status="ok", store="up", waiting=0, version=__version__)
CONFIGURATION = Configuration(sections={"database": {"dsn": "postgresql://octavo:…@db/octavo"}})
