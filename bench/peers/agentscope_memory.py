"""AgentScope's AsyncSQLAlchemyMemory on sqlite+aiosqlite; runs in AgentScope's own environment."""

import asyncio
import json
import sqlite3
from contextlib import closing
from time import perf_counter

from agentscope.memory import AsyncSQLAlchemyMemory
from agentscope.message import Msg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.peers.loop import answer, pragmas
from bench.rows import Row, few, rows, session_name, sessions_of

CROWD = 50
LAST = 50


class Peer:
    """One database file and the memories open on it, one per session."""

    engine: AsyncEngine
    path: str
    sessions: int
    written: int

    async def open(self, path: str, durability: str, total: int) -> None:
        self.path, self.sessions, self.written = path, sessions_of(total), 0
        self.memories: dict[str, AsyncSQLAlchemyMemory] = {}
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        event.listen(
            self.engine.sync_engine,
            "connect",
            lambda db, _: [db.execute(line) for line in pragmas(durability)],
        )
        await (await self._memory(session_name(0))).get_memory()  # creates the tables

    async def _memory(self, session: str) -> AsyncSQLAlchemyMemory:
        if session not in self.memories:
            self.memories[session] = AsyncSQLAlchemyMemory(self.engine, session_id=session, user_id="user")
        return self.memories[session]

    async def append(self, count: int) -> float:
        """One awaited append after the other, all to one session: its memory object is bound to one."""
        memory = await self._memory(session_name(0))
        given = self._drawn(count)
        began = perf_counter()
        for row in given:
            await memory.add(_message(row))
        return perf_counter() - began

    async def crowd(self, count: int) -> float:
        """50 tasks on one memory object, which is how it serialises its own writers."""
        memory = await self._memory(session_name(0))
        given = self._drawn(count)

        async def appender(mine: list[Row]) -> None:
            for row in mine:
                await memory.add(_message(row))

        began = perf_counter()
        await asyncio.gather(*(appender(given[at::CROWD]) for at in range(CROWD)))
        return perf_counter() - began

    async def fill(self, count: int, in_turn: bool) -> None:
        """Bulk insert into its own tables what its own add would have written there."""
        for memory in self.memories.values():
            await memory.close()
        names = [session_name(number) for number in range(self.sessions)]
        indexes = dict.fromkeys(names, 0)
        with closing(sqlite3.connect(self.path)) as db, db:
            db.executemany(
                "INSERT OR IGNORE INTO session (id, user_id) VALUES (?, 'user')", [(name,) for name in names]
            )
            for row in self._drawn(count, in_turn=in_turn):
                message = _message(row)
                db.execute(
                    'INSERT INTO message (id, msg, session_id, "index") VALUES (?, ?, ?, ?)',
                    (
                        f"user-{row.session}-{message.id}",
                        json.dumps(message.to_dict()),
                        row.session,
                        indexes[row.session],
                    ),
                )
                indexes[row.session] += 1

    async def last(self, count: int) -> float:
        """Its only way to the last 50 of a session is all of the session, cut in Python."""
        opened = [await self._memory(session) for session in few(self.sessions)]
        for memory in opened:
            await memory.size() if memory._initialized else await memory._create_table()  # noqa: SLF001
        began = perf_counter()
        for turn in range(count):
            found = (await opened[turn % len(opened)].get_memory())[-LAST:]
            if len(found) != LAST:
                raise AssertionError(f"{len(found)} messages instead of {LAST}")
        return perf_counter() - began

    def _drawn(self, count: int, *, in_turn: bool = False) -> list[Row]:
        drawn = rows(self.written, count, self.sessions, in_turn=in_turn)
        self.written += count
        return drawn

    async def close(self) -> None:
        for memory in self.memories.values():
            await memory.close()
        await self.engine.dispose()


def _message(row: Row) -> Msg:
    return Msg(
        row.agent,
        row.data["content"],
        "user",
        metadata={"kind": row.kind, "step": row.data["step"], **row.metadata},
    )


if __name__ == "__main__":
    peer = Peer()
    verbs = (peer.open, peer.append, peer.crowd, peer.fill, peer.last, peer.close)
    asyncio.run(answer({verb.__name__: verb for verb in verbs}))
