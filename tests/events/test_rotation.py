"""File rotation: many archives, several of one second, two processes; nothing is lost to any question."""

import asyncio
import json
import subprocess

import pytest

from octavo import EventType, FileMemoryStore
from warm import programs

WRITER = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from octavo import AgentEvent, EventType, FileMemoryStore

async def main(folder, who, count, per_session, format):
    config = {"base_path": folder, "rotate_size": 20_000, "file_per_session": per_session == "True", "format": format}
    async with FileMemoryStore(config) as store:
        begun = datetime(2024, 1, 1, tzinfo=UTC)
        for first in range(0, count, 20):
            kept = await asyncio.gather(*(
                store.store(AgentEvent(
                    event_id=f"{who}-{n:05}", agent_name=who, session_id=f"s{n % 3}",
                    event_type=EventType.USER_MESSAGE if n % 2 else EventType.TOOL_CALL_ERROR,
                    timestamp=begun + timedelta(seconds=n), data={"message": f"消息 number{n} 计算器"},
                ))
                for n in range(first, first + 20)
            ))
            assert all(kept)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]))
"""


@pytest.mark.torture
@pytest.mark.parametrize(
    ("per_session", "format_", "count"), [(True, "jsonl", 5000), (False, "jsonl", 5000), (True, "json", 500)]
)
async def test_nothing_is_lost(tmp_path, per_session, format_, count, size):
    """Two processes, thousands of events each, dozens of archives, a hundred at full length: all are retrieved, found, counted and cleared."""
    count = min(count, size(2000, 5000))
    writers = [
        subprocess.Popen(
            [f"{programs()}/python", "-c", WRITER, tmp_path, who, str(count), str(per_session), format_]
        )
        for who in ("p", "q")
    ]
    for writer in writers:
        assert await asyncio.to_thread(writer.wait, 240) == 0
    files = sorted(path.name for path in tmp_path.glob(f"*.{format_}"))
    archives = [name for name in files if "Z-" in name]
    assert len(archives) > count // 250
    seconds = [name.partition(".")[0] + name.partition(".")[2].partition("-")[0] for name in archives]
    if format_ == "jsonl":  # several of one session within one second, on the slowest machine too
        assert len(set(seconds)) < len(seconds)
    for name in files:  # each is readable by whoever knows JSON
        text = (tmp_path / name).read_text()
        lines = json.loads(text) if format_ == "json" else [json.loads(line) for line in text.splitlines()]
        assert all("event_id" in line for line in lines)

    config = {
        "base_path": tmp_path,
        "rotate_size": 20_000,
        "file_per_session": per_session,
        "format": format_,
    }
    async with FileMemoryStore(config) as store:
        events = await store.retrieve(limit=None)
        assert len(events) == 2 * count
        assert {event.event_id for event in events} == {f"{who}-{n:05}" for who in "pq" for n in range(count)}
        stats = await store.get_stats()
        assert stats["total_events"] == 2 * count
        assert stats["by_type"] == {"tool_call_error": count, "user_message": count}
        assert stats["total_size_bytes"] == sum((tmp_path / name).stat().st_size for name in files)
        assert len(await store.retrieve(session_id="s1", agent_name="p", limit=None)) == len(
            range(1, count, 3)
        )
        assert {e.event_id for e in await store.search("number0 ", everyone=True)} == {
            "p-00000",
            "q-00000",
        }  # the oldest of all
        assert len(await store.search("计算器", limit=100, everyone=True)) == 100
        assert await store.clear(agent_name="q") == count
        assert len(await store.retrieve(event_type=EventType.USER_MESSAGE, limit=None)) == count // 2
        assert await store.search("number0 ", agent_name="q") == []
    async with FileMemoryStore(config) as store:
        assert (await store.get_stats())["total_events"] == count
        assert await store.clear() == count
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".json", ".jsonl")] == []
