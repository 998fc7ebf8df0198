"""Answers as the OpenAPI document shows them."""

from typing import Any

AT = "2026-11-15T08:30:00Z"
ID = "user_user123_1794731400.123456"

MEMORY: dict[str, Any] = {
    "id": ID,
    "memory_type": "user",
    "entity_id": "user123",
    "layer": "profile",
    "category": "career",
    "content": "用户是一名软件工程师，毕业于北京大学",
    "metadata": {},
    "is_permanent": True,
    "expiry_date": None,
    "created_at": AT,
    "updated_at": AT,
    "version": 1,
    "sources": [],
    "happened_at": None,
    "status": "success",
}
EPISODE: dict[str, Any] = {
    **MEMORY,
    "id": "user_user123_1794731460.654321",
    "layer": "event",
    "category": "meeting",
    "content": "Joined the product review in the afternoon",
    "is_permanent": False,
}
LOG: dict[str, Any] = {
    "id": f"log_{ID}_1",
    "memory_id": ID,
    "memory_layer": "profile",
    "action": "insert",
    "reason": "用户直接写入",
    "metadata": {},
    "created_at": AT,
    "version": 1,
    "before": None,
    "after": {
        "category": "career",
        "content": MEMORY["content"],
        "metadata": {},
        "data": {"is_permanent": True},
        "created_at": AT,
        "updated_at": AT,
        "expires_at": None,
    },
}
UNDONE: dict[str, Any] = {
    **LOG,
    "id": f"log_{ID}_3",
    "action": "update",
    "reason": "记错了",
    "metadata": {"undo_of": f"log_{ID}_2"},
    "version": 3,
    "before": LOG["after"],
}
REMEMBERED = {
    "id": ID,
    "status": "success",
    "created_at": AT,
    "mode": "direct",
    "layer": "profile",
    "category": "career",
}
PROFILE = {"user_id": "user123", "layer": "profile", "count": 1, "memories": [MEMORY]}
EPISODES = {"user_id": "user123", "layer": "event", "count": 1, "memories": [EPISODE]}
EVENT: dict[str, Any] = {
    "event_id": "evt_4f2d0c3d9a0b4b5a8c7d6e5f40312233",
    "session_key": "dm:lin",
    "obs_id": "obs_0655f5e8a1b2c3",
    "obs_type": "message",
    "payload": {"text": "我对花生过敏"},
    "source_name": "cli",
    "actor": "lin",
    "gate_result": None,
    "metadata": {},
    "extra": {},
    "meta": {},
    "timestamp": AT,
    "created_at": AT,
    "status": "stored",
}
TURN: dict[str, Any] = {
    "turn_id": "turn_0655f5e8a1b2c3",
    "session_key": "dm:lin",
    "input_event_id": EVENT["event_id"],
    "plan": {"steps": ["answer"]},
    "status": "ok",
    "final_output_obs_id": "obs_answer",
    "error": None,
    "meta": {},
    "created_at": AT,
    "finished_at": AT,
    "written": "stored",
}
SESSIONS = {
    "count": 1,
    "sessions": [{"session": "dm:lin", "events": 12, "first_at": AT, "last_at": AT}],
}
COUNTED = {"total": 2, "by_kind": {"career": 1, "preference": 1}, "first_at": AT, "last_at": AT}
NOTHING = {"total": 0, "by_kind": {}, "first_at": None, "last_at": None}
STATS = {
    "profile": COUNTED,
    "event": NOTHING,
    "logs": {**COUNTED, "by_kind": {"insert": 2}},
    "events": NOTHING,
    "turns": NOTHING,
}
QUEUE: dict[str, Any] = {
    "state": "up",
    "directory": "octavo_queue",
    "waiting": 0,
    "dead": 0,
    "bad_lines": 0,
    "stored": 120,
    "queued": 3,
    "replayed": 3,
    "buried": 0,
    "refused": 0,
    "oldest_at": None,
    "last_error": None,
    "queue_error": None,
    "next_try_at": None,
}
HEALTH = {"status": "ok", "store": "up", "waiting": 0, "version": "0.1.0", "warning": ""}
