"""ConversationEntityMemory: who a conversation names, what is known about each, kept with the history."""

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from octavo import open_store
from octavo.conversation.entity import (
    INFO_TOKENS,
    KEPT_CONTEXTS,
    ConversationEntityMemory,
    EntityInfo,
    gather,
    is_mentioned,
)
from octavo.conversation.histories import BaseChatMessageHistory
from octavo.conversation.language import PromptTemplate
from octavo.conversation.messages import HumanMessage
from octavo.conversation.store_history import StoreChatMessageHistory
from octavo.kernel.text import estimate_tokens


class Model:
    """A model that answers from a script, by what the prompt asks for, and remembers what it was asked."""

    def __init__(self, names="张伟, 北京", known="住在北京的工程师"):
        self.names, self.known = names, known
        self.prompts = []

    def predict(self, prompt):
        self.prompts.append(prompt)
        if isinstance(self.names, Exception):
            raise self.names
        return self.names if "NONE" in prompt or prompt.startswith("find:") else self.known


async def call(memory, verb, how, *args):
    return getattr(memory, verb)(*args) if how == "plain" else await getattr(memory, f"a{verb}")(*args)


@pytest.mark.parametrize("how", ["plain", "awaited"])
async def test_offline_chinese(how):
    """Without a model, what was said about somebody is found again by name, and by a pronoun in the next turns."""
    memory = ConversationEntityMemory(k=1)
    await call(
        memory, "save_context", how, {"input": "我的同事张伟是工程师。他住在杭州。"}, {"output": "记住了。"}
    )
    await call(memory, "save_context", how, {"input": "李娜喜欢喝茶。"}, {"output": "好的。"})
    loaded = await call(memory, "load_memory_variables", how, {"input": "张伟住在哪里？"})
    assert loaded == {
        "entities": {"张伟": "我的同事张伟是工程师。\n他住在杭州。", "李娜": "李娜喜欢喝茶。"},
        "history": "Human: 李娜喜欢喝茶。\nAI: 好的。",
    }
    assert list(loaded["entities"]) == ["张伟", "李娜"]  # whom the input names comes first
    loaded = await call(memory, "load_memory_variables", how, {"input": "她喜欢什么？"})
    assert loaded["entities"] == {"李娜": "李娜喜欢喝茶。"}
    assert memory.memory_variables == ["entities", "history"]
    assert memory.entity_cache == ["张伟", "杭州", "李娜"]
    assert memory.get_entity_stats() == {
        "total_entities": 3, "active_entities": 3, "entity_updates": 0, "extraction_calls": 2,
        "offline": True, "memory_type": "ConversationEntityMemory",
    }  # fmt: skip


def test_offline_english():
    memory = ConversationEntityMemory()
    memory.save_context({"input": "My sister Anna lives in Oslo. She is a nurse."}, {"output": "Nice!"})
    memory.save_context({"input": "Did Anna call?"}, {"output": "Anna called at noon."})
    known = memory.load_memory_variables({"input": "tell me about anna"})["entities"]["Anna"]
    assert known == "My sister Anna lives in Oslo.\nShe is a nurse.\nAnna called at noon."
    assert memory.get_entity_stats()["entity_updates"] == 1


def test_with_a_model():
    """The model finds and describes; the documented prompts, in the conversation's language."""
    model = Model()
    memory = ConversationEntityMemory(model)
    memory.save_context({"input": "张伟住在北京"}, {"output": "好的"})
    assert {name: one.info for name, one in memory.entity_store.items()} == {
        "张伟": model.known,
        "北京": model.known,
    }
    assert "张伟住在北京\n好的" in model.prompts[0]
    assert model.prompts[1] == "根据以下上下文，总结关于张伟的信息：\n张伟住在北京\n好的"
    memory.save_context(
        {"input": "Zhang Wei is an engineer here, they say"}, {"output": "I see what you mean"}
    )
    assert "separated by commas" in model.prompts[3]
    assert "Update what is known about 张伟" in model.prompts[4]
    assert memory.get_entity_stats()["entity_updates"] == 2
    assert memory.get_entity_stats()["offline"] is False


