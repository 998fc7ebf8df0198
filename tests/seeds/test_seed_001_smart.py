"""The document on conversation memories, chapters 4.2, 5, 6 and 7: its fields, methods and statistics, used as written there.

Only the imports are Octavo's. Where its own arithmetic goes wrong, the right number is expected and the reason stands beside it.
"""

import inspect
import re
import time

import pytest

from octavo.conversation import (
    BaseChatMemory,
    BaseMemory,
    CombinedMemory,
    ConversationBufferMemory,
    ConversationEntityMemory,
    ConversationSummaryMemory,
    EntityInfo,
    MemoryMetrics,
    PromptTemplate,
    RecallRetriever,
    VectorStoreRetrieverMemory,
)


class BaseLanguageModel:
    """The document's model: `predict` and `get_num_tokens`."""

    def predict(self, prompt):
        if "提取" in prompt:
            return "张三, 北京 , ,"
        return f"关于的信息（{len(prompt)}）"

    def get_num_tokens(self, text):
        return len(text)


def signature(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_hierarchy():
    """1.1: who inherits from whom, and what is abstract."""
    assert inspect.isabstract(BaseMemory)
    assert inspect.isabstract(BaseChatMemory)
    assert issubclass(ConversationEntityMemory, BaseChatMemory)
    for kind in (VectorStoreRetrieverMemory, CombinedMemory):
        assert issubclass(kind, BaseMemory)
        assert not issubclass(kind, BaseChatMemory)


def test_parameters_in_the_documented_order():
    documented = {
        ConversationEntityMemory: [
            "llm", "entity_extraction_prompt", "entity_summarization_prompt", "entity_cache", "k",
        ],
        EntityInfo: ["name"],
        VectorStoreRetrieverMemory: ["retriever", "memory_key", "input_key", "return_docs", "exclude_input_keys"],
        CombinedMemory: ["memories"],
        MemoryMetrics: ["memory"],
        EntityInfo.initialize_info: ["context", "llm"],
        EntityInfo.update_info: ["new_context", "llm", "summarization_prompt"],
        ConversationEntityMemory._extract_entities: ["text"],
        ConversationEntityMemory._extract_and_update_entities: ["text"],
        ConversationEntityMemory._update_entity_info: ["entity", "context"],
        CombinedMemory.get_memory_by_type: ["memory_type"],
        MemoryMetrics.record_load_operation: ["execution_time", "memory_size"],
        MemoryMetrics.record_save_operation: ["execution_time"],
        MemoryMetrics.record_error: ["error"],
    }  # fmt: skip
    for function, names in documented.items():
        assert signature(function)[: len(names)] == names, function


def test_entity_memory():
    """4.2: extraction on save, EntityInfo in the store, the cache and the statistics."""
    memory = ConversationEntityMemory(BaseLanguageModel(), k=3)
    assert (memory.k, memory.entity_cache, dict(memory.entity_store)) == (3, [], {})
    memory.save_context({"input": "张三住在北京，是一名工程师。"}, {"output": "好的，我记住了。"})
    memory.save_context({"input": "张三喜欢北京的秋天。"}, {"output": "很美。"})
    assert memory.entity_cache == ["张三", "北京"]
    assert memory._entity_stats == {
        "total_entities": 2, "active_entities": 2, "entity_updates": 2, "extraction_calls": 2,
    }  # fmt: skip
    entity = memory.entity_store["张三"]
    assert isinstance(entity, EntityInfo)
    assert entity.contexts == [
        "张三住在北京，是一名工程师。\n好的，我记住了。",
        "张三喜欢北京的秋天。\n很美。",
    ]
    told = entity.to_dict()
    assert list(told) == ["name", "info", "context_count", "created_at", "last_updated", "update_count"]
    assert (told["name"], told["context_count"], told["update_count"]) == ("张三", 2, 2)
    assert memory._extract_entities("他们是谁") == ["张三", "北京"]
    memory._update_entity_info("李四", "李四来了")
    memory._extract_and_update_entities("他们是谁")
    assert set(memory.entity_store) == {"张三", "北京", "李四"}
    assert len(memory.chat_memory.messages) == 4


def test_entity_info():
    """4.2: the first information and the update, with the document's prompt."""
    prompts = []
    model = BaseLanguageModel()
    model.predict = lambda prompt: prompts.append(prompt) or "信息"
    entity = EntityInfo("张三")
    assert (entity.info, entity.contexts, entity.update_count) == ("", [], 0)
    entity.initialize_info("张三住在北京", model)
    template = PromptTemplate(
        input_variables=["entity", "existing_info", "new_context"],
        template="{entity}:{existing_info}:{new_context}",
    )
    entity.update_info("他搬家了", model, template)
    assert prompts == ["根据以下上下文，总结关于张三的信息：\n张三住在北京", "张三:信息:他搬家了"]
    assert entity.created_at <= entity.last_updated <= time.time()


def test_vector_memory(tmp_path):
    """5.1: documents, formatted answers, cache and statistics."""
    with RecallRetriever(f"sqlite:///{tmp_path}/memory.db") as retriever:
        memory = VectorStoreRetrieverMemory(retriever=retriever)
        assert memory.memory_variables == ["history"]
        memory.save_context({"input": "我最喜欢的颜色是蓝色"}, {"output": "好的"})
        for _ in range(3):
            told = memory.load_memory_variables({"input": "我喜欢什么颜色？"})["history"]
        assert re.fullmatch(r"\[\d{4}-\d\d-\d\d \d\d:\d\d\] Human: 我最喜欢的颜色是蓝色\nAI: 好的", told)
        stats = memory.get_retrieval_stats()
        assert list(stats) == [
            "total_contexts_saved", "total_retrievals", "average_retrieval_time", "total_documents_stored",
            "cache_hits", "cache_hit_rate", "cache_size", "memory_type",
        ]  # fmt: skip
        # 2 of 3 questions: the document divides by the 1 that missed, and would say 200 %.
        assert (stats["cache_hits"], stats["total_retrievals"], stats["cache_hit_rate"]) == (2, 1, 2 / 3)
        assert stats["memory_type"] == "VectorStoreRetrieverMemory"
        assert memory._cache_max_size == 100
        assert memory._generate_conversation_id({"input": "a"}) == "5b108d4c"
        memory.clear()
        assert memory.get_retrieval_stats()["total_contexts_saved"] == 0
        assert memory.load_memory_variables({"input": "颜色"}) == {"history": ""}


def test_combined_memory():
    """6.1: all variables, the errors, the statistics and the member of a type."""
    buffer = ConversationBufferMemory(memory_key="chat")
    summary = ConversationSummaryMemory(memory_key="summary")
    combined = CombinedMemory(memories=[buffer, summary])
    combined.save_context({"input": "你好"}, {"output": "您好"})
    assert list(combined.load_memory_variables({"input": "x"})) == ["chat", "summary"]
    stats = combined.get_combined_stats()
    documented = [
        "memory_count", "memory_types", "total_operations", "load_times", "save_times",
        "average_load_time", "average_save_time", "memory_variables",
    ]  # fmt: skip
    assert [key for key in stats if key in documented] == documented
    assert combined._combined_stats == {key: stats[key] for key in documented[:5]}
    assert stats["memory_types"] == ["ConversationBufferMemory", "ConversationSummaryMemory"]
    assert stats["total_operations"] == 2
    assert combined.get_memory_by_type(ConversationSummaryMemory) is summary
    with pytest.raises(ValueError, match="至少需要一个记忆组件"):
        CombinedMemory(memories=[])
    with pytest.raises(ValueError, match="记忆变量名冲突: history"):
        CombinedMemory(memories=[ConversationBufferMemory(), ConversationBufferMemory()])
    combined.clear()
    assert combined.load_memory_variables({"input": "x"}) == {"chat": "", "summary": ""}


def test_memory_metrics():
    """7.1: reported by hand as in the document, with the documented keys."""
    metrics = MemoryMetrics(ConversationBufferMemory())
    assert metrics.memory_type == "ConversationBufferMemory"
    assert list(metrics.metrics) == [
        "load_count", "save_count", "clear_count", "total_load_time", "total_save_time", "load_times", "save_times",
        "memory_sizes", "error_count", "last_error",
    ]  # fmt: skip
    for at in range(1, 101):
        metrics.record_load_operation(execution_time=at / 100, memory_size=at * 1024)
    metrics.record_save_operation(0.5)
    metrics.record_error(ValueError("坏"))
    summary = metrics.get_performance_summary()
    assert list(summary) == ["memory_type", "operation_counts", "timing_stats", "memory_usage", "error_rate"]
    assert {"loads": 100, "saves": 1, "errors": 1}.items() <= summary["operation_counts"].items()
    # The 95th of 100: the document's index gives the 96th.
    assert summary["timing_stats"] == {
        "avg_load_time": pytest.approx(0.505), "avg_save_time": 0.5, "p95_load_time": 0.95, "p95_save_time": 0,
    }  # fmt: skip
    assert list(summary["memory_usage"]) == ["peak_memory_mb", "current_memory_mb", "memory_growth_rate"]
    assert summary["error_rate"] == 1 / 101
    assert list(metrics.metrics["last_error"]) == ["type", "message", "timestamp"]
