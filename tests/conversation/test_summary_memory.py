"""Summaries: made by a model or without one, kept with the history, and never at the price of what was said."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from octavo.conversation import (
    SUMMARY_PROMPT,
    AIMessage,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    HumanMessage,
    SystemMessage,
)
from octavo.kernel.text import estimate_tokens

KINDS = {"file": "FileChatMessageHistory", "redis": "RedisChatMessageHistory"}


class Model:
    """Answers with a number, and remembers what it was asked."""

    def __init__(self):
        self.prompts = []
        self.fails = False

    def predict(self, prompt):
        if self.fails:
            raise TimeoutError("too slow")
        self.prompts.append(prompt)
        return f"摘要{len(self.prompts)}"

    def get_num_tokens(self, text):
        return len(text)


def test_the_summary_takes_the_place_of_the_turn(histories):
    model = Model()
    memory = ConversationSummaryMemory(model, chat_memory=histories.open())
    assert memory.load_memory_variables({}) == {"history": ""}
    memory.save_context({"input": "你好，我叫小明"}, {"output": "你好小明"})
    assert model.prompts[0] == SUMMARY_PROMPT.format(
        summary="", new_lines="Human: 你好，我叫小明\nAI: 你好小明"
    )
    assert histories.open().messages == []
    memory.save_context({"input": "我住上海"}, {"output": "好的"})
    assert "现有摘要：\n摘要1\n" in model.prompts[1]
    assert "小明" not in model.prompts[1]
    again = ConversationSummaryMemory(model, chat_memory=histories.open(), return_messages=True)
    assert again.buffer == "摘要2"
    assert again.load_memory_variables({}) == {"history": [SystemMessage("摘要2")]}
    again.clear()
    assert memory.load_memory_variables({}) == {"history": ""}
    assert memory.get_summary_stats()["summary_count"] == 0


def test_statistics_have_the_documented_keys_and_add_up():
    memory = ConversationSummaryMemory(Model())
    empty = memory.get_summary_stats()
    assert (empty["average_compression_ratio"], empty["last_summary_time"]) == (0.0, None)
    memory.save_context(
        {"input": "12345"}, {"output": "12345"}
    )  # "Human: 12345\nAI: 12345" has 22 characters
    memory.save_context({"input": "1"}, {"output": "1"})  # and this has 14
    stats = memory.get_summary_stats()
    assert set(stats) - {"offline", "failures", "last_error"} == {
        "summary_count",
        "total_summary_tokens",
        "original_message_count",
        "compression_ratio",
        "last_summary_time",
        "current_summary_length",
        "average_compression_ratio",
    }
    assert (stats["summary_count"], stats["total_summary_tokens"], stats["original_message_count"]) == (
        2,
        6,
        4,
    )
    assert stats["compression_ratio"] == 3 / 14
    assert stats["average_compression_ratio"] == pytest.approx((3 / 22 + 3 / 14) / 2)
    assert stats["current_summary_length"] == 3
    assert stats["last_summary_time"] >= 0
    assert stats["offline"] is False


def test_keep_all_summarises_each_turn_once_and_deletes_nothing(histories):
    model = Model()
    memory = ConversationSummaryMemory(model, keep="all", chat_memory=histories.open())
    for at in range(3):
        memory.save_context({"input": f"问题{at}"}, {"output": "好"})
    assert histories.open().count() == 6
    assert memory.load_memory_variables({})["history"] == "摘要3"
    assert "问题2" in model.prompts[2]
    assert "问题1" not in model.prompts[2]
    # Opened to prune later on, it lets go of what was summarised, and tells nothing twice.
    pruning = ConversationSummaryMemory(model, chat_memory=histories.open())
    assert pruning.load_memory_variables({})["history"] == "摘要3"
    pruning.save_context({"input": "问题3"}, {"output": "好"})
    assert "问题2" not in model.prompts[3]
    assert histories.open().count() == 0


def test_a_failing_model_loses_nothing(histories, caplog):
    """The turn is kept as it was said, shown as it was said, and summarised with the next."""
    model = Model()
    memory = ConversationSummaryMemory(model, chat_memory=histories.open())
    memory.save_context({"input": "一"}, {"output": "1"})
    model.fails = True
    memory.save_context({"input": "二"}, {"output": "2"})
    assert memory.load_memory_variables({})["history"] == "摘要1\nHuman: 二\nAI: 2"
    stats = memory.get_summary_stats()
    assert stats["failures"] == 1
    assert "too slow" in stats["last_error"]
    assert any("too slow" in record.message for record in caplog.records)
    model.fails = False
    memory.save_context({"input": "三"}, {"output": "3"})
    assert memory.load_memory_variables({})["history"] == "摘要2"
    assert "Human: 二\nAI: 2\nHuman: 三\nAI: 3" in model.prompts[1]


@pytest.mark.parametrize("keep", ["prune", "all"])
def test_of_two_summaries_at_once_the_first_stands(histories, keep):
    """While one memory's model thinks, another summarises and a third adds a turn: nothing is dropped unsummarised."""
    settings = {"keep": keep, "chat_memory": histories.open()}
    quick = ConversationSummaryMemory(
        lambda prompt: f"quick: {'one' in prompt} {'two' in prompt}", **settings
    )

    def slow(prompt):
        quick.save_context({"input": "two"}, {"output": "2"})
        histories.open().add_messages([HumanMessage("three"), AIMessage("3")])
        return "slow"

    ConversationSummaryMemory(slow, **settings).save_context({"input": "one"}, {"output": "1"})
    shown = quick.load_memory_variables({})["history"]
    assert shown == "quick: True True\nHuman: three\nAI: 3"


