"""A memory says what it is about, and is found by that and by the sentence it was made of, on every store alike."""

from datetime import UTC, datetime

import pytest
from layers_kit import fact

from octavo.kernel.terms.matching import FOUND_BY, index_terms
from octavo.layers import LayeredMemory
from octavo.layers.rules.extractor import decide

LIN = {"user_id": "lin"}


async def contents(memory: LayeredMemory, question: str) -> list[str]:
    return [one.memory.content for one in await memory.recall(question, **LIN, top_k=1)]


async def test_a_fact_is_found_by_the_sentence_it_was_made_of(memory, scripted):
    said = "Ever since the flood I have lived aboard a narrowboat called Petunia."
    scripted.script[said] = [fact("The user lives on a boat", category="preference", quote=said)]
    await memory.extract(said, **LIN)
    await memory.remember("Lin likes green tea", **LIN, layer="profile", category="preference")
    assert await contents(memory, "Petunia") == ["The user lives on a boat"]
    assert await contents(memory, "narrowboat") == ["The user lives on a boat"]


async def test_a_fact_is_found_by_its_topic(memory, scripted):
    scripted.script["hi"] = [fact("The user mends accordions", quote="hi", topic="work")]
    await memory.extract("hi", **LIN)
    await memory.remember("Lin keeps a journal about clouds", **LIN, layer="profile", category="preference")
    assert await contents(memory, "What is my occupation?") == ["The user mends accordions"]
    assert await contents(memory, "我的职业是什么？") == ["The user mends accordions"]


async def test_every_memory_shows_its_topic(memory, scripted):
    scripted.script["hi"] = [
        fact("The user lives in Rome", category="preference", topic="home"),
        fact("The user's cat is called Toast", category="preference"),
    ]
    made = (await memory.extract("hi", **LIN)).memories
    assert [one.topic for one in made] == ["home", "pets"]
    assert {one.content: one.topic for one in await memory.profile(**LIN)} == {
        "The user lives in Rome": "home",
        "The user's cat is called Toast": "pets",
    }
    told = await memory.remember("My birthday is on 5 May", **LIN, layer="profile")
    assert told.topic == "birthday"
    assert (await memory.get(told.id)).topic == "birthday"
    assert (await memory.remember("xyzzy", **LIN)).topic == ""


async def test_a_memory_that_says_something_else_is_about_something_else(memory, scripted):
    said = "I have lived aboard a narrowboat called Petunia."
    scripted.script[said] = [
        fact("The user lives on a boat", category="preference", quote=said, topic="home")
    ]
    [one] = (await memory.extract(said, **LIN)).memories
    revised = await memory.revise(one.id, **LIN, content="The user is a nurse")
    assert revised.topic == "work"
    assert await contents(memory, "Petunia") == []
    assert (await memory.revise(one.id, **LIN, metadata={"a": 1})).topic == "work"


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("I am Lin, a nurse in Leeds", {"name", "work"}),
        ("My wife Marisol is a vet", {"family"}),
        ("我家猫叫芝麻", {"pets"}),
        ("我住在柏林", {"home"}),
        ("I'm allergic to nuts", {"health"}),
        ("我的邮箱是a@b.example", {"contact"}),
    ],
)
async def test_the_rules_know_what_a_fact_is_about(text: str, topic: set[str]) -> None:
    async with LayeredMemory("memory://") as memory:
        assert {one.topic for one in (await memory.extract(text, **LIN)).memories} == topic


def test_of_a_quote_only_new_words_are_indexed() -> None:
    """A single character of a Chinese sentence would find half of everything, and its topics are not those of each fact."""
    own, length = index_terms("用户住在柏林")
    found, longer = index_terms("用户住在柏林", "我住在柏林，养了两只猫")
    added = found[len(own) - (len(own) - length) : longer]
    assert "两只" in added
    assert not any(len(term) == 1 for term in added)
    assert set(found) - set(own) == set(added)
    assert FOUND_BY == "found_by"


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ("I have a dentist appointment tomorrow at 9.", "appointment"),
        ("My dentist is Dr. Osei.", "health"),
        ("I'm seeing the doctor on Monday at 3pm", "appointment"),
        ("明天上午九点我要看牙医", "appointment"),
        ("我周五预约了牙医", "appointment"),
        ("I've had tinnitus since my twenties", "health"),
        ("I collect vinyl, mostly northern soul", "hobby"),
        ("My phone's a Pixel 8", "technology"),
        ("我手机是小米14", "technology"),
        ("I am a dentist.", "work"),
        ("I have a job interview on Friday", "work"),
        ("My sister is a doctor", "family"),
        ("我是牙医", "work"),
    ],
)
def test_what_a_fact_is_about(said, topic):
    [one] = decide(said, (), owner_type="user", at=datetime(2026, 3, 12, tzinfo=UTC))
    assert one.topic == topic
