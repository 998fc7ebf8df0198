"""Files in the shape that other programs give them."""

import itertools
import json
import sqlite3
import uuid


def chatgpt_node(number, parent, children, role, content, at, **more):
    """One node of a conversation's tree."""
    message = {
        "id": f"m{number}",
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "update_time": None,
        "content": content if isinstance(content, dict) else {"content_type": "text", "parts": [content]},
        "status": "finished_successfully",
        "end_turn": None,
        "weight": 1.0,
        "metadata": {"model_slug": "gpt-5"} if role == "assistant" else {},
        "recipient": "all",
        "channel": None,
        **more,
    }
    return {"id": f"m{number}", "message": message, "parent": parent, "children": children}


def chatgpt_conversations():
    """Two conversations: one with a branch that was given up, a picture, thoughts and an empty message; one plain."""
    first = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["m0"]},
        "m0": chatgpt_node(0, "root", ["m1", "m8"], "system", "", None, weight=0.0),
        "m1": chatgpt_node(1, "m0", ["m2"], "user", "I live in Berlin.", 1700000000.5),
        "m2": chatgpt_node(
            2,
            "m1",
            ["m3"],
            "assistant",
            {"content_type": "thoughts", "thoughts": [{"summary": "Home", "content": "Berlin it is."}]},
            1700000001.0,
        ),
        "m3": chatgpt_node(3, "m2", ["m4"], "assistant", "好的，记住了。", 1700000001.0),
        "m4": chatgpt_node(
            4,
            "m3",
            [],
            "user",
            {
                "content_type": "multimodal_text",
                "parts": [
                    {
                        "content_type": "image_asset_pointer",
                        "asset_pointer": "file-service://file-1",
                        "width": 1,
                    },
                    "What is this?",
                ],
            },
            1700000002.25,
        ),
        "m8": chatgpt_node(8, "m0", [], "user", "I live in Bonn.", 1699999999.0),
    }
    second = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["m0"]},
        "m0": chatgpt_node(0, "root", [], "user", "Hello again", 1700100000.0),
    }
    told = {
        "title": "Home",
        "create_time": 1699999990.0,
        "update_time": 1700000010.0,
        "moderation_results": [],
    }
    return [
        {**told, "mapping": first, "current_node": "m4", "conversation_id": "c1", "id": "c1"},
        {
            **told,
            "title": "Again",
            "mapping": second,
            "current_node": "m0",
            "conversation_id": "c2",
            "id": "c2",
        },
    ]


def write_large_chatgpt(path, conversations, messages):
    """An export with so many conversations of so many messages, written as it is made."""
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for number in range(conversations):
            mapping = {"root": {"id": "root", "message": None, "parent": None, "children": ["m0"]}}
            for at in range(messages):
                role = "user" if at % 2 == 0 else "assistant"
                parent, children = (
                    (f"m{at - 1}" if at else "root"),
                    [f"m{at + 1}"] if at + 1 < messages else [],
                )
                text = f"Message {at} of conversation {number}: the green chair stands in room {at * 7}. " * 4
                node = chatgpt_node(at, parent, children, role, text, 1700000000.0 + number * 1000 + at)
                node["message"]["id"] = f"c{number}-m{at}"
                mapping[f"m{at}"] = node
            told = {
                "title": f"Talk {number}",
                "create_time": 1700000000.0 + number * 1000,
                "mapping": mapping,
            }
            told |= {"current_node": f"m{messages - 1}", "conversation_id": f"c{number}", "id": f"c{number}"}
            file.write(("," if number else "") + json.dumps(told))
        file.write("]")


def claude_conversations():
    """A conversation with a tool, an attachment and an empty message."""
    numbers = itertools.count(1)

    def message(sender, content, **more):
        number = next(numbers)
        text = "".join(block.get("text", "") for block in content)
        at = f"2026-03-01T12:00:{number:02d}.123456Z"
        return {"uuid": f"u{number}", "text": text, "content": content, "sender": sender, "created_at": at,
                "updated_at": at, "attachments": [], "files": [], **more}  # fmt: skip

    said = [
        message("human", [{"type": "text", "text": "I am allergic to peanuts.", "citations": []}]),
        message(
            "assistant",
            [
                {"type": "thinking", "thinking": "A fact.", "cut_off": False},
                {"type": "tool_use", "id": "t1", "name": "remember", "input": {"fact": "peanuts"}},
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "name": "remember",
                    "content": [{"type": "text", "text": "ok"}],
                },
                {"type": "text", "text": "I will keep that in mind."},
            ],
        ),
        message("human", [], attachments=[{"file_name": "menu.txt", "extracted_content": "Satay"}]),
        message("assistant", []),
    ]
    return [{"uuid": "k1", "name": "Food", "created_at": "2026-03-01T12:00:00Z", "updated_at": "2026-03-01T12:01:00Z",
             "account": {"uuid": "a1"}, "chat_messages": said}]  # fmt: skip


def mem0_page():
    """What mem0's get_all answers."""
    told = {
        "hash": "x",
        "categories": ["food"],
        "created_at": "2026-03-01T12:00:00-08:00",
        "updated_at": None,
    }
    return {
        "results": [
            {**told, "id": str(uuid.UUID(int=1)), "memory": "Allergic to peanuts", "user_id": "lin",
             "metadata": {"sure": True}, "run_id": "monday"},
            {**told, "id": str(uuid.UUID(int=2)), "memory": "Answers briefly", "agent_id": "planner", "metadata": None},
            {**told, "id": str(uuid.UUID(int=3)), "memory": "Has a cold", "user_id": "lin", "expiration_date": "2099-01-01"},
            {**told, "id": str(uuid.UUID(int=4)), "note": "no memory at all"},
        ]
    }  # fmt: skip