def test_a_long_history_is_summarised_in_portions(histories):
    """A history that is older than its memory may be longer than a prompt can be; nothing of it is left out."""
    history = histories.open()
    history.add_messages([HumanMessage(f"问题{at}") for at in range(7)])
    model = Model()
    memory = ConversationSummaryMemory(model, max_prompt_tokens=30, chat_memory=history)
    memory.save_context({"input": "最后"}, {"output": "好"})
    assert [prompt.count("问题") for prompt in model.prompts] == [3, 3, 1]
    assert "最后" in model.prompts[2]
    assert memory.load_memory_variables({})["history"] == "摘要3"
    assert memory.get_summary_stats()["original_message_count"] == 9
    assert histories.open().count() == 0


def test_a_model_that_fails_on_the_way_keeps_what_it_did():
    memory = ConversationSummaryMemory(Model(), max_prompt_tokens=1)
    model = memory.llm
    plain = model.predict

    def second_fails(prompt):
        model.fails = bool(model.prompts)
        return plain(prompt)

    model.predict = second_fails
    memory.save_context({"input": "一"}, {"output": "二"})
    assert memory.load_memory_variables({})["history"] == "摘要1\nAI: 二"


def test_a_prompt_that_would_not_show_the_conversation(caplog):
    """A summary of nothing would take the place of what was said."""
    model = Model()
    memory = ConversationSummaryMemory(model, prompt="Summarise: {summary}")
    memory.save_context({"input": "I sew sails"}, {"output": "Nice"})
    assert model.prompts == []
    assert memory.load_memory_variables({})["history"] == "Human: I sew sails\nAI: Nice"
    assert "the prompt has no {new_lines}" in caplog.text


def test_the_language_is_the_conversations_or_the_callers():
    model = Model()
    english = [HumanMessage("What is the capital of France?"), AIMessage("Paris.")]
    chinese = [HumanMessage("帮我用 Python 写一个排序"), AIMessage("好的")]
    memory = ConversationSummaryMemory(model)
    memory.predict_new_summary(english, "")
    memory.predict_new_summary(chinese, "")
    ConversationSummaryMemory(model, language="zh").predict_new_summary(english, "")
    ConversationSummaryMemory(model, language="en").predict_new_summary(chinese, "")
    ConversationSummaryMemory(model, prompt="{summary}|{new_lines}").predict_new_summary(english, "before")
    starts = [prompt[:5] for prompt in model.prompts]
    assert starts == ["Progr", "渐进式总结", "渐进式总结", "Progr", "befor"]
    with pytest.raises(ValueError, match='language is "zh"'):
        ConversationSummaryMemory(model, language="fr")


def test_an_initial_buffer_and_an_assigned_one(histories):
    memory = ConversationSummaryMemory(Model(), buffer="以前的摘要", chat_memory=histories.open())
    assert memory.load_memory_variables({})["history"] == "以前的摘要"
    memory.buffer = "改过的摘要"
    assert ConversationSummaryMemory(Model(), chat_memory=histories.open()).buffer == "改过的摘要"
    memory.clear()
    assert memory.buffer == ""


CHINESE = [
    ("我叫王小明，是上海一家公司的产品经理。", "您好，王小明，很高兴认识您。"),
    ("今天天气不错。", "是的，适合出去走走。"),
    ("请记住，我对花生过敏，订餐时一定要注意。", "好的，我记住了，您对花生过敏。"),
    ("我们决定把发布日期定在6月18日。", "明白，发布日期是6月18日。"),
    ("嗯嗯。", "还有什么可以帮您？"),
]


def test_without_a_model_a_chinese_summary_keeps_what_matters(caplog):
    with caplog.at_level(logging.INFO, "octavo.conversation"):
        memory = ConversationSummaryMemory(max_summary_tokens=120)
    assert "ConversationSummaryMemory has no language model: summaries are extracted" in caplog.messages
    for asked, answered in CHINESE:
        memory.save_context({"input": asked}, {"output": answered})
    summary = memory.load_memory_variables({})["history"]
    assert "花生过敏" in summary
    assert "6月18日" in summary
    assert "王小明" in summary
    assert len(summary) < sum(len(a) + len(b) for a, b in CHINESE) + 50
    assert memory.get_summary_stats()["offline"] is True
    assert memory.chat_memory.messages == []