def test_prompts_of_ones_own():
    model = Model(names="Ada")
    memory = ConversationEntityMemory(
        model,
        entity_extraction_prompt=PromptTemplate("find: {text}"),
        entity_summarization_prompt=PromptTemplate("{entity}|{existing_info}|{new_context}"),
    )
    for _ in range(2):
        memory.save_context({"input": "a"}, {"output": "b"})
    assert model.prompts[0] == "find: a\nb"
    assert model.prompts[-1] == f"Ada|{model.known}|a\nb"


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("NONE", []),
        ("无", []),
        ("张伟、李娜，《红楼梦》", ["张伟", "李娜", "红楼梦"]),
        ("- Ada Lovelace\n- Charles Babbage\n", ["Ada Lovelace", "Charles Babbage"]),
        ("1. Ada; 2. Ada; 3. Bob.", ["Ada", "Bob"]),
        (",".join(f"n{at}" for at in range(99)), [f"n{at}" for at in range(20)]),
        ("x" * 101, []),
    ],
)
def test_answers_of_models(answer, names):
    """Whatever separates the names, and however many a model makes up."""
    assert ConversationEntityMemory(lambda prompt: answer)._extract_entities("text") == names


def test_a_model_that_fails(caplog):
    """The turn is kept, rules take the model's place, and the log says so."""
    memory = ConversationEntityMemory(Model(names=OSError("no route")))
    with caplog.at_level(logging.WARNING, "octavo.conversation"):
        memory.save_context({"input": "张伟住在北京。"}, {"output": "好的"})
    assert memory.entity_store["张伟"].info == "张伟住在北京。"
    assert len(memory.chat_memory.messages) == 2
    assert any("found by rules" in record.getMessage() for record in caplog.records)


def test_another_process_goes_on(lasting):
    """Entities, what is known of them and the cache persist; what one learns the other knows; both forget together."""
    first = ConversationEntityMemory(chat_memory=lasting.open())
    first.save_context({"input": "张伟是医生。"}, {"output": "好的。"})
    second = ConversationEntityMemory(chat_memory=lasting.open())
    assert second.load_memory_variables({"input": "张伟呢"})["entities"] == {"张伟": "张伟是医生。"}
    assert second.entity_cache == ["张伟"]
    assert second.entity_store["张伟"].to_dict() == first.entity_store["张伟"].to_dict()
    second.save_context({"input": "张伟在成都。"}, {"output": "好的。"})
    known = first.load_memory_variables({"input": "张伟呢"})["entities"]
    assert known["张伟"] == "张伟是医生。\n张伟在成都。"
    assert first.get_entity_stats()["total_entities"] == 2
    second.clear()
    assert first.load_memory_variables({"input": "张伟呢"}) == {"entities": {}, "history": ""}
    assert (first.entity_cache, second.entity_cache, dict(second.entity_store)) == ([], [], {})
    third = ConversationEntityMemory(chat_memory=lasting.open())
    assert third.load_memory_variables({"input": "张伟"})["entities"] == {}


@pytest.mark.parametrize("look", ["entity_store", "entity_cache", "get_entity_stats"])
def test_what_another_left_is_seen_before_the_first_turn(lasting, look):
    """Both were empty until something was loaded or saved, and assigning one of them emptied the other for good."""
    ConversationEntityMemory(chat_memory=lasting.open()).save_context(
        {"input": "张伟是医生。"}, {"output": "好的。"}
    )
    second = ConversationEntityMemory(chat_memory=lasting.open())
    if look == "entity_store":
        assert second.entity_store["张伟"].info == "张伟是医生。"
        ConversationEntityMemory(chat_memory=lasting.open()).entity_store = {"李娜": "老师"}
        assert ConversationEntityMemory(chat_memory=lasting.open()).entity_cache == ["张伟"]
    elif look == "entity_cache":
        assert second.entity_cache == ["张伟"]
        ConversationEntityMemory(chat_memory=lasting.open()).entity_cache = []
        assert list(ConversationEntityMemory(chat_memory=lasting.open()).entity_store) == ["张伟"]
    else:
        stats = second.get_entity_stats()
        assert (stats["total_entities"], stats["active_entities"]) == (1, 1)


