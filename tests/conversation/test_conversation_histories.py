"""Histories: the same answers in memory, in a file, in Redis and on every store."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest
import redis as redis_package

from octavo import ConfigError, InvalidRecord, StoreError, StoreUnavailable, open_store
from octavo.chat import ChatMemory, Msg
from octavo.conversation import (
    AIMessage,
    BaseChatMessageHistory,
    ChatMessageHistory,
    ConversationBufferMemory,
    FileChatMessageHistory,
    HumanMessage,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
    SystemMessage,
    ToolMessage,
)
from octavo.conversation.waiting import portal

TALK = [
    SystemMessage("简短回答"),
    HumanMessage("上海天气？", name="小明", id="m1"),
    AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "上海"}, "id": "c1"}]),
    ToolMessage("晴", tool_call_id="c1"),
    AIMessage("上海今天晴。🙂", response_metadata={"model": "x"}),
]

FORKING = """
import os
from octavo import StoreClosed
from octavo.conversation import ConversationBufferMemory, StoreChatMessageHistory

history = StoreChatMessageHistory("sqlite:///a.db", "s")
history.add_user_message("x")
memory = ConversationBufferMemory(history)
child = os.fork()
if child == 0:
    try:
        memory.load_memory_variables({})
    except StoreClosed:
        print("refused")
    mine = ConversationBufferMemory()
    mine.save_context({"input": "a"}, {"output": "b"})
    print(mine.buffer, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", history.count())
history.close()
"""


def said(messages):
    return [message.content for message in messages]


def test_everything_comes_back(histories):
    """Messages come back equal and in order, from another object on the same place too."""
    history = histories.open()
    assert (history.messages, history.count(), history.latest(3), history.trim(0)) == ([], 0, [], 0)
    history.add_messages(TALK)
    history.add_user_message("谢谢")
    history.add_ai_message("不客气")
    history.add_message(HumanMessage("bye"))
    whole = [*TALK, HumanMessage("谢谢"), AIMessage("不客气"), HumanMessage("bye")]
    assert history.messages == whole
    assert histories.open().messages == whole
    assert history.count() == 8
    assert history.latest(2) == whole[-2:]
    assert history.latest(0) == []
    assert history.latest(100) == whole


def test_trim_drops_the_oldest(histories):
    history = histories.open()
    history.add_messages([HumanMessage(str(at)) for at in range(10)])
    assert history.trim(20) == 0
    assert history.trim(4) == 6
    assert said(histories.open().messages) == ["6", "7", "8", "9"]
    assert history.trim(0) == 4
    assert histories.open().messages == []
    with pytest.raises(ValueError, match="keep_last is 0 or more"):
        history.trim(-1)
    with pytest.raises(ValueError, match="n is 0 or more"):
        history.latest(-1)


def test_replace_and_assign(histories):
    history = histories.open()
    history.add_messages(TALK)
    history.set_state("summary", {"summary": "s"})
    history.messages = TALK[1:3]
    assert histories.open().messages == TALK[1:3]
    history.replace([])
    assert histories.open().messages == []
    assert history.get_state("summary") == {"summary": "s"}


def test_states_live_with_the_messages(histories):
    history = histories.open()
    assert history.get_state("summary") is None
    history.add_messages(TALK)
    history.set_state("summary", {"summary": "第一", "n": 1})
    history.set_state("summary", {"summary": "第二"})
    history.set_state("entities", {"小明": {"info": "住在上海"}})
    again = histories.open()
    assert again.get_state("summary") == {"summary": "第二"}
    assert again.get_state("entities") == {"小明": {"info": "住在上海"}}
    assert again.messages == TALK
    again.get_state("entities")["小明"]["info"] = "changed"
    assert again.get_state("entities") == {"小明": {"info": "住在上海"}}
    again.clear()
    assert histories.open().messages == []
    assert (history.get_state("summary"), history.get_state("entities")) == (None, None)


def test_fold_puts_a_state_in_place_of_the_oldest(histories):
    history = histories.open()
    history.add_messages(TALK)
    history.fold(3, "summary", {"summary": "问天气"})
    again = histories.open()
    assert again.messages == TALK[3:]
    assert again.get_state("summary") == {"summary": "问天气"}
    again.fold(0, "summary", {"summary": "还在"})
    assert again.count() == 2


async def test_every_twin(histories):
    """The twins do what the plain ones do, on the caller's event loop."""
    history = histories.open()
    await history.aadd_messages(TALK)
    await history.aadd_user_message("谢谢")
    await history.aadd_ai_message("不客气")
    await history.aadd_message(HumanMessage("bye"))
    assert await history.acount() == 8
    assert said(await history.alatest(2)) == ["不客气", "bye"]
    assert await history.atrim(3) == 5
    await history.aset_state("summary", {"summary": "s"})
    assert await history.aget_state("summary") == {"summary": "s"}
    await history.afold(1, "summary", {"summary": "t"})
    assert said(await history.aget_messages()) == ["不客气", "bye"]
    await history.areplace(TALK[:1])
    assert await history.aget_messages() == TALK[:1]
    await history.aclear()
    assert await history.acount() == 0
    assert await history.aget_state("summary") is None
    await history.aclose()


def test_what_cannot_be_kept_is_refused_whole(lasting):
    """One bad message of a batch refuses all of it, and what was there stays."""
    history = lasting.open()
    history.add_user_message("kept")
    for bad in (HumanMessage("x", additional_kwargs={"x": object()}), HumanMessage("half \ud800")):
        with pytest.raises(InvalidRecord):
            history.add_messages([HumanMessage("fine"), bad])
        with pytest.raises(InvalidRecord):
            history.replace([bad])
    with pytest.raises(InvalidRecord):
        history.set_state("summary", {"x": object()})
    with pytest.raises(TypeError, match="made of messages"):
        history.add_messages(["text"])
    assert said(lasting.open().messages) == ["kept"]


def test_writers_at_once_lose_nothing(lasting):
    """Four objects on one conversation, one thread each: every message of each is there, in its own order."""
    first = lasting.open()
    first.count()  # tables are made
    opened = [lasting.open() for _ in range(4)]

    def write(at):
        for number in range(10):
            opened[at].add_messages([HumanMessage(f"{at}:{number}"), AIMessage("ok")])

    threads = [threading.Thread(target=write, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = first.messages
    assert len(messages) == 80
    asked = [message.content for message in messages if isinstance(message, HumanMessage)]
    for at in range(4):
        assert [one for one in asked if one.startswith(f"{at}:")] == [f"{at}:{n}" for n in range(10)]


class TestFile:
    def test_readable_json(self, tmp_path):
        path = tmp_path / "a" / "talk.json"
        history = FileChatMessageHistory(str(path))
        assert not path.exists()
        history.add_user_message("你好")
        text = path.read_text(encoding="utf-8")
        assert "你好" in text
        assert "\n" in text
        [one] = json.loads(text)
        assert one["type"] == "human"
        assert one["data"]["content"] == "你好"

    def test_clear_removes_all_files(self, tmp_path):
        history = FileChatMessageHistory(tmp_path / "talk.json")
        history.add_user_message("x")
        history.set_state("summary", {"summary": "s"})
        assert sorted(one.name for one in tmp_path.iterdir()) == ["talk.json", "talk.json.state.json"]
        history.clear()
        assert list(tmp_path.iterdir()) == []
        history.clear()

    @pytest.mark.parametrize("text", ["{", '{"a": 1}', '[{"type": "martian", "data": {}}]', "\xff"])
    def test_a_file_that_is_no_history_is_refused_and_left_alone(self, tmp_path, text):
        path = tmp_path / "talk.json"
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(StoreError, match=r"talk\.json"):
            FileChatMessageHistory(path)
        assert path.read_bytes() == text.encode("latin-1")

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        history = FileChatMessageHistory(tmp_path / "talk.json")
        history.add_user_message("kept")

        def full(_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            with pytest.raises(StoreError, match="No space left"):
                history.add_user_message("lost")
        assert said(history.messages) == ["kept"]
        assert [one.name for one in tmp_path.iterdir()] == ["talk.json"]

    def test_a_link_stays_a_link_and_readers_may_still_read(self, tmp_path):
        real = tmp_path / "real.json"
        real.write_text("[]", encoding="utf-8")
        real.chmod(0o640)
        (tmp_path / "talk.json").symlink_to(real)
        FileChatMessageHistory(tmp_path / "talk.json").add_user_message("x")
        assert (tmp_path / "talk.json").is_symlink()
        assert len(json.loads(real.read_text(encoding="utf-8"))) == 1
        assert real.stat().st_mode & 0o777 == 0o640

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="the history"):
            FileChatMessageHistory(tmp_path / "file" / "talk.json").add_user_message("x")


class TestRedis:
    def test_documented_keys_and_expiry(self, fresh_redis):
        client = redis_package.Redis.from_url(fresh_redis)
        with RedisChatMessageHistory("s1", fresh_redis) as history:
            history.add_messages(TALK[:2])
            assert client.type("chat_history:s1") == b"list"
            assert json.loads(client.lindex("chat_history:s1", 1))["data"]["content"] == "上海天气？"
            assert 86000 < client.ttl("chat_history:s1") <= 86400
            history.set_state("summary", {"summary": "s"})
            assert client.type("chat_history:s1:state") == b"hash"
            assert 86000 < client.ttl("chat_history:s1:state") <= 86400
            history.clear()
            assert client.keys() == []
        with RedisChatMessageHistory("s2", fresh_redis, ttl=None) as history:
            history.add_user_message("x")
            assert client.ttl("chat_history:s2") == -1
        client.close()

    def test_a_write_renews_the_states_too(self, fresh_redis):
        client = redis_package.Redis.from_url(fresh_redis)
        with RedisChatMessageHistory("s", fresh_redis) as history:
            history.set_state("summary", {"summary": "s"})
            client.expire("chat_history:s:state", 10)
            history.add_user_message("x")
            assert client.ttl("chat_history:s:state") > 1000
        client.close()

    def test_a_server_that_is_not_there(self):
        with RedisChatMessageHistory("s", "redis://127.0.0.1:1") as history:
            for call in (lambda: history.messages, lambda: history.add_user_message("x"), history.count):
                with pytest.raises(StoreUnavailable):
                    call()

    def test_a_key_that_is_something_else(self, fresh_redis):
        client = redis_package.Redis.from_url(fresh_redis)
        client.set("chat_history:s", "x")
        client.rpush("chat_history:t", "no json")
        with RedisChatMessageHistory("s", fresh_redis) as history, pytest.raises(StoreError):
            history.add_user_message("x")
        with RedisChatMessageHistory("t", fresh_redis) as history, pytest.raises(StoreError, match="no JSON"):
            _ = history.messages
        client.close()

    def test_bad_settings(self):
        with pytest.raises(ConfigError, match="redis://localhost"):
            RedisChatMessageHistory("s", "http://x")
        with pytest.raises(ValueError, match="ttl"):
            RedisChatMessageHistory("s", ttl=0)
        with pytest.raises(ValueError, match="session_id"):
            RedisChatMessageHistory("")
        with pytest.raises(ValueError, match=":state"):
            RedisChatMessageHistory("s:state")


class TestStore:
    def test_a_store_that_is_handed_in_is_shared_and_stays_open(self, tmp_path):
        store = open_store(f"sqlite:///{tmp_path}/a.db")
        with StoreChatMessageHistory(store, "s1") as one, StoreChatMessageHistory(store, "s2") as two:
            one.add_user_message("for one")
            two.add_user_message("for two")
            assert said(one.messages) == ["for one"]
        with StoreChatMessageHistory(store, "s1", "somebody else") as other:
            assert other.messages == []
        assert said(one.messages) == ["for one"]
        portal().call(store.close())

    async def test_a_store_of_the_callers_loop(self, fresh_postgres):
        """It is used where it lives: awaited here, waited for from another thread, refused where it would wait for itself."""
        async with open_store(fresh_postgres) as store:
            history = StoreChatMessageHistory(store, "s")
            await history.aadd_user_message("awaited")
            with pytest.raises(RuntimeError, match="await the a… twin"):
                history.add_user_message("x")
            memory = ConversationBufferMemory(history)
            with pytest.raises(RuntimeError, match="await the a… twin"):
                memory.load_memory_variables({})
            assert await memory.aload_memory_variables({}) == {"history": "Human: awaited"}
            await asyncio.to_thread(history.add_user_message, "from a thread")
            assert said(await history.aget_messages()) == ["awaited", "from a thread"]

    def test_a_store_whose_loop_stands_still(self, tmp_path):
        """A call that could never be answered is refused, not waited for."""
        store = open_store(f"sqlite:///{tmp_path}/a.db")
        loop = asyncio.new_event_loop()
        history = StoreChatMessageHistory(store, "s")
        loop.run_until_complete(history.aadd_user_message("x"))
        with pytest.raises(RuntimeError, match="is not running"):
            history.count()
        loop.run_until_complete(store.close())
        loop.close()

    def test_a_fork_does_not_speak_on_its_parents_connections(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", FORKING],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "refused\nHuman: a\nAI: b\nparent 1\n")

    def test_the_chat_face_reads_the_same_messages(self, tmp_path):
        """One record, many faces: what one wrote the other can read."""
        url = f"sqlite:///{tmp_path}/a.db"
        with StoreChatMessageHistory(url, "s", "lin") as history:
            history.add_messages([HumanMessage("你好"), AIMessage("hi", name="bot")])

        async def chat():
            async with ChatMemory.open(url, "lin", "s") as memory:
                await memory.add(Msg("lin", "还在吗？", "user"))
                return [(one.role, one.name, one.content) for one in await memory.get_memory()]

        assert asyncio.run(chat()) == [
            ("user", "user", "你好"),
            ("assistant", "bot", "hi"),
            ("user", "lin", "还在吗？"),
        ]
        with StoreChatMessageHistory(url, "s", "lin") as history:
            assert history.latest(1) == [HumanMessage("还在吗？", name="lin")]

    def test_bad_arguments(self):
        with pytest.raises(TypeError, match="session_id is a string"):
            StoreChatMessageHistory("memory://", 1)
        with pytest.raises(ConfigError):
            StoreChatMessageHistory("nowhere", "s")


class ByProperty(BaseChatMessageHistory):
    """A history of a user's own with the least there can be."""

    def __init__(self):
        self.rows = []

    @property
    def messages(self):
        return list(self.rows)

    def add_message(self, message):
        self.rows.append(message)

    def clear(self):
        self.rows.clear()


class BySeed(BaseChatMessageHistory):
    """One that keeps a plain list and relies on the rest, as the documented base does."""

    def __init__(self):
        self.messages = []


class Plural(ByProperty):
    add_message = BaseChatMessageHistory.add_message

    def add_messages(self, messages):
        self.rows.extend(messages)


@pytest.mark.parametrize("kind", [ByProperty, BySeed, Plural, ChatMessageHistory])
async def test_a_history_of_ones_own(kind):
    """The rest follows from very little."""
    history = kind()
    history.add_user_message("1")
    history.add_ai_message("2")
    history.add_messages([HumanMessage("3"), AIMessage("4")])
    await history.aadd_message(HumanMessage("5"))
    history.set_state("summary", {"summary": "s"})
    assert history.trim(4) == 1
    assert said(await history.alatest(3)) == ["3", "4", "5"]
    await history.afold(1, "summary", {"summary": "t"})
    assert said(history.messages) == ["3", "4", "5"]
    assert history.get_state("summary") == {"summary": "t"}
    history.clear()
    assert history.count() == 0
