"""A store that is handed in lives on one event loop, whoever of those that share it is asked first."""

import asyncio

import pytest

from octavo import open_store
from octavo.conversation import HumanMessage, RecallRetriever, StoreChatMessageHistory


async def test_histories_of_one_store_work_where_it_lives(tmp_path):
    """One made here, one made in a thread that knows no loop: blocking and awaited calls of both reach the same place."""
    async with asyncio.timeout(30), open_store(f"sqlite:///{tmp_path}/a.db") as store:
        here = StoreChatMessageHistory(store, "one")
        there = await asyncio.to_thread(StoreChatMessageHistory, store, "two")
        await asyncio.gather(
            *[asyncio.to_thread(there.add_user_message, f"blocked {number}") for number in range(20)],
            *[here.aadd_message(HumanMessage(f"awaited {number}")) for number in range(20)],
        )
        assert await there.acount() == await asyncio.to_thread(here.count) == 20
        with pytest.raises(RuntimeError, match="await the a… twin"):
            there.count()
        retriever = await asyncio.to_thread(RecallRetriever, store)
        await asyncio.to_thread(retriever.add_texts, ["the violin is from Lyon"])
        assert [found.page_content for found in await retriever.ainvoke("violin")] == [
            "the violin is from Lyon"
        ]