async def test_on_the_loop_of_the_history_the_first_turn_reads():
    """A store that was handed in lives on the loop that runs here: what is known is not waited for, and comes with the turn."""
    store = open_store("memory://")
    history = StoreChatMessageHistory(store, "talk")
    await ConversationEntityMemory(chat_memory=history).asave_context(
        {"input": "张伟是医生。"}, {"output": "好"}
    )
    second = ConversationEntityMemory(chat_memory=history)
    assert dict(second.entity_store) == {}
    await second.aload_memory_variables({"input": "谁"})
    assert list(second.entity_store) == ["张伟"]
    await store.close()


def test_clearing_over_a_history_that_knows_no_states():
    """As somebody writes one, with a `clear` of its own: the entities came back with the next turn."""

    class Own(BaseChatMessageHistory):
        def __init__(self):
            self.messages = []

        def add_message(self, message):
            self.messages.append(message)

        def clear(self):
            self.messages = []

    memory = ConversationEntityMemory(chat_memory=Own())
    memory.save_context({"input": "张伟是医生。"}, {"output": "好的。"})
    memory.clear()
    assert (memory.entity_cache, dict(memory.entity_store)) == ([], {})
    assert memory.load_memory_variables({"input": "张伟"}) == {"entities": {}, "history": ""}


CHILD = """
import sys
from octavo.conversation import ConversationEntityMemory, StoreChatMessageHistory
history = StoreChatMessageHistory(sys.argv[1], "talk")
memory = ConversationEntityMemory(chat_memory=history)
print(memory.load_memory_variables({"input": "张伟？"})["entities"]["张伟"])
memory.save_context({"input": "张伟养了一只猫。"}, {"output": "好。"})
history.close()
"""


