"""How a question is read: its terms, its parts and the times it names."""

from datetime import UTC, date, datetime, timedelta

import pytest

from octavo.kernel.terms import TOPIC_PREFIX, is_topic
from octavo.kernel.terms.dates import DayRange
from octavo.kernel.terms.matching import index_terms
from octavo.search.question import MOST_CHARACTERS, MOST_TERMS, Question, only_asks
from octavo.search.ranking import time_fit

MONDAY = datetime(2026, 3, 2, 12, tzinfo=UTC)


def asked(text: str) -> Question:
    return Question.of(text, MONDAY)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("What is the colour of Anna's car?", ("colour", "anna", "car")),
        ("what is it", ("what", "is", "it")),
        ("tea tea TEA", ("tea",)),
        ("", ()),
        ("?!", ()),
        ("我的车", ("的", "车", "的车")),
        ("Which kind of tea does she drink?", ("tea", "drink")),
    ],
)
def test_what_a_question_is_about(text, terms):
    """Words that carry the sentence are left out, unless there are no others; each term is asked once."""
    assert tuple(term for term in asked(text).terms if not is_topic(term)) == terms


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("What is my occupation?", "I have been a welder for ten years"),
        ("Where do I live?", "We rent a flat near the harbour"),
        ("Does the user have any pets?", "Our kitten broke the vase"),
        ("我身体有什么毛病？", "我有高血压"),
        ("用户的职业是什么？", "我在医院当护士"),
    ],
)
def test_topics(question, statement):
    """What shares no word may be about the same, and both are asked for and found by that."""
    about = {term for term in asked(question).terms if is_topic(term)}
    assert about.intersection(index_terms(statement)[0])
    words, length = index_terms(statement)
    assert length == sum(not is_topic(term) for term in words)
    assert not any(is_topic(term) for term in index_terms("x " * 2000)[0])


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("When is my exam?", "partner"),
        ("What I paid for the canoe?", "salary"),
    ],
)
def test_the_beginning_of_a_longer_word_is_no_topic(question, topic):
    """*My ex* is somebody's partner, *my exam* is none."""
    assert f"{TOPIC_PREFIX}{topic}" not in asked(question).terms


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("What do I do?", "What do I do?"),
        ("Rain all day. I made soup. What did the new bike cost?", "What did the new bike cost?"),
        ("今天好累。我的车什么时候年检？", "我的车什么时候年检？"),
        ("Is it late? I slept. What did the new bike cost?", ""),
        ("What did the new bike cost? I forgot.", ""),
        ("I lost my way in the fog again. Why?", ""),
        ("new bike", ""),
        ("Long shift. wait what does the new bike cost again", "wait what does the new bike cost again"),
        (
            "Kettle's on, sit down love. remind me what I gave for the canoe would you",
            "remind me what I gave for the canoe would you",
        ),
        ("Tired. I forgot when the chimney sweep comes round", "I forgot when the chimney sweep comes round"),
    ],
)
def test_the_one_sentence_that_asks(text, sentence):
    """Small talk before it is no part of it; of two that ask, or one that says too little by itself, none is meant alone."""
    assert asked(text).asked == sentence


TALK = "I came last at the sports meet and feel so bad about it. Did you try your best? "
END = "I did, but all the others were so much faster, and seeing them ahead of me only made me more nervous."
TALK_CHINESE = "我今天运动会跑了最后一名，心里特别难受。你尽力了吗？"
END_CHINESE = "我尽力了，可是别人都跑得比我快得多，看到大家都在我前面，我就更加紧张，腿都不听使唤了。"


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        (TALK + END, END),
        (TALK + END + " It hurt.", f"{END} It hurt."),
        (TALK_CHINESE + END_CHINESE, END_CHINESE),
        (END, ""),  # it is all that was said
        ("I came last. It hurt.", ""),  # too little to leave anything out
        (TALK + END + " Who won the race last year?", ""),  # that is what is asked
    ],
)
def test_the_end_of_what_is_said(text, ending):
    """Where somebody talks on and does not end with a question, the last sentences are also looked for by themselves."""
    assert asked(text).ending == ending


