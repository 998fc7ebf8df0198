"""Whose fact is asked for, and whose a text tells."""

from datetime import UTC, datetime

import msgspec
import pytest

from octavo import AsyncMemory, Record, Scope
from octavo.kernel.terms.matches import Match
from octavo.kernel.terms.terms import terms
from octavo.kernel.terms.topics import topics
from octavo.search.candidates import Candidates
from octavo.search.question import Question
from octavo.search.ranking import OTHERS_FACT, OWN_FACT, _weight_of_kind, rank
from octavo.search.subject import OTHER, OWN, UNKNOWN, asks_own, subjects_of, told_of


@pytest.mark.parametrize(
    ("question", "own"),
    [
        ("Where do I live?", True),
        ("what is the user's occupation", True),
        ("我住在哪里？", True),
        ("用户的职业是什么", True),
        ("Where does my teacher live?", False),
        ("What's Pearl's job?", False),
        ("Where does Pearl live, do I know?", False),
        ("Who lives with me?", False),
        ("我老师住在哪里？", False),
        ("那个住在我楼上的人叫什么", False),
        ("Where is the station?", False),
    ],
)
def test_a_question_asks_about_the_person_or_somebody_else(question, own):
    assert asks_own(question, ()) is own


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("I live in Ennis.", OWN),
        ("Penicillin brings me out in a rash.", OWN),
        ("My younger one, Annika, teaches in Fargo.", OTHER),
        ("My boss used to be a vet.", OTHER),
        ("Inés lives in Brixton.", OTHER),
        ("The user's piano teacher lives in Galway", OTHER),
        ("My piano teacher lives in Galway and I drive up to her.", OTHER),
        ("My piano teacher is Irish and I live next door.", OWN),
        ("Moved to Leeds last week.", UNKNOWN),
        ("在绍兴住了六年", OWN),
        ("我师父住在宁波", OTHER),
        ("老孟有痛风，住三楼", OTHER),
        ("儿子住校，我住绵阳", OWN),
        ("安然住单位宿舍", OTHER),
        ("偶尔也想住海边", OWN),
        ("房子住着挺舒服", OWN),
        ("Tom (my husband) works nights", OTHER),
        ("Rosa, my wife, keeps the books", OTHER),
    ],
)
def test_a_text_tells_of_the_person_or_somebody_else(text, subject):
    """Of several people, it is the one of whom it tells what is asked for."""
    assert told_of(text, ("live", "住")) == subject


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (
            (
                "My piano teacher lives in Galway.",
                "Inés lives in Brixton.",
                "We've moved to Margate last spring.",
            ),
            "Where do I live?",
        ),
        (("班主任当年住学校后面，现在住宁波", "阿岚住在厦门", "我租在越城区的老小区"), "我住在哪里？"),
    ],
)
async def test_what_somebody_else_does_is_no_answer(said, asked):
    """However well their words fit."""
    async with AsyncMemory("memory://") as memory:
        for text in said:
            await memory.add(text, user_id="ada")
        assert (await memory.search(asked, user_id="ada"))[0].text == said[-1]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (("My brother is called Cathal.", "I'm Lorcan, I mend organs."), "What's my name?"),
        (("弟弟叫豆豆", "我是岑若楠，在兰州"), "我叫什么名字？"),
    ],
)
async def test_a_name_is_told_without_the_word(said, asked):
    """And somebody else's name is no answer."""
    async with AsyncMemory("memory://") as memory:
        for text in said:
            await memory.add(text, user_id="ada")
        assert (await memory.search(asked, user_id="ada"))[0].text == said[-1]


def test_a_cat_called_pixel_is_no_phone():
    assert "0topic0phone" not in topics("How old is Pixel?", terms("How old is Pixel?"))


def test_half_of_a_chinese_word_weighs_less_than_the_word():
    assert _weight_of_kind("来") < _weight_of_kind("将来") == _weight_of_kind("boat")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("My wife Funmi works nights", {"wife", "funmi"}),
        ("Funmi hates coriander", {"funmi"}),
        ("My dog is called Biscuit", {"dog", "biscuit"}),
        ("The user's brother Terrell is a doctor", {"brother", "terrell"}),
        ("我叔叔叫王志强。", {"叔", "王志强"}),
        ("我的表姐的邮箱地址是wang@example.com", {"表姐"}),
        ("读书会的时间是下周三晚上", {"读书会"}),
        ("I live in Rome", set()),
        ("我住在杭州", set()),
    ],
)
def test_whom_or_what_a_text_tells_of(text, named):
    assert subjects_of(text) == named


LINKED = (
    "My colleague Anselm collects fountain pens.",
    "My landlord's birthday is on the 3rd of May.",
    "Anselm's birthday is on the 9th of March.",
    "A birthday cake takes six eggs.",
    "我的邻居叫裴望舒。",
    "我的表姐的爱好是摄影。",
    "我的邻居的爱好是拉二胡。",
    "我的客户的爱好是打高尔夫。",
)


@pytest.mark.parametrize("limit", [2, 8])
@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("When is the birthday of the man who collects fountain pens?", (LINKED[0], LINKED[2])),
        ("那个叫裴望舒的人有什么爱好？", (LINKED[4], LINKED[6])),
    ],
)
async def test_what_the_first_hit_tells_of_leads_to_the_second(question, first, limit):
    async with AsyncMemory("memory://") as memory:
        for text in LINKED:
            await memory.add(text, user_id="lin")
        found = await memory.search(question, user_id="lin", limit=limit, sources=["messages"])
        assert {hit.text for hit in list(found)[:2]} == set(first)


@pytest.mark.parametrize(
    ("text", "kind", "added"),
    [
        ("I live in Bergen", "user", OWN_FACT),
        ("My teacher lives in Bergen", "user", -OTHERS_FACT),
        ("Hanne: I live in Bergen", "user", 0),
        ("I live in the cloud", "assistant", 0),
    ],
)
def test_whose_i_it_is(text, kind, added):
    question = Question.of("Where do I live?", datetime(2026, 11, 18, tzinfo=UTC))
    question = msgspec.structs.replace(question, words=())  # what it says in other words is counted beside it
    none = (0,) * len(question.terms)
    ranked = rank(
        question,
        Candidates(
            (), [Match("1", Scope(user="lin"), datetime.now(UTC), 1, 5, none)], ["messages"], none, {}, {}, ()
        ),
    )
    record = Record(
        collection="messages",
        id="1",
        kind=kind,
        scope=Scope(user="lin"),
        text=text,
        created_at=datetime.now(UTC),
    )
    assert ranked.told_by(0, record) == added


@pytest.mark.parametrize(
    ("text", "asked", "subject"),
    [
        ("I have a son named Leo who is 5", ("name",), OTHER),
        ("我有一只猫叫咪咪", ("叫",), OTHER),
        ("Walt's birthday is March 8 and mine is October 30", ("birthday",), OWN),
        ("Run tests with `make check` before every commit", ("run", "test"), UNKNOWN),
    ],
)
def test_what_is_told_by_name_or_of_mine(text, asked, subject):
    assert told_of(text, asked) == subject
