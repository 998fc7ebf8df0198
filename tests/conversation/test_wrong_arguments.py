"""What a memory is made with and told is looked at when it comes: nothing is kept in a wrong form, or fails turns later."""

import pytest

from octavo.conversation import (
    CombinedMemory,
    ConversationBufferMemory,
    ConversationEntityMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    MemoryMetrics,
)

HALF = "half \ud83d"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ConversationBufferMemory(chat_memory=[]), r"chat_memory is a history, such as .*; got \[\]"),
        (lambda: ConversationBufferMemory(human_prefix=None), "human_prefix is a string; got None"),
        (lambda: ConversationBufferMemory(memory_key=5), "memory_key is a string; got 5"),
        (lambda: ConversationTokenBufferMemory(count_tokens=5), "count_tokens is a function .*; got 5"),
        (lambda: ConversationSummaryMemory(buffer=5), "a summary is a string; got 5"),
        (lambda: ConversationEntityMemory(entity_cache="Ann"), "entity_cache is a list of names; got 'Ann'"),
        (lambda: ConversationEntityMemory(entity_key="history"), "entity_key and memory_key are both 'history'"),
        (lambda: CombinedMemory(ConversationBufferMemory()), "memories are a list of memories; got <"),
        (lambda: CombinedMemory([5]), "a memory has memory_variables, .*; got 5"),
        (lambda: MemoryMetrics(5), "a memory has memory_variables, .*; got 5"),
        (lambda: ConversationBufferMemory().save_context("hi", {"output": "x"}), "inputs are a dict, .*; got 'hi'"),
        (lambda: ConversationBufferMemory().save_context({"input": "x"}, "hi"), "outputs are a dict, .*; got 'hi'"),
    ],
)  # fmt: skip
def test_it_is_named(make, why):
    with pytest.raises((TypeError, ValueError), match=why):
        make()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"llm": lambda prompt: HALF}, "which no store keeps"),
        (
            {"llm": str, "prompt": "{summary} {new_lines} {mood}"},
            "is to be filled with {summary}, {new_lines}",
        ),
        ({"llm": str, "prompt": 5}, "the prompt 5 is to be filled with"),
    ],
)
def test_a_summary_that_fails_costs_no_turn(told, why):
    """The turn is kept and shown as it was said, and the next one is taken as if nothing had been."""
    memory = ConversationSummaryMemory(**told)
    for said in ("one", "two"):
        memory.save_context({"input": said}, {"output": "ok"})
    assert memory.load_memory_variables({}) == {"history": "Human: one\nAI: ok\nHuman: two\nAI: ok"}
    stats = memory.get_summary_stats()
    assert stats["failures"] == 2
    assert why in stats["last_error"]


@pytest.mark.parametrize("prompt", ["{mood}", 5])
def test_entities_are_found_by_rules_when_a_prompt_or_an_answer_will_not_do(prompt):
    for told in ({"llm": lambda prompt: HALF}, {"llm": str, "entity_extraction_prompt": prompt}):
        memory = ConversationEntityMemory(**told)
        memory.save_context({"input": "Anna works at Google."}, {"output": "ok"})
        assert memory.entity_cache == ["Anna", "Google"]