@pytest.mark.parametrize(
    ("text", "overview"),
    [
        ("What do you know about me?", True),
        ("tell me everything you remember about me", True),
        ("你了解我什么？", True),
        ("关于我你都知道些什么", True),
        ("What do you know about my dog?", False),
        ("你知道我住在哪里吗？", False),
        ("all that you remember", True),
        ("who am I, according to you?", True),
        ("Would you kindly say what you know of me?", True),
        ("what kind of person am I", True),
        ("what do you have on file for me", True),
        ("remind me what I've shared with you", True),
        ("我是谁？", True),
        ("我之前都告诉过你什么", True),
        ("你眼中的我", True),
        ("用户画像", True),
        ("who am I meeting tomorrow", False),
        ("what kind of person is my boss", False),
        ("where is my file", False),
        ("我是谁的粉丝", False),
        ("我老板是什么样的人", False),
        ("information", False),
        ("信息", False),
        ("", False),
    ],
)
def test_all_that_is_known(text, overview):
    assert asked(text).overview is overview


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("what should I cook for Gwen?", False),
        ("what did I lend Iolo?", False),
        ("what should I cook for dinner?", True),
        ("我该给谁打电话", False),
        ("我住哪里？", True),
    ],
)
def test_who_names_somebody_does_not_ask_about_themselves_alone(text, own):
    assert asked(text).own is own


def test_small_talk_stands_aside():
    """What stands around a question says nothing about whether there is an answer."""
    question = asked("Lovely weather today. I slept badly. Where is my violin?")
    aside = {question.terms[at] for at in question.aside}
    assert {"weather", "slept"} & aside or {"weather", "sleep"} & aside
    assert "violin" not in aside
    assert question.asks
    assert not asked("I slept badly and dreamt of ships").asks
    assert asked("slept badly").aside == frozenset()


@pytest.mark.parametrize("word", ["shell", "ill", "id", "shed", "hell"])
def test_words_that_look_like_contractions(word):
    """She'll and I'll carry a sentence; a shell and being ill are what it is about."""
    assert asked(f"Was the {word} Anna mentioned new?").terms[0] == word


def test_a_question_has_bounds():
    """No more terms and characters of a question are read than promised."""
    assert len(asked(" ".join(f"w{n}x" for n in range(5000))).terms) == MOST_TERMS
    assert len(asked("x" * 1_000_000).text) == MOST_CHARACTERS
    assert asked("a\ud800b").text == "a?b"


