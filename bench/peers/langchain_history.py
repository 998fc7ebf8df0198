"""LangChain's SQLChatMessageHistory on SQLite; runs in LangChain's own environment."""

import asyncio
import json
import sqlite3
from contextlib import closing
from time import perf_counter

from langchain_community.chat_message_histories import SQLChatMessageHistory
from langchain_core.messages import HumanMessage, message_to_dict
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.peers.loop import answer, pragmas
from bench.rows import Row, few, rows, session_name, sessions_of

CROWD = 50
LAST = 50


class Peer:
    """One database file; the synchronous history for single calls, the asynchronous one for 50 at once."""

    engine: Engine
    several: AsyncEngine
    path: str
    sessions: int
    written: int

    async def open(self, path: str, durability: str, total: int) -> None:
        self.path, self.sessions, self.written = path, sessions_of(total), 0

        def settle(db, _record) -> None:
            for line in pragmas(durability):
                db.execute(line)

        self.engine = create_engine(f"sqlite:///{path}")
        self.several = create_async_engine(f"sqlite+aiosqlite:///{path}")
        event.listen(self.engine, "connect", settle)
        event.listen(self.several.sync_engine, "connect", settle)
        self.histories: dict[str, SQLChatMessageHistory] = {}
        self._history(session_name(0))  # creates the table

    def _history(self, session: str) -> SQLChatMessageHistory:
        if session not in self.histories:
            self.histories[session] = SQLChatMessageHistory(session, connection=self.engine)
        return self.histories[session]

    async def append(self, count: int) -> float:
        """Its synchronous call, which is its faster one: no await and no thread."""
        history = self._history(session_name(0))
        given = self._drawn(count)
        began = perf_counter()
        for row in given:
            history.add_message(_message(row))
        return perf_counter() - began

    async def crowd(self, count: int) -> float:
        history = SQLChatMessageHistory(session_name(0), connection=self.several)
        given = self._drawn(count)

        async def appender(mine: list[Row]) -> None:
            for row in mine:
                await history.aadd_message(_message(row))

        began = perf_counter()
        await asyncio.gather(*(appender(given[at::CROWD]) for at in range(CROWD)))
        return perf_counter() - began

    async def fill(self, count: int, in_turn: bool) -> None:
        """Bulk insert into its own table what its own add_message would have written there."""
        with closing(sqlite3.connect(self.path)) as db, db:
            db.executemany(
                "INSERT INTO message_store (session_id, message) VALUES (?, ?)",
                (
                    (row.session, json.dumps(message_to_dict(_message(row))))
                    for row in self._drawn(count, in_turn=in_turn)
                ),
            )

    async def last(self, count: int) -> float:
        """Its only way to the last 50 of a session is all of the session, cut in Python."""
        opened = [self._history(session) for session in few(self.sessions)]
        began = perf_counter()
        for turn in range(count):
            found = opened[turn % len(opened)].messages[-LAST:]
            if len(found) != LAST:
                raise AssertionError(f"{len(found)} messages instead of {LAST}")
        return perf_counter() - began

    def _drawn(self, count: int, *, in_turn: bool = False) -> list[Row]:
        drawn = rows(self.written, count, self.sessions, in_turn=in_turn)
        self.written += count
        return drawn

    async def close(self) -> None:
        self.engine.dispose()
        await self.several.dispose()


def _message(row: Row) -> HumanMessage:
    facts = {
        "agent": row.agent,
        "kind": row.kind,
        "step": row.data["step"],
        "at": row.at.isoformat(),
        **row.metadata,
    }
    return HumanMessage(row.data["content"], additional_kwargs=facts)


if __name__ == "__main__":
    peer = Peer()
    verbs = (peer.open, peer.append, peer.crowd, peer.fill, peer.last, peer.close)
    asyncio.run(answer({verb.__name__: verb for verb in verbs}))
