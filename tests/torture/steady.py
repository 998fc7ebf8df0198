"""A service under a steady stream of events, in this process or in one that will be killed.

As a program, `python steady.py CONFIG SESSIONS` appends events for ever and prints the id of each that was acknowledged.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from octavo.config import load_settings
from octavo.service import MemoryService, MessagePayload, Observation, ObservationType


def configured(folder: Path, dsn: str, timeout: float = 5.0) -> Path:
    """A configuration file for a service that keeps everything but the database in this folder."""
    path = folder / "memory.yaml"
    path.write_text(
        f"database:\n  dsn: {dsn}\n"
        f"vault:\n  root_path: {folder}/vault\n"
        f"failure_queue:\n  directory: {folder}/queue\n  max_in_memory: 500\n  max_dump_file_size_mb: 1\n"
        f"  backoff_max_seconds: 2\n"
        f"service:\n  timeout_seconds: {timeout}\n"
    )
    return path


def said(session: str, number: int) -> Observation:
    """The numbered message of a session."""
    return Observation(
        obs_type=ObservationType.MESSAGE,
        payload=MessagePayload(text=f"{session} says {number}"),
        session_key=session,
        source_name="steady",
        metadata={"number": number},
    )


@dataclass
class Stream:
    """What the callers of a service were told: event ids by session, in the order they were sent, and how long each waited."""

    sent: dict[str, list[str]] = field(default_factory=dict)
    statuses: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.statuses)

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]


@asynccontextmanager
async def streaming(
    service: MemoryService, *, sessions: int = 20, per_second: float = 200
) -> AsyncIterator[Stream]:
    """Send events at this pace while the block runs, each session one after the other."""
    stream, ending = Stream(), asyncio.Event()

    async def talk(session: str, offset: float) -> None:
        ids = stream.sent.setdefault(session, [])
        start = time.monotonic() + offset
        while not ending.is_set():
            began = time.monotonic()
            event = await service.aappend_event(said(session, len(ids)), session)
            stream.seconds.append(time.monotonic() - began)
            stream.statuses.append(event.status)
            ids.append(event.event_id)
            # By the clock, not by pauses: whoever had to wait catches up, so that the pace is kept.
            await asyncio.sleep(max(0.0, start + len(ids) * sessions / per_second - time.monotonic()))

    async with asyncio.TaskGroup() as group:
        for number in range(sessions):
            group.create_task(talk(f"session-{number}", number / per_second))
        yield stream
        ending.set()


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 120) -> None:
    """Wait for something that must come true."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.05)


async def append_for_ever(config: str, sessions: int) -> None:
    """Append events, and print each acknowledged one; the line is the acknowledgement."""
    service = MemoryService.from_settings(load_settings(config))

    async def talk(session: str) -> None:
        number = 0
        while True:
            event = await service.aappend_event(said(session, number), session)
            print(event.event_id, flush=True)
            number += 1

    await asyncio.gather(*(talk(f"session-{number}") for number in range(sessions)))


if __name__ == "__main__":
    asyncio.run(append_for_ever(sys.argv[1], int(sys.argv[2])))