def test_parts():
    """Sentences of three terms and more are asked by themselves, when there are several."""
    question = asked("Where is Anna's blue bicycle? 王医生的电话是多少？OK. Also, does Boris play the cello?")
    parts = [
        [question.terms[at] for at in part if not is_topic(question.terms[at])] for part in question.parts
    ]
    assert parts[0] == ["anna", "blue", "bicycl"]
    assert "王医" in parts[1]
    assert parts[2] == ["bori", "play", "cello"]
    assert len(parts) == 3
    assert asked("Where is Anna's blue bicycle?").parts == ()
    assert asked("Tea? Coffee? Where is Anna's blue bicycle?").parts == ()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("on 2023-05-07", (2023, 5, 7), (2023, 5, 7)),
        ("in May 2023", (2023, 5, 1), (2023, 5, 31)),
        ("2024年2月", (2024, 2, 1), (2024, 2, 29)),
        ("in 2024", (2024, 1, 1), (2024, 12, 31)),
        ("yesterday", (2026, 3, 1), (2026, 3, 1)),
        ("昨天", (2026, 3, 1), (2026, 3, 1)),
        ("today", (2026, 3, 2), (2026, 3, 2)),
        ("前天", (2026, 2, 28), (2026, 2, 28)),
        ("last week", (2026, 2, 23), (2026, 3, 1)),
        ("上周", (2026, 2, 23), (2026, 3, 1)),
        ("last Wednesday", (2026, 2, 25), (2026, 2, 25)),
        ("上周三", (2026, 2, 25), (2026, 2, 25)),
        ("last month", (2026, 2, 1), (2026, 2, 28)),
        ("上个月", (2026, 2, 1), (2026, 2, 28)),
        ("last year", (2025, 1, 1), (2025, 12, 31)),
        ("去年", (2025, 1, 1), (2025, 12, 31)),
        ("three days ago", (2026, 2, 27), (2026, 2, 27)),
        ("三天前", (2026, 2, 27), (2026, 2, 27)),
        ("2 weeks ago", (2026, 2, 16), (2026, 2, 22)),
        ("两周前", (2026, 2, 16), (2026, 2, 22)),
        ("5个月前", (2025, 10, 1), (2025, 10, 31)),
        ("a year ago", (2025, 1, 1), (2025, 12, 31)),
    ],
)
def test_times_named(text, first, last):
    """Days, months and years as written, and counted back from the moment of asking, in both languages."""
    assert asked(f"{text} tea").spans == (DayRange(date(*first), date(*last)),)


@pytest.mark.parametrize("text", ["tea", "you may go", "march on", "3/4/24", "99-99", "1234", "三天"])
def test_no_time_named(text):
    """What is not a day, or not clearly one, names none."""
    assert asked(text).spans == ()


def test_only_the_year_is_clear():
    """Of 3/4/2024 nobody knows whether it is in March or in April, and no year has a month 99."""
    for text in ("3/4/2024", "2024-99-99"):
        assert asked(text).spans == (DayRange(date(2024, 1, 1), date(2024, 12, 31)),)


def test_a_month_without_a_year():
    """May be of any of the last years, or of the next one."""
    named = asked("what happened in June?").spans
    assert DayRange(date(2025, 6, 1), date(2025, 6, 30)) in named
    assert DayRange(date(2020, 6, 1), date(2020, 6, 30)) in named
    assert asked("on 29 February?").spans[0].first.month == 2


def test_how_well_a_time_fits():
    """1 inside the span, half ten days after it or five before, less beyond; 0 when none is named."""
    may = asked("in May 2023").spans
    end = datetime(2023, 5, 31, 23, tzinfo=UTC)
    assert time_fit(may, datetime(2023, 5, 1, tzinfo=UTC)) == time_fit(may, end) == 1.0
    assert time_fit(may, end + timedelta(days=10)) == 0.5
    assert time_fit(may, datetime(2023, 4, 26, tzinfo=UTC)) == 0.5
    assert time_fit(may, end + timedelta(days=100)) < 0.01
    assert time_fit((), end) == 0.0
    for extreme in (datetime(1000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)):
        assert 0 <= time_fit(asked("in June").spans, extreme) < 0.01


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what's the torque on a flare nut", True),
        ("hi, can you check my grammar? Please translate it too", True),
        ("give me ten ideas for a picnic", True),
        ("What a day. I got the job at the mill", False),
        ("When I was six we moved to Oban", False),
        ("when does the ferry leave", True),
        ("I wonder what she does. She's a vet.", False),
        ("西瓜冻过还能吃不", True),
        ("帮我写个请假条", True),
        ("你知道几点开门吗", True),
        ("我什么都吃，不挑", False),
        ("我叔叔在广州上班呢。", False),
        ("不知道选哪个好，最后买了红的", False),
    ],
)
def test_a_text_that_only_asks(text, expected):
    assert only_asks(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where am I living these days?", True),
        ("我现在住哪？", True),
        ("I'm home now. Where do I live?", False),
        ("我住哪？", False),
    ],
)
def test_it_is_asked_what_is_so_now(text, expected):
    assert asked(text).now is expected
