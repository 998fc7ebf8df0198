"""The document on conversation memories, its first half: every class, field, method and key it names is there and does what it says."""

import inspect
import json

import pytest

from octavo import conversation
from octavo.conversation import (
    SUMMARY_PROMPT,
    AIMessage,
    BaseChatMemory,
    BaseChatMessageHistory,
    BaseMemory,
    BaseMessage,
    ChatMessageHistory,
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    FileChatMessageHistory,
    FunctionMessage,
    HumanMessage,
    RedisChatMessageHistory,
    SystemMessage,
    ToolMessage,
    get_buffer_string,
)


class Model:
    """The document's model: `predict` and `get_num_tokens`."""

    def __init__(self):
        self.prompts = []

    def predict(self, prompt):
        self.prompts.append(prompt)
        return f"总结{len(self.prompts)}"

    def get_num_tokens(self, text):
        return len(text)


#: 1.1, the diagram: whose child a class is, what it holds and what it can do.
DIAGRAM = {
    "ConversationBufferMemory": ("human_prefix ai_prefix memory_key buffer", ""),
    "ConversationBufferWindowMemory": ("k human_prefix ai_prefix memory_key", "_prune_messages"),
    "ConversationSummaryMemory": ("llm buffer prompt memory_key", "_update_summary predict_new_summary"),
    "ConversationTokenBufferMemory": (
        "llm max_token_limit memory_key",
        "_get_current_token_count _prune_messages_to_token_limit",
    ),
}


@pytest.mark.parametrize("name", DIAGRAM)
def test_the_diagram(name):
    kind = getattr(conversation, name)
    assert issubclass(kind, BaseChatMemory)
    memory = kind(llm=Model()) if "llm" in DIAGRAM[name][0] else kind()
    fields, methods = (part.split() for part in DIAGRAM[name])
    for field in (*fields, "chat_memory", "output_key", "input_key", "return_messages", "memory_variables"):
        assert hasattr(memory, field), field
    for method in (*methods, "load_memory_variables", "save_context", "clear", "_get_input_output"):
        assert callable(getattr(memory, method)), method
    assert issubclass(BaseChatMemory, BaseMemory)


def test_2_1_history_in_memory():
    history = ChatMessageHistory()
    history.add_user_message("你好")
    history.add_ai_message("您好")
    history.add_message(SystemMessage(content="s"))
    assert [type(one) for one in history.messages] == [HumanMessage, AIMessage, SystemMessage]
    given = [HumanMessage(content="x")]
    assert ChatMessageHistory(messages=given).messages is given
    history.clear()
    assert history.messages == []
    assert isinstance(history, BaseChatMessageHistory)


def test_2_1_message_types():
    kinds = [
        (HumanMessage(content="x"), "human"),
        (AIMessage(content="x"), "ai"),
        (SystemMessage(content="x"), "system"),
        (FunctionMessage(content="x", name="f"), "function"),
        (ToolMessage(content="x", tool_call_id="1"), "tool"),
    ]
    for message, kind in kinds:
        assert isinstance(message, BaseMessage)
        assert message.type == kind
        assert (message.content, message.additional_kwargs, message.response_metadata) == ("x", {}, {})
    assert FunctionMessage(content="x", name="f").name == "f"
    assert ToolMessage(content="x", tool_call_id="1").tool_call_id == "1"


