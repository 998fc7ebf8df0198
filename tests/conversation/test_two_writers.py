"""Two writers of one conversation, on a slow network or with the store away: what is pruned is what has left, and no more."""

import asyncio
import random

import pytest

from octavo import Journal, Query, Scope, StoreUnavailable, open_store
from octavo.conversation import (
    AIMessage,
    ConversationBufferWindowMemory,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    HumanMessage,
    StoreChatMessageHistory,
)
from octavo.wraps import Wrap
from sampled import FULL

pytestmark = [pytest.mark.every_store, pytest.mark.torture]

STORES = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
ROUNDS = 20 if FULL else 8
QUEUE = {"backoff": (0.01, 0.05), "timeout": 2.0}


class Slow(Wrap):
    """A store at the other end of a slow network, which may be `away`."""

    def __init__(self, store, seed=None):
        super().__init__(store)
        self.away = False
        self._delays = None if seed is None else random.Random(seed)

    async def _travel(self):
        if self.away:
            raise StoreUnavailable("the store is away")
        if self._delays is not None:
            await asyncio.sleep(self._delays.choice((0, 0, 0.0005, 0.002)))

    async def apply(self, ops):
        await self._travel()
        counts = await self.inner.apply(ops)
        await self._travel()
        return counts

    async def find(self, query):
        await self._travel()
        found = await self.inner.find(query)
        await self._travel()
        return found

    async def tally(self, query):
        await self._travel()
        counted = await self.inner.tally(query)
        await self._travel()
        return counted


@pytest.fixture
def store_url(tmp_path, conversation_url):
    local = {
        "memory": "memory://",
        "file": f"file://{tmp_path}/kept",
        "sqlite": f"sqlite:///{tmp_path}/kept.db",
    }
    return lambda kind: local.get(kind) or conversation_url(kind)


@pytest.fixture
async def two_stores(store_url):
    """`await two_stores(kind)`: two stores on the same records, each at the end of a slow network of its own."""
    opened = []

    async def made(kind):
        first = open_store(store_url(kind))
        second = first if kind == "memory" else open_store(store_url(kind))
        opened.extend({id(store): store for store in (first, second)}.values())
        return Slow(first, seed=1), Slow(second, seed=2)

    yield made
    for store in opened:
        await store.close()


def turns(name, count):
    return [({"input": f"{name} asks {n}"}, {"output": f"{name} hears {n}"}) for n in range(count)]


async def save(memory, said):
    for asked, answered in said:
        await memory.asave_context(asked, answered)


@pytest.mark.parametrize("kind", STORES)
async def test_two_writers_leave_a_full_window(two_stores, kind):
    """k=5 and two writers: ten messages are left, in each round."""
    one, two = await two_stores(kind)
    left = []
    for number in range(ROUNDS):
        session = f"window {kind} {number} {random.random()}"
        histories = [StoreChatMessageHistory(store, session) for store in (one, two)]
        await histories[0].aadd_messages([HumanMessage(f"old {n}") for n in range(10)])
        memories = [ConversationBufferWindowMemory(5, chat_memory=history) for history in histories]
        await asyncio.gather(save(memories[0], turns("a", 2)), save(memories[1], turns("b", 2)))
        left.append(await histories[0].acount())
    assert left == [10] * ROUNDS


@pytest.mark.parametrize("kind", STORES)
async def test_two_token_buffers_drop_only_what_no_longer_fits(two_stores, kind):
    """What both of them would show is there: the newest turns that fit, however the two meet."""
    one, two = await two_stores(kind)
    for number in range(ROUNDS):
        session = f"tokens {kind} {number} {random.random()}"
        histories = [StoreChatMessageHistory(store, session) for store in (one, two)]
        large = [HumanMessage("x" * 90), AIMessage("y")]  # does not fit beside anything else
        await histories[0].aadd_messages([*large, HumanMessage("q"), AIMessage("a")])
        memories = [
            ConversationTokenBufferMemory(None, 100, count_tokens=len, chat_memory=history)
            for history in histories
        ]
        short = [({"input": "a"}, {"output": "b"})]
        await asyncio.gather(save(memories[0], short), save(memories[1], short))
        assert [m.text for m in await histories[0].aget_messages()] == ["q", "a", "a", "b", "a", "b"]


@pytest.mark.parametrize("kind", STORES)
async def test_a_summary_takes_away_only_what_is_in_it(two_stores, kind):
    """Two summarise the same conversation: whatever was said is in the summary that stands, or is still there."""
    one, two = await two_stores(kind)
    for number in range(ROUNDS):
        session = f"summary {kind} {number} {random.random()}"
        histories = [StoreChatMessageHistory(store, session) for store in (one, two)]
        memories = [
            ConversationSummaryMemory(Sentences(), chat_memory=history, prompt=Plainly())
            for history in histories
        ]
        await asyncio.gather(save(memories[0], turns("a", 3)), save(memories[1], turns("b", 3)))
        summary = (await histories[0].aget_state("summary") or {}).get("summary", "")
        told = summary + "\n".join(message.text for message in await histories[0].aget_messages())
        missing = [f"{name} asks {n}" for name in "ab" for n in range(3) if f"{name} asks {n}" not in told]
        assert not missing, told


class Sentences:
    """A model that keeps every word."""

    async def ainvoke(self, prompt):
        await asyncio.sleep(0.001)
        return prompt

    def invoke(self, prompt):
        return prompt


class Plainly:
    """A prompt that is the summary and what is new."""

    def format(self, summary, new_lines):
        return f"{summary}\n{new_lines}"


@pytest.mark.parametrize("make", ["window", "tokens", "summary"])
@pytest.mark.parametrize("kind", STORES)
async def test_pruning_is_never_queued(store_url, tmp_path, kind, make):
    """While the store is away a turn is queued and nothing is pruned; with the next save it is."""
    inner = Slow(open_store(store_url(kind)))
    session = f"away {kind} {make} {random.random()}"
    # What is asked while the store is away waits for so long, twice.
    async with Journal(inner, tmp_path / "queue", **QUEUE | {"timeout": 0.75}) as journal:
        history = StoreChatMessageHistory(journal, session)
        memory = {
            "window": lambda: ConversationBufferWindowMemory(1, chat_memory=history),
            "tokens": lambda: ConversationTokenBufferMemory(None, 20, count_tokens=len, chat_memory=history),
            "summary": lambda: ConversationSummaryBufferMemory(
                Sentences(), 20, count_tokens=len, chat_memory=history
            ),
        }[make]()
        await save(memory, turns("a", 2))
        assert await history.acount() == 2
        inner.away = True
        await save(memory, turns("b", 2))
        assert journal.status().waiting == 2
        inner.away = False
        await journal.replay_now()
        while journal.status().state != "up":
            await asyncio.sleep(0.01)
        assert await history.acount() == 6
        await save(memory, turns("c", 1))
        assert [message.text for message in await history.aget_messages()] == ["c asks 0", "c hears 0"]
        every = Query(collection="messages", scope=Scope(user="default_user", session=session))
        assert (await inner.tally(every)).total == 2
