"""A source of every format, and what is in it."""

import json

from made import (
    MCP_LINES,
    chatgpt_conversations,
    claude_conversations,
    mem0_page,
    write_mk2,
    write_z_memory,
)

SAID = [
    {"role": "user", "content": "I live in Berlin."},
    {"role": "assistant", "content": "Noted.", "model": "m"},
    {"role": "user", "content": ""},
    {"content": "no role"},
]
EVENTS = [
    {"event_id": f"evt_{number}", "agent_name": "helper", "session_id": "s1", "event_type": kind,
     "timestamp": f"2026-03-01T12:00:0{number}", "data": {"message": "hello"}, "metadata": {}}
    for number, kind in enumerate(("user_message", "model_response", "unheard_of"))
]  # fmt: skip
LANGCHAIN = [
    {"type": "human", "data": {"content": "I live in Berlin.", "type": "human", "additional_kwargs": {}}},
    {"type": "ai", "data": {"content": "Noted.", "type": "ai", "tool_calls": [], "id": "run-1"}},
    {"type": "martian", "data": {"content": "?"}},
]
STATE = {
    "agent": {
        "name": "Friday",
        "memory": {
            "_compressed_summary": "They spoke of Berlin.",
            "content": [
                [{"id": "a1", "name": "lin", "role": "user", "content": "Hi", "metadata": {},
                  "timestamp": "2026-03-01 12:00:00.000"}, ["hint"]],
                [{"id": "a2", "name": "Friday", "role": "assistant", "content": [{"type": "text", "text": "Hello"}],
                  "metadata": None, "timestamp": "2026-03-01 12:00:00.000"}, []],
            ],
        },
    }
}  # fmt: skip
NOTES = """# Notes

- Likes tea
  and biscuits
* Lives in Berlin

A paragraph of
two lines.

## Work

1. Uses pnpm
   - never npm
"""
TOPIC = """---
name: testing
description: How tests are run
type: feedback
---

Run the focused tests only.

**Why:** the machine is shared.
"""


def lines(*values):
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def write_folder(path):
    path.mkdir()
    index = "# Memory\n\n- [Testing](testing.md) — how tests are run\n- The build is `make all`\n"
    (path / "MEMORY.md").write_text(index)
    (path / "testing.md").write_text(TOPIC)
    (path / "tools.md").write_text("---\nname: tools\n---\n- Uses ruff\n- Uses mypy\n")


def write_files(path):
    path.mkdir()
    (path / "session_s1.jsonl").write_text(lines(*EVENTS) + "torn\n")
    (path / "events.json").write_text(json.dumps([{**EVENTS[0], "event_id": "evt_9"}]))


#: format → how its source is written, what it is called, the records of each collection, how many cannot be read and are left out.
CASES = {
    "chatgpt": (lambda p: p.write_text(json.dumps(chatgpt_conversations())), "conversations.json", {"messages": 5}, 0, 2),
    "claude": (lambda p: p.write_text(json.dumps(claude_conversations())), "conversations.json", {"messages": 3}, 0, 1),
    "chat-jsonl": (lambda p: p.write_text(lines(*SAID) + "{torn\n"), "monday.jsonl", {"messages": 2}, 3, 0),
    "mem0": (lambda p: p.write_text(json.dumps(mem0_page())), "mem0.json", {"profile": 3, "log": 3}, 1, 0),
    "mcp-memory": (lambda p: p.write_text(lines(*MCP_LINES)), "memory.jsonl", {"graph_nodes": 2, "graph_edges": 1}, 1, 0),
    "langchain": (lambda p: p.write_text(json.dumps(LANGCHAIN)), "friday.json", {"messages": 2}, 1, 0),
    "agentscope": (lambda p: p.write_text(json.dumps(STATE)), "lin_s1.json", {"messages": 2, "summaries": 1}, 0, 0),
    "lightagent": (write_files, "agent_memory", {"events": 3}, 2, 0),
    "mk2": (write_mk2, "memory.db", {"observations": 1, "turns": 1, "configs": 1, "knowledge": 1}, 1, 0),
    "z-memory": (write_z_memory, "z.db", {"profile": 2, "episodes": 1, "log": 5}, 0, 0),
    "claude-code": (write_folder, "memory", {"profile": 4, "log": 4}, 0, 1),
    "markdown": (lambda p: p.write_text(NOTES), "notes.md", {"profile": 4, "log": 4}, 0, 0),
}  # fmt: skip