def test_2_2_history_in_a_file(tmp_path):
    """The document's own class cannot be made, as two methods stay abstract; this one can, and keeps its file format."""
    path = str(tmp_path / "history.json")
    history = FileChatMessageHistory(path)
    assert history.file_path == path
    history.add_message(HumanMessage(content="你好"))
    history.add_user_message("在吗")
    history.add_ai_message("在")
    text = (tmp_path / "history.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    assert "你好" in text
    assert FileChatMessageHistory(path).messages == history.messages
    history.clear()
    assert not (tmp_path / "history.json").exists()


def test_2_2_history_in_redis(fresh_redis):
    """The document's own class reads dicts back; this one messages."""
    history = RedisChatMessageHistory("session", url=fresh_redis)
    assert (history.session_id, history.key) == ("session", "chat_history:session")
    history.add_message(HumanMessage(content="你好"))
    assert history.messages == [HumanMessage(content="你好")]
    assert history.redis_client.llen("chat_history:session") == 1
    assert 0 < history.redis_client.ttl("chat_history:session") <= 86400
    history.clear()
    assert history.redis_client.exists("chat_history:session") == 0
    history.close()


def test_3_1_buffer():
    settings = inspect.signature(ConversationBufferMemory).parameters
    assert {name: one.default for name, one in settings.items()} == {
        "chat_memory": None,
        "output_key": None,
        "input_key": None,
        "return_messages": False,
        "human_prefix": "Human",
        "ai_prefix": "AI",
        "memory_key": "history",
    }
    memory = ConversationBufferMemory()
    assert (memory._message_count, memory._total_tokens, memory._last_accessed) == (0, 0, None)
    memory.save_context({"input": "你好"}, {"output": "您好"})
    assert memory.buffer == "Human: 你好\nAI: 您好"
    assert memory.memory_variables == ["history"]
    assert memory._message_count == 2
    assert memory._total_tokens > 0
    stats = memory.get_memory_stats()
    assert stats == {
        "message_count": 2,
        "buffer_size_chars": len(memory.buffer),
        "created_at": memory._created_at,
        "last_accessed": None,
        "memory_type": "ConversationBufferMemory",
    }


def test_3_1_buffer_string():
    said = [
        HumanMessage("a"),
        AIMessage("b"),
        SystemMessage("c"),
        FunctionMessage("d", name="f"),
        ToolMessage("e", tool_call_id="1"),
    ]
    expected = "Human: a\nAI: b\nSystem: c\nFunctionMessage: d\nToolMessage: e"
    assert get_buffer_string(said) == expected
    assert get_buffer_string(said, human_prefix="用户", ai_prefix="AI").startswith("用户: a\nAI: b")


@pytest.mark.parametrize("kind", ["memory", "file", "redis"])
def test_3_2_window(kind, tmp_path, fresh_redis):
    """The document prunes by assigning `messages`, which its own persistent histories do not let it."""
    made = {
        "memory": ChatMessageHistory,
        "file": lambda: FileChatMessageHistory(tmp_path / "h.json"),
        "redis": lambda: RedisChatMessageHistory("s", fresh_redis),
    }
    with made[kind]() as history:
        memory = ConversationBufferWindowMemory(k=2, chat_memory=history)
        for at in range(4):
            memory.save_context({"input": f"q{at}"}, {"output": f"a{at}"})
        assert [one.content for one in history.messages] == ["q2", "a2", "q3", "a3"]
        assert memory.get_window_info() == {
            "max_window_size": 2,
            "current_window_size": 2,
            "total_messages_processed": 8,
            "messages_pruned": 4,
            "window_utilization": 1.0,
            "pruning_efficiency": 0.5,
        }
        assert memory._window_stats == {
            "max_window_size": 2,
            "current_window_size": 2,
            "total_messages_processed": 8,
            "messages_pruned": 4,
        }
        history.messages = history.messages[2:]
        memory._prune_messages()
        assert [one.content for one in history.messages] == ["q3", "a3"]
    assert inspect.signature(ConversationBufferWindowMemory).parameters["k"].default == 5


def test_4_1_summary():
    """The document's first summary would fail, as its prompt lacks `summary`; this one is made."""
    model = Model()
    memory = ConversationSummaryMemory(llm=model)
    memory.save_context({"input": "我在北京工作"}, {"output": "了解"})
    assert model.prompts == [
        (
            "渐进式总结以下对话内容，在之前摘要的基础上添加新信息：\n\n现有摘要：\n\n\n"
            "新的对话内容：\nHuman: 我在北京工作\nAI: 了解\n\n新的摘要："
        )
    ]
    assert memory.buffer == "总结1"
    assert memory.chat_memory.messages == []
    memory.save_context({"input": "明天去上海"}, {"output": "好"})
    assert "现有摘要：\n总结1\n" in model.prompts[1]
    stats = memory.get_summary_stats()
    assert stats["summary_count"] == 2
    assert stats["current_summary_length"] == len("总结2")
    assert set(stats) >= {
        "summary_count",
        "total_summary_tokens",
        "original_message_count",
        "compression_ratio",
        "last_summary_time",
        "current_summary_length",
        "average_compression_ratio",
    }
    assert memory._summary_stats == {name: stats[name] for name in memory._summary_stats}
    assert len(memory._summary_stats) == 5
    assert memory.load_memory_variables({}) == {"history": "总结2"}
    shown = ConversationSummaryMemory(
        llm=model, buffer="旧", prompt=SUMMARY_PROMPT, summary_message_cls=HumanMessage, return_messages=True
    )
    assert shown.load_memory_variables({}) == {"history": [HumanMessage("旧")]}
    assert shown.predict_new_summary([HumanMessage("x")], "旧") == "总结3"


def test_token_buffer():
    memory = ConversationTokenBufferMemory(llm=Model(), max_token_limit=30)
    for at in range(3):
        memory.save_context({"input": f"问{at}"}, {"output": f"答{at}"})  # 9 + 6 characters
    assert memory._get_current_token_count() == 30
    assert memory.buffer == "Human: 问1\nAI: 答1\nHuman: 问2\nAI: 答2"
    assert len(memory.chat_memory.messages) == 4
    assert inspect.signature(ConversationTokenBufferMemory).parameters["max_token_limit"].default == 2000


def test_what_histories_have_inside(tmp_path):
    """The parts that the document's own code calls, or has, under their names."""
    history = FileChatMessageHistory(tmp_path / "history.json")
    history.add_user_message("你好")
    told = history._serialize_message(HumanMessage("你好"))
    assert json.loads((tmp_path / "history.json").read_text(encoding="utf-8")) == [told]
    assert history._messages == [history._deserialize_message(told)] == history.messages