def test_without_a_model_an_english_summary_keeps_what_matters():
    memory = ConversationSummaryMemory(max_summary_tokens=60)
    for asked, answered in [
        ("Please remember that I am allergic to peanuts.", "I will remember that."),
        ("Nice weather today, is it not? I think I may go for a walk.", "It is."),
        ("We decided to release version 2.4 on June 18.", "Noted, June 18."),
        ("Well, okay then, thank you so much for everything.", "You are welcome."),
    ]:
        memory.save_context({"input": asked}, {"output": answered})
    assert "allergic to peanuts" in memory.buffer
    assert "June 18" in memory.buffer
    assert "welcome" not in memory.buffer
    assert estimate_tokens(memory.buffer) <= 60


def test_a_second_process_goes_on(lasting):
    """What one process summarised, another finds, and the other way round."""
    memory = ConversationSummaryMemory(Model(), chat_memory=lasting.open())
    memory.save_context({"input": "第一"}, {"output": "好"})
    child = Path(__file__).with_name("continuing_child.py")
    kind = KINDS.get(lasting.kind, "StoreChatMessageHistory")
    done = subprocess.run(
        [sys.executable, "-W", "error", child, kind, *lasting.address()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found, made, count = json.loads(done.stdout)
    assert (found, count) == ("摘要1", 2)
    assert memory.buffer == made
    assert made.endswith("lines")


def words(text):
    return len(text.split())


def buffering(history, model, **settings):
    return ConversationSummaryBufferMemory(
        model, max_token_limit=12, count_tokens=words, chat_memory=history, **settings
    )


def test_summary_buffer_summarises_what_no_longer_fits(histories):
    """Each turn costs 6 words, so the newest two are shown as they were said."""
    model = Model()
    memory = buffering(histories.open(), model)
    for at in range(2):
        memory.save_context({"input": f"q{at} x"}, {"output": "a x"})
    assert model.prompts == []
    memory.save_context({"input": "q2 x"}, {"output": "a x"})
    assert "Human: q0 x\nAI: a x" in model.prompts[0]
    assert "q1" not in model.prompts[0]
    shown = "System: 摘要1\nHuman: q1 x\nAI: a x\nHuman: q2 x\nAI: a x"
    assert buffering(histories.open(), model).load_memory_variables({})["history"] == shown
    assert histories.open().count() == 4
    assert memory.moving_summary_buffer == "摘要1"
    memory.moving_summary_buffer = "新"
    listing = buffering(histories.open(), model, return_messages=True).load_memory_variables({})["history"]
    assert listing[0] == SystemMessage("新")
    assert len(listing) == 5


def test_summary_buffer_that_keeps_all(histories):
    model = Model()
    memory = buffering(histories.open(), model, keep="all")
    for at in range(4):
        memory.save_context({"input": f"q{at} x"}, {"output": "a x"})
    assert histories.open().count() == 8
    assert memory.load_memory_variables({})["history"].startswith("System: 摘要2\nHuman: q2 x")
    assert "q0" not in model.prompts[1]


def test_summary_buffer_stays_in_its_budget_when_the_model_fails():
    model = Model()
    model.fails = True
    memory = buffering(None, model)
    for at in range(5):
        memory.save_context({"input": f"q{at} x"}, {"output": "a x"})
    assert memory.load_memory_variables({})["history"].startswith("Human: q3 x")
    assert len(memory.chat_memory.messages) == 10
    model.fails = False
    memory.prune()
    assert len(memory.chat_memory.messages) == 4
    assert "q0 x" in model.prompts[0]
    assert "q2 x" in model.prompts[0]


async def test_turns_while_a_summary_is_made():
    """A turn that comes while another is summarised waits for the next summary, and is shown meanwhile."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def model(prompt):
        begun.set()
        await go_on.wait()
        return "summary"

    memory = ConversationSummaryMemory(model)
    first = asyncio.create_task(memory.asave_context({"input": "one"}, {"output": "1"}))
    await begun.wait()
    await memory.asave_context({"input": "two"}, {"output": "2"})
    go_on.set()
    await first
    assert await memory.aload_memory_variables({}) == {"history": "summary\nHuman: two\nAI: 2"}
    await memory.asave_context({"input": "three"}, {"output": "3"})
    assert await memory.aload_memory_variables({}) == {"history": "summary"}


async def test_cancelling_a_summary_loses_nothing():
    begun = asyncio.Event()

    async def model(prompt):
        begun.set()
        await asyncio.Event().wait()

    memory = ConversationSummaryMemory(model)
    task = asyncio.create_task(memory.asave_context({"input": "one"}, {"output": "1"}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await memory.aload_memory_variables({}) == {"history": "Human: one\nAI: 1"}
    memory.llm = lambda prompt: "summary"
    await memory.asave_context({"input": "two"}, {"output": "2"})
    assert await memory.aload_memory_variables({}) == {"history": "summary"}


def test_bad_settings():
    with pytest.raises(TypeError, match="a language model has invoke"):
        ConversationSummaryMemory(llm=3)
    with pytest.raises(ValueError, match="max_summary_tokens"):
        ConversationSummaryMemory(max_summary_tokens=0)
    with pytest.raises(ValueError, match="max_token_limit"):
        ConversationSummaryBufferMemory(max_token_limit=-1)
