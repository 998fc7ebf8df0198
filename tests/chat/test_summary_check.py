"""A model's summary keeps every name, number and refusal of the user's, or the offline extract takes its place."""

import logging

import pytest

from octavo import ModelError
from octavo.chat import InMemoryMemory, Msg
from octavo.chat.compression import CompressionConfig, compress
from octavo.kernel.terms.extract import find_lost

CHECKED = CompressionConfig(trigger=0, keep_recent=1)
TALK = (
    ("user", "Please book a table for Marisol and me, 12 people in all, at 19:30."),
    ("assistant", "Anything to avoid? The Harbour Grill has 48 seats."),
    ("user", "No peanuts, please. 我不吃辣，我姐姐叫秋莲。"),
    ("assistant", "Noted."),
)
GOOD = "The user wants a table for Marisol, 12 people, at 19:30, without peanuts; 不吃辣; sister 秋莲."


async def filled():
    memory = InMemoryMemory()
    await memory.add([Msg("x", text, role) for role, text in TALK])
    return memory


async def test_a_good_summary_is_kept():
    done = await compress(await filled(), lambda _: GOOD, CHECKED)
    assert (done.by, done.error, done.summary) == ("model", "", GOOD)


@pytest.mark.parametrize(
    ("kept", "told", "lost"),
    [
        ("12 people", "some people", "12"),
        ("19:30", "the evening", "19:30"),
        ("Marisol", "a friend", "Marisol"),
        ("秋莲", "一位", "秋莲"),
        ("without peanuts", "with peanuts", "No peanuts"),
        ("不吃辣", "爱吃辣", "不吃辣"),
    ],
)
async def test_what_a_summary_loses_sends_it_back(kept, told, lost, caplog):
    """The extract, which holds the users' own words, is kept instead, and the log says why."""
    with caplog.at_level(logging.WARNING, "octavo.chat"):
        done = await compress(await filled(), lambda _: GOOD.replace(kept, told), CHECKED)
    assert done.by == "extract"
    assert lost in done.error
    assert lost in caplog.text
    assert "Marisol" in done.summary
    assert "不吃辣" in done.summary


async def test_a_failure_is_raised_or_the_summary_is_taken_unchecked_as_configured():
    strict = CompressionConfig(trigger=0, keep_recent=1, extract_on_failure=False)
    with pytest.raises(ModelError, match="lost 12"):
        await compress(await filled(), lambda _: GOOD.replace("12 people", "people"), strict)
    loose = CompressionConfig(trigger=0, keep_recent=1, check=False)
    assert (await compress(await filled(), lambda _: "A table.", loose)).by == "model"


async def test_the_summary_before_is_to_be_kept_too():
    memory = await filled()
    await compress(memory, lambda _: GOOD, CHECKED)
    await memory.add([Msg("x", "And a high chair.", "user"), Msg("x", "Sure.", "assistant")])
    done = await compress(memory, lambda _: "A high chair.", CHECKED)
    assert done.by == "extract"
    assert "Marisol" in done.summary


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("I have 3 kids", "The user has three kids"),
        ("我有2只猫", "用户有两只猫"),
        ("It cost 1,150 euros", "Price: 1150 euros"),
        ("I don't know, no problem", "Nothing"),
        ("不知道，不错", "没什么"),
        ("Never call me before nine", "He is not to be called before nine"),
        ("我对花生过敏", "不能吃花生"),
    ],
)
def test_other_words_for_the_same(said, summary):
    assert find_lost([said], summary) == []


def test_each_is_named_once():
    assert find_lost(["room 204", "room 204 again"], "a room") == ["204"]


def test_what_only_counts_is_no_number():
    """Messages that differ by their number alone are counted through; of two of them, the number may matter."""
    assert find_lost([f"message {number}" for number in range(10)], "some messages") == []
    assert find_lost(["room 204", "room 310"], "rooms") == ["204", "310"]
