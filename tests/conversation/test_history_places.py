"""Histories where they live: what is in the file, in Redis and in the store, and what goes wrong there."""

import asyncio
import json
import subprocess
import sys

import pytest
import redis as redis_package
from talk import TALK, said

from octavo import ConfigError, StoreError, StoreUnavailable, open_store
from octavo.chat import ChatMemory, Msg
from octavo.conversation import (
    AIMessage,
    ConversationBufferMemory,
    FileChatMessageHistory,
    HumanMessage,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
)
from octavo.integrations.tools import SessionItems
from octavo.util.sync import shared_portal
from octavo.wraps import Wrap

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
        shared_portal().call(store.close())

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
            # Newer Pythons warn of a fork beside threads, which is what is tested here.
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING],
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

    @pytest.mark.parametrize("wrapped", [False, True])
    async def test_a_write_renews_the_states_too(self, fresh_redis, wrapped):
        """Where records expire, a summary is not forgotten before the messages that follow it, behind a wrap neither."""
        client = redis_package.Redis.from_url(fresh_redis)
        store = open_store(f"{fresh_redis}?ttl=1000")
        async with Wrap(store) if wrapped else store as opened:
            history = StoreChatMessageHistory(opened, "s")
            await history.aset_state("summary", {"summary": "s"})
            assert all(client.expire(key, 10) for key in client.scan_iter())
            await history.aadd_user_message("x")
            left = {client.ttl(key) for key in client.scan_iter("*summaries*")}
            assert left
            assert min(left) > 100
        client.close()

    def test_bad_arguments(self):
        with pytest.raises(TypeError, match="session_id is a string"):
            StoreChatMessageHistory("memory://", 1)
        with pytest.raises(TypeError, match="session_id is a string; got None"):
            StoreChatMessageHistory("memory://", None)  # would show, and clear, all sessions of the user
        with pytest.raises(TypeError, match="session_id is a string; got None"):
            SessionItems("memory://", None)
        with pytest.raises(TypeError, match="session_id is a string; got None"):
            SessionItems("memory://", "monday").for_session(None)
        with pytest.raises(ConfigError):
            StoreChatMessageHistory("nowhere", "s")
