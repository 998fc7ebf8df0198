"""A memory of one's own, the state that is there at once, and what belongs to whom."""

import asyncio
import inspect
import json

import pytest

from octavo import Add, Record, Scope, StoreClosed, StoreUnavailable, open_store
from octavo.chat import ChatMemory, InMemoryMemory, MemoryBase, Msg
from octavo.chat.named import run_without_waiting
from octavo.kernel.model import Query
from octavo.stores.memory import MemoryStore
from octavo.transfer import copy

DOCUMENTED = {
    "add", "delete", "delete_by_mark", "size", "clear", "get_memory", "update_messages_mark",
    "state_dict", "load_state_dict",
}  # fmt: skip


class ListMemory(MemoryBase):
    """A user's own memory: the nine documented methods and nothing else."""

    def __init__(self):
        self.content = []

    async def add(self, memories, marks=None, allow_duplicates=False):
        for message in [memories] if isinstance(memories, Msg) else memories or []:
            self.content.append((message, [marks] if isinstance(marks, str) else list(marks or [])))

    async def delete(self, msg_ids):
        before = len(self.content)
        self.content = [entry for entry in self.content if entry[0].id not in msg_ids]
        return before - len(self.content)

    async def delete_by_mark(self, mark):
        before = len(self.content)
        self.content = [entry for entry in self.content if mark not in entry[1]]
        return before - len(self.content)

    async def size(self):
        return len(self.content)

    async def clear(self):
        self.content = []

    async def get_memory(self, mark=None, exclude_mark=None, prepend_summary=True):
        found = [m for m, marks in self.content if mark in (None, *marks) and exclude_mark not in marks]
        if prepend_summary and self._compressed_summary:
            return [Msg("user", self._compressed_summary, "user"), *found]
        return found

    async def update_messages_mark(self, new_mark, old_mark=None, msg_ids=None):
        return 0

    def state_dict(self):
        return {"content": [message.to_dict() for message, _ in self.content]}

    def load_state_dict(self, state, strict=True):
        self.content = [(Msg.from_dict(told), []) for told in state["content"]]


async def test_a_memory_of_nine_methods():
    """What a subclass does not say works: the summary, close and `async with`."""
    assert MemoryBase.__abstractmethods__ == DOCUMENTED
    async with ListMemory() as memory:
        await memory.add(Msg("a", "b", "user"), marks="m")
        assert await memory.compressed_summary() == ""
        await memory.update_compressed_summary("so far")
        assert [message.content for message in await memory.get_memory(mark="m")] == ["so far", "b"]
        assert await memory.compressed_summary() == "so far"
    assert await ListMemory().compressed_summary() == ""


def test_an_unfinished_memory():
    """Python itself says which method is missing."""
    half = type("Half", (MemoryBase,), {name: lambda self: None for name in DOCUMENTED - {"size"}})
    with pytest.raises(TypeError, match="size"):
        half()


def test_signatures():
    """The documented arguments, in their order."""
    for owner in (MemoryBase, ChatMemory):
        for name, arguments in {
            "add": "memories marks allow_duplicates",
            "delete": "msg_ids",
            "delete_by_mark": "mark",
            "get_memory": "mark exclude_mark prepend_summary",
            "update_messages_mark": "new_mark old_mark msg_ids",
            "update_compressed_summary": "summary",
            "load_state_dict": "state strict",
        }.items():
            assert [*inspect.signature(getattr(owner, name)).parameters] == ["self", *arguments.split()]


async def test_a_state_at_once():
    """InMemoryMemory's state needs no await, and may have one."""
    memory = InMemoryMemory()
    await memory.add(Msg("a", "b", "user"), marks=["m"])
    state = memory.state_dict()
    assert isinstance(state, dict)
    assert await memory.state_dict() == state == json.loads(json.dumps(state))
    other = InMemoryMemory()
    other.load_state_dict(state)
    assert other.state_dict() == state
    await other.load_state_dict({"_compressed_summary": "s", "content": []})
    assert other.state_dict() == {"_compressed_summary": "s", "content": []}
    with pytest.raises(KeyError):
        other.load_state_dict({})