MCP_LINES = [
    {
        "type": "entity",
        "name": "Lin",
        "entityType": "person",
        "observations": ["lives in Berlin", "drinks tea"],
    },
    {"type": "entity", "name": "Octavo", "entityType": "project", "observations": []},
    {"type": "relation", "from": "Lin", "to": "Octavo", "relationType": "uses"},
    {"type": "thing"},
]

#: As SQLAlchemy makes the tables of mk2 and Z-Memory on SQLite.
MK2 = """
CREATE TABLE events (event_id VARCHAR(128) NOT NULL, session_key VARCHAR(255), ts FLOAT, obs_json TEXT, gate_json TEXT,
    meta_json TEXT, created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (event_id));
CREATE TABLE turns (turn_id VARCHAR(128) NOT NULL, session_key VARCHAR(255), started_ts FLOAT, finished_ts FLOAT,
    input_event_id VARCHAR(128), plan_json TEXT, tool_calls_json TEXT, tool_results_json TEXT,
    final_output_obs_id VARCHAR(128), status VARCHAR(32), error TEXT, meta_json TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (turn_id));
CREATE TABLE configs (config_key VARCHAR(255) NOT NULL, content TEXT, frontmatter_json TEXT, md5 VARCHAR(32),
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP, created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (config_key));
CREATE TABLE knowledge (knowledge_key VARCHAR(255) NOT NULL, content TEXT, frontmatter_json TEXT, md5 VARCHAR(32),
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP, created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (knowledge_key));
"""
Z_MEMORY = """
CREATE TABLE profile_memories (id VARCHAR NOT NULL, memory_type VARCHAR NOT NULL, entity_id VARCHAR NOT NULL, content TEXT NOT NULL,
    metadata JSON, embedding_id VARCHAR, created_at DATETIME, updated_at DATETIME, PRIMARY KEY (id));
CREATE TABLE event_memories (id VARCHAR NOT NULL, memory_type VARCHAR NOT NULL, entity_id VARCHAR NOT NULL, content TEXT NOT NULL,
    metadata JSON, embedding_id VARCHAR, is_permanent BOOLEAN, expiry_date DATETIME, created_at DATETIME, updated_at DATETIME,
    PRIMARY KEY (id));
CREATE TABLE memory_logs (id VARCHAR NOT NULL, memory_id VARCHAR NOT NULL, memory_layer VARCHAR NOT NULL, action VARCHAR NOT NULL,
    reason TEXT NOT NULL, metadata JSON, reward FLOAT, outcome JSON, evaluated_at DATETIME, created_at DATETIME, PRIMARY KEY (id));
"""


def observation(text):
    """An observation as mk2 writes it."""
    return {
        "obs_id": "o1",
        "obs_type": "message",
        "source_kind": "external",
        "source_name": "cli",
        "session_key": "dm:lin",
        "actor": {"actor_id": "lin", "actor_type": "user", "display_name": "Lin"},
        "timestamp": "2026-03-01T12:00:00+00:00",
        "payload": {"text": text, "attachments": [], "extra": {}},
        "tags": ["a"],
        "metadata": {},
    }


def write_mk2(path):
    """mk2's database with an event that can be read and one that cannot, a turn, a config and a piece of knowledge."""
    with sqlite3.connect(path) as db:
        db.executescript(MK2)
        event = "INSERT INTO events (event_id, session_key, ts, obs_json, gate_json, meta_json) VALUES (?, 'dm:lin', ?, ?, ?, ?)"
        gate = json.dumps({"action": "deliver"})
        db.execute(event, ("e1", 1772366400.25, json.dumps(observation("我对花生过敏")), gate, '{"a": 1}'))
        db.execute(event, ("e2", 1772366401.0, '{"torn', None, "{}"))
        db.execute(
            "INSERT INTO turns VALUES ('t1', 'dm:lin', 1772366400.5, 1772366402.0, 'e1', ?, '[{\"name\": \"x\"}]', '[]', 'o9', 'ok', "
            "NULL, '{}', '2026-03-01 12:00:00')",
            ('{"steps": ["answer"]}',),
        )
        db.execute(
            "INSERT INTO configs (config_key, content, frontmatter_json, md5) VALUES ('users/lin', 'Likes tea.', '{\"name\": \"Lin\"}', '')"
        )
        db.execute(
            "INSERT INTO knowledge (knowledge_key, content, frontmatter_json, md5) VALUES ('tea', 'Green tea at 70 degrees.', '{}', '')"
        )
    db.close()


def write_z_memory(path):
    """Z-Memory's database: two facts of a user, one of an agent, and a log with the row of one that is gone."""
    with sqlite3.connect(path) as db:
        db.executescript(Z_MEMORY)
        at = "2026-03-01 12:00:00.000000"
        profile = "INSERT INTO profile_memories VALUES (?, ?, ?, ?, ?, NULL, ?, ?)"
        db.execute(profile, ("p1", "user", "user123", "用户是一名软件工程师", '{"source": "chat"}', at, at))
        db.execute(profile, ("p2", "agent", "planner", "回答要简短", "{}", at, at))
        db.execute(
            "INSERT INTO event_memories VALUES ('e1', 'user', 'user123', '参加了技术分享会', '{}', NULL, 0, '2099-01-01 00:00:00', ?, ?)",
            (at, at),
        )
        log = "INSERT INTO memory_logs VALUES (?, ?, ?, ?, ?, '{}', NULL, '{}', NULL, ?)"
        db.execute(log, ("l1", "p1", "profile", "insert", "新的职业信息", at))
        db.execute(log, ("l2", "gone", "event", "delete", "过期", at))
    db.close()
