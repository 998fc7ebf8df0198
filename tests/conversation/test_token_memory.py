"""The token buffer: whole turns within a budget, counted as the caller, the model or the estimate does."""

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from octavo import ConfigError
from octavo.conversation import (
    AIMessage,
    ChatMessageHistory,
    ConversationTokenBufferMemory,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    tokenizer_file,
)
from octavo.kernel.text import estimate_tokens


def words(text):
    return len(text.split())


def test_oldest_turns_leave_the_history(histories):
    """A turn of 'Human: q0 q0' and 'AI: a0 a0' costs 6 words, so two fit into 13."""
    memory = ConversationTokenBufferMemory(
        max_token_limit=13, count_tokens=words, chat_memory=histories.open()
    )
    for at in range(4):
        memory.save_context({"input": f"q{at} q{at}"}, {"output": f"a{at} a{at}"})
    kept = ["q2 q2", "a2 a2", "q3 q3", "a3 a3"]
    assert [one.content for one in histories.open().messages] == kept
    assert [one.content for one in memory.buffer_as_messages] == kept
    assert memory._get_current_token_count() == 12
    assert memory.get_token_info() == {
        "total_messages_processed": 8,
        "messages_pruned": 4,
        "max_token_limit": 13,
        "current_token_count": 12,
        "token_utilization": 12 / 13,
        "estimated": False,
    }


def test_the_last_turn_stays_whatever_it_costs(histories):
    memory = ConversationTokenBufferMemory(
        max_token_limit=1, count_tokens=words, chat_memory=histories.open()
    )
    for at in range(2):
        memory.save_context({"input": f"a long question {at}"}, {"output": "a long answer"})
    assert [one.content for one in histories.open().messages] == ["a long question 1", "a long answer"]


def test_keep_all_deletes_nothing(histories):
    memory = ConversationTokenBufferMemory(
        max_token_limit=6, count_tokens=words, keep="all", chat_memory=histories.open()
    )
    for at in range(3):
        memory.save_context({"input": f"q{at} x"}, {"output": "a x"})
    assert memory.load_memory_variables({})["history"] == "Human: q2 x\nAI: a x"
    assert histories.open().count() == 6


def test_a_turn_is_never_cut_from_its_tools():
    history = ChatMessageHistory(
        [
            HumanMessage("old"),
            AIMessage("old"),
            HumanMessage("weather"),
            AIMessage("", tool_calls=[{"name": "w", "args": {}, "id": "1"}]),
            ToolMessage("sunny " * 50, tool_call_id="1"),
            AIMessage("sunny"),
        ]
    )
    memory = ConversationTokenBufferMemory(max_token_limit=5, count_tokens=words, chat_memory=history)
    memory._prune_messages_to_token_limit()
    assert history.messages[0].content == "weather"
    assert len(history.messages) == 4


def test_what_stands_before_the_first_turn():
    said = [SystemMessage("one two"), HumanMessage("q"), AIMessage("a")]
    for limit, kept in ((100, 3), (7, 3), (6, 2), (0, 2)):
        memory = ConversationTokenBufferMemory(
            max_token_limit=limit, count_tokens=words, chat_memory=ChatMessageHistory(list(said))
        )
        assert len(memory.buffer_as_messages) == kept, limit
    answers = [AIMessage("a") for _ in range(40)]  # nobody asked: 2 words each
    memory = ConversationTokenBufferMemory(
        max_token_limit=50, count_tokens=words, chat_memory=ChatMessageHistory(answers)
    )
    assert len(memory.buffer_as_messages) == 25


class Model:
    """A model that can count."""

    def invoke(self, prompt):
        return "ok"

    def get_num_tokens(self, text):
        return words(text)


class Unable(Model):
    def get_num_tokens(self, text):
        raise ImportError("no tokenizer here")


def test_the_models_own_count_is_used():
    memory = ConversationTokenBufferMemory(Model(), 100)
    memory.save_context({"input": "one two"}, {"output": "three"})
    assert memory._get_current_token_count() == 5
    assert memory.get_token_info()["estimated"] is False


def test_a_model_that_cannot_count_after_all(caplog):
    memory = ConversationTokenBufferMemory(Unable())
    memory.save_context({"input": "one two"}, {"output": "three"})
    assert memory._get_current_token_count() == estimate_tokens("Human: one two") + estimate_tokens(
        "AI: three"
    )
    assert [record.message for record in caplog.records] == [
        "the model cannot count tokens (no tokenizer here); they are estimated"
    ]


def test_a_chinese_budget_is_counted_in_characters_not_words():
    """Each Chinese sentence here is one 'word' to a counter of spaces; the estimate knows better."""
    sentences = [
        "我下周三要去上海出差，请帮我订一张从北京出发的高铁票。",
        "好的，已经为您查询到上午九点的车次，二等座还有余票。",
        "另外我对花生过敏，订餐的时候请一定要注意。",
        "明白，订餐时会备注花生过敏，请您放心。",
    ]
    memory = ConversationTokenBufferMemory(max_token_limit=70)
    memory.save_context({"input": sentences[0]}, {"output": sentences[1]})
    memory.save_context({"input": sentences[2]}, {"output": sentences[3]})
    assert [one.content for one in memory.chat_memory.messages] == sentences[2:]
    assert 40 <= memory._get_current_token_count() <= 70
    assert memory.get_token_info()["estimated"] is True


def test_an_exact_count_from_a_tokenizer_file(tmp_path):
    tokenizer = Tokenizer(WordLevel({"Human": 0, ":": 1, "你好": 2, "AI": 3, "[UNK]": 4}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    count = tokenizer_file(tmp_path / "tokenizer.json")
    assert count("Human: 你好") == 3
    memory = ConversationTokenBufferMemory(count_tokens=count)
    memory.save_context({"input": "你好"}, {"output": "你好"})
    assert memory._get_current_token_count() == 6
    with pytest.raises(ConfigError, match=r"no tokenizer file .*missing"):
        tokenizer_file(tmp_path / "missing.json")


def test_bad_settings():
    with pytest.raises(ValueError, match="max_token_limit"):
        ConversationTokenBufferMemory(max_token_limit=-1)
    with pytest.raises(
        TypeError, match="count_tokens must answer how many tokens a text has, a number; it answered 'x'"
    ):
        ConversationTokenBufferMemory(count_tokens=lambda _: "x").save_context(
            {"input": "a"}, {"output": "b"}
        )
    with pytest.raises(TypeError, match="chat_memory is a history, such as StoreChatMessageHistory"):
        ConversationTokenBufferMemory(chat_memory="sqlite:///octavo.db")
    with pytest.raises(TypeError, match="a language model has invoke"):
        ConversationTokenBufferMemory("gpt")
