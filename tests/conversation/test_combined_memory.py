"""CombinedMemory: several memories as one, of which a failing one does not take the others with it."""

import asyncio
import logging

import pytest

from octavo.conversation.histories import ChatMessageHistory
from octavo.conversation.memories import BaseChatMemory, BaseMemory
from octavo.conversation.store_history import StoreChatMessageHistory
from octavo.conversation.wrapping import CombinedMemory
from octavo.errors import StoreUnavailable


class Words(BaseChatMemory):
    """All that was said, as text."""

    async def aload_memory_variables(self, inputs):
        return {self.memory_key: self._format(await self.chat_memory.aget_messages())}


class Broken(BaseMemory):
    """A memory that cannot do anything."""

    memory_variables = ("broken",)

    def load_memory_variables(self, inputs):
        raise ConnectionError("no server")

    def save_context(self, inputs, outputs):
        raise ConnectionError("no server")

    def clear(self):
        raise ConnectionError("no server")


async def call(memory, verb, how, *args):
    return getattr(memory, verb)(*args) if how == "plain" else await getattr(memory, f"a{verb}")(*args)


@pytest.mark.parametrize("how", ["plain", "awaited"])
async def test_a_failing_member(how, caplog):
    """The others remember and answer; what failed is logged and kept, in the documented words."""
    words, broken = Words(memory_key="words"), Broken()
    combined = CombinedMemory([broken, words])
    with caplog.at_level(logging.WARNING, "octavo.conversation"):
        await call(combined, "save_context", how, {"input": "你好"}, {"output": "您好"})
        assert await call(combined, "load_memory_variables", how, {"input": "x"}) == {
            "words": "Human: 你好\nAI: 您好"
        }
        await call(combined, "clear", how)
    assert words.chat_memory.messages == []
    told = [f"记忆 Broken {what}失败: no server" for what in ("保存", "加载", "清除")]
    assert [record.getMessage() for record in caplog.records] == told
    assert [str(failure) for failure in combined.failures] == told
    assert [(one.memory, one.operation) for one in combined.failures] == [
        (broken, "save"), (broken, "load"), (broken, "clear"),
    ]  # fmt: skip
    assert all(isinstance(one.error, ConnectionError) for one in combined.failures)
    assert combined.get_combined_stats()["failures"] == told


def test_a_server_that_is_away():
    """A member on a database that cannot be reached fails by itself."""
    away = StoreChatMessageHistory("redis://127.0.0.1:1/0", "s")
    words = Words(memory_key="words")
    combined = CombinedMemory([Words(chat_memory=away, memory_key="away"), words])
    combined.save_context({"input": "hi"}, {"output": "ho"})
    assert combined.load_memory_variables({"input": "x"}) == {"words": "Human: hi\nAI: ho"}
    assert [type(one.error) for one in combined.failures] == [StoreUnavailable, StoreUnavailable]
    away.close()


def test_refusals():
    """An empty list and names that clash are refused in the documented words."""
    with pytest.raises(ValueError, match=r"^至少需要一个记忆组件$"):
        CombinedMemory([])
    with pytest.raises(ValueError, match=r"^记忆变量名冲突: history$"):
        CombinedMemory([Words(), Words()])


def test_variables_of_the_others_are_no_input():
    """A chain hands the variables it loaded back with the inputs: members are not confused by them."""
    first, second = Words(memory_key="first"), Words(memory_key="second")
    combined = CombinedMemory([first, second])
    inputs = {"question": "who?"}
    combined.save_context({**inputs, **combined.load_memory_variables(inputs)}, {"answer": "me"})
    assert not combined.failures
    assert combined.load_memory_variables(inputs) == {
        "first": "Human: who?\nAI: me", "second": "Human: who?\nAI: me",
    }  # fmt: skip
    assert combined.memory_variables == ["first", "second"]


def test_statistics():
    """The documented keys; times are bounded, operations are counted on."""
    words = Words(memory_key="words")
    combined = CombinedMemory([words, Broken()])
    assert combined.get_combined_stats()["average_load_time"] == 0
    for _ in range(150):
        combined.load_memory_variables({"input": "x"})
    combined.save_context({"input": "x"}, {"output": "y"})
    stats = combined.get_combined_stats()
    assert stats["memory_count"] == 2
    assert stats["memory_types"] == ["Words", "Broken"]
    assert stats["total_operations"] == 151
    assert (len(stats["load_times"]), len(stats["save_times"]), len(stats["failures"])) == (100, 1, 100)
    assert stats["average_save_time"] == stats["save_times"][0] > 0
    assert stats["memory_variables"] == ["words", "broken"]
    stats["load_times"].clear()
    assert len(combined.get_combined_stats()["load_times"]) == 100


def test_by_type():
    words = Words(memory_key="words")
    combined = CombinedMemory([Broken(), words])
    assert combined.get_memory_by_type(Words) is words
    assert combined.get_memory_by_type(CombinedMemory) is None


async def test_cancelling_is_no_failure():
    """A caller who gives up is not answered with what there is."""
    reading = asyncio.Event()

    class Slow(ChatMessageHistory):
        async def aget_messages(self):
            reading.set()
            await asyncio.Event().wait()

    combined = CombinedMemory([Words(chat_memory=Slow())])
    asking = asyncio.create_task(combined.aload_memory_variables({"input": "x"}))
    await reading.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not combined.failures