def test_a_state_without_a_loop():
    """Before and after asyncio.run too, as a program that saves its state on the way out does."""
    memory = InMemoryMemory()
    assert memory.state_dict() == {"_compressed_summary": "", "content": []}
    asyncio.run(memory.add(Msg("a", "b", "user")))
    saved = memory.state_dict()
    asyncio.run(memory.clear())
    memory.load_state_dict(saved)
    assert asyncio.run(memory.size()) == 1


def test_work_that_waits_is_not_done_at_once():
    """It is broken off and said so, rather than half done in silence."""
    with pytest.raises(RuntimeError, match="without await"):
        run_without_waiting(asyncio.sleep(0))


async def test_moving_between_stores(tmp_path):
    """A conversation moves with load_state_dict(state_dict()), marks, copies and summary included."""
    source = InMemoryMemory()
    message = Msg("a", "b", "user")
    await source.add([message, message], marks=["m", "n"], allow_duplicates=True)
    await source.update_compressed_summary("so far")
    async with ChatMemory.open(f"sqlite:///{tmp_path}/chat.db", "u", "s") as target:
        await target.load_state_dict(source.state_dict())
        assert await target.state_dict() == source.state_dict()
    async with ChatMemory.open(f"sqlite:///{tmp_path}/chat.db", "u", "s") as again:
        assert await again.state_dict() == source.state_dict()
        assert await again.delete([message.id]) == 2


async def test_copying_a_store(tmp_path):
    """`octavo copy` takes conversations along whole: order, marks, copies and summaries."""
    message = Msg("a", "b", "user")
    async with (
        open_store(f"sqlite:///{tmp_path}/chat.db") as source,
        open_store(f"file://{tmp_path}/chat") as target,
    ):
        for user in ("u", "U"):
            memory = ChatMemory(source, user, "s")
            await memory.add(
                [message, Msg("a", user, "user"), message], marks=["n", "m"], allow_duplicates=True
            )
            await memory.update_compressed_summary(f"of {user}")
        await copy(source, target)
        for user in ("u", "U"):
            moved = ChatMemory(target, user, "s")
            assert await moved.state_dict() == await ChatMemory(source, user, "s").state_dict()
            assert await moved.size() == 3
            assert await moved.delete([message.id]) == 2


async def test_whose_store():
    """A store that is handed in stays open; one that a URL opened is closed."""
    async with MemoryStore() as store:
        async with ChatMemory(store, "u", "s") as memory:
            await memory.add(Msg("a", "b", "user"))
        assert len(await store.find(Query(collection="messages"))) == 1
    async with ChatMemory.open("memory://", user_id="u", session_id="s") as memory:
        assert (memory.user_id, memory.session_id) == ("u", "s")
    with pytest.raises(StoreClosed):
        await memory.size()
    await memory.close()


async def test_records_of_other_faces_are_readable():
    """What another face kept in the session is read as far as it goes."""
    async with MemoryStore() as store:
        kept = Record(
            collection="messages", id="x", kind="ai", scope=Scope(user="u", session="s"), text="hello"
        )
        await store.apply([Add([kept])])
        [message] = await ChatMemory(store, "u", "s").get_memory()
        assert (message.id, message.role, message.name, message.content) == (
            "x",
            "assistant",
            "assistant",
            "hello",
        )


async def test_a_write_is_done_when_it_cannot_be_renewed():
    """A message that is kept is not reported as lost because its time to live could not be renewed."""

    class Fading(MemoryStore):
        renewals = 0

        async def renew(self, collections, scope):
            self.renewals += 1
            raise StoreUnavailable("gone for a moment")

    async with Fading() as store:
        memory = ChatMemory(store, "u", "s")
        await memory.add(Msg("a", "b", "user"))
        assert await memory.size() == store.renewals == 1