def test_a_second_process(tmp_path):
    """Another process knows what this one learned, and this one what the other did."""
    url = f"sqlite:///{tmp_path}/talk.db"
    history = StoreChatMessageHistory(url, "talk")
    memory = ConversationEntityMemory(chat_memory=history)
    memory.save_context({"input": "张伟是医生。"}, {"output": "好。"})
    done = subprocess.run(
        [sys.executable, "-c", CHILD, url],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("张伟是医生。\n", "")
    assert memory.load_memory_variables({"input": "张伟？"})["entities"] == {
        "张伟": "张伟是医生。\n张伟养了一只猫。"
    }
    history.close()


async def test_turns_saved_at_once():
    """Of many turns that are saved together with a slow model, none is lost."""

    async def model(prompt):
        await asyncio.sleep(0)
        return "Ada" if "NONE" in prompt else prompt

    memory = ConversationEntityMemory(
        model, entity_summarization_prompt=PromptTemplate("{existing_info} {new_context}")
    )
    await asyncio.gather(
        *(memory.asave_context({"input": f"turn{at}"}, {"output": "ok"}) for at in range(20))
    )
    assert all(f"turn{at}\n" in memory.entity_store["Ada"].info for at in range(20))
    assert memory.entity_store["Ada"].update_count == 20


def test_stores_and_caches_of_the_callers():
    """They are used as they are; a plain text is what is known."""
    store, cache = {"张伟": "医生"}, ["张伟"]
    memory = ConversationEntityMemory(entity_store=store, entity_cache=cache)
    assert memory.load_memory_variables({"input": "张伟在吗"})["entities"] == {"张伟": "医生"}
    memory.save_context({"input": "李娜来了。"}, {"output": "好"})
    assert cache == ["张伟", "李娜"]
    assert set(store) == {"张伟", "李娜"}


def test_it_is_bounded():
    """Beyond max_entities the one not heard of for longest is forgotten."""
    memory = ConversationEntityMemory(max_entities=2)
    for title in ("甲书", "乙书", "甲书", "丙书"):
        memory.save_context({"input": f"我在看《{title}》。"}, {"output": "好"})
    assert set(memory.entity_store) == set(memory.entity_cache) == {"甲书", "丙书"}
    stats = memory.get_entity_stats()
    assert (stats["total_entities"], stats["active_entities"]) == (3, 2)


def test_long_turns(lasting):
    """What is kept of entities stays small, however long the turns and the answers of the model are."""
    memory = ConversationEntityMemory(chat_memory=lasting.open())
    memory.save_context({"input": "张伟" + "很忙，" * 100_000}, {"output": "好"})
    assert memory.entity_store["张伟"].info.startswith("张伟很忙，")
    assert memory.entity_store["张伟"].info.endswith("…")
    wordy = ConversationEntityMemory(Model("李娜", "长" * 100_000), chat_memory=lasting.open())
    wordy.save_context({"input": "李娜来了"}, {"output": "好"})
    state = lasting.open().get_state("entities")
    assert list(state["entities"]) == ["张伟", "李娜"]
    assert len(str(state)) < 10_000


def test_messages_as_input():
    memory = ConversationEntityMemory(return_messages=True)
    memory.save_context({"input": HumanMessage("李娜喜欢茶。")}, {"output": "好"})
    loaded = memory.load_memory_variables({"input": HumanMessage("李娜？")})
    assert loaded["entities"] == {"李娜": "李娜喜欢茶。"}
    assert loaded["history"][0] == HumanMessage("李娜喜欢茶。")
    assert memory.load_memory_variables({})["entities"] == {"李娜": "李娜喜欢茶。"}


@pytest.mark.parametrize("settings", [{"k": -1}, {"max_entities": 0}, {"language": "fr"}])
def test_settings_that_cannot_be(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        ConversationEntityMemory(**settings)


def test_entity_info():
    """The documented fields; contexts are bounded and counted on."""
    entity = EntityInfo("Ada")
    entity.initialize_info("Ada wrote notes.", lambda prompt: f"<{prompt}>")
    assert entity.info == "<Summarise what the context below says about Ada:\nAda wrote notes.>"
    before = entity.last_updated
    for at in range(9):
        entity.update_info(f"c{at}", lambda prompt: prompt, PromptTemplate("{entity}/{new_context}"))
    assert entity.info == "Ada/c8"
    assert entity.contexts == ["c4", "c5", "c6", "c7", "c8"]
    assert len(entity.contexts) == KEPT_CONTEXTS
    told = entity.to_dict()
    assert told["last_updated"] > before
    assert told == {
        "name": "Ada", "info": "Ada/c8", "context_count": 10, "created_at": entity.created_at,
        "last_updated": entity.last_updated, "update_count": 10,
    }  # fmt: skip


def test_what_is_gathered_is_bounded():
    """What was said first and what was said last stays."""
    info = ""
    for at in range(100):
        info = gather("张伟", f"张伟做了第{at}件很重要的事情。", info)
    assert estimate_tokens(info) <= INFO_TOKENS
    lines = info.splitlines()
    assert (lines[0], lines[-1]) == ("张伟做了第0件很重要的事情。", "张伟做了第99件很重要的事情。")


def test_mentions():
    assert is_mentioned("Ann", "is ann here?")
    assert not is_mentioned("Ann", "the annual report")
    assert is_mentioned("李娜", "我和李娜")
    assert is_mentioned("C++", "I like C++.")
