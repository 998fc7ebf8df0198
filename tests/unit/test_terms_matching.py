"""The meaning of a search: which terms choose, what is counted, and terms given twice."""

import re
from datetime import UTC, datetime, timedelta
from importlib import resources

import pytest

from octavo import Query, Record, Scope
from octavo.kernel.terms import is_topic
from octavo.kernel.terms.english import stem, stem_start
from octavo.kernel.terms.matches import MOST, Match, Matches, nominate, order_words
from octavo.kernel.terms.matching import index_terms, search_records
from octavo.kernel.terms.terms import terms
from octavo.kernel.terms.topics import topic_name, topics
from octavo.kernel.text import content

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
ALL = Query(collection="messages")


def note(number, text, **fields):
    return Record(
        collection="messages",
        id=str(number),
        text=text,
        created_at=NOON + timedelta(seconds=number),
        seq=number,
        **fields,
    )


def test_the_rarest_terms_choose():
    """From the rarest on, as many as find no more than MOST together; the rarest always, nobody's never."""
    assert nominate(["a", "b", "c"], [10, 5, 0]) == ["b", "a"]
    assert nominate(["a", "b"], [MOST, 1]) == ["b"]
    assert nominate(["a", "b"], [MOST - 1, 1]) == ["b", "a"]
    assert nominate(["b", "a"], [MOST + 1, MOST + 1]) == ["a"]
    assert nominate(["a"], [0]) == []
    assert nominate([], []) == []


def test_a_term_given_twice_counts_once_among_those_that_choose():
    assert nominate(["a", "b", "a"], [MOST // 2, MOST // 2, MOST // 2]) == ["a", "b"]


def test_words_choose_together_where_all_are_common():
    """The first word of all, then the others, each once; topics and what nobody holds do not."""
    many = MOST + 1
    assert order_words(["b", "c", "a", "c"], [many] * 4) == [2, 0, 1]
    assert order_words(["b", "a", "c"], [many, many, 0]) == [1, 0]
    topic = next(term for term in index_terms("the cello")[0] if is_topic(term))
    assert order_words([topic, "a", "b"], [many] * 3) == [1, 2]
    assert order_words([topic], [many]) == [0]


def test_counts_and_lengths():
    """Each match says how often it holds each term, in the order they were given, and how many terms it has."""
    records = [note(2, "fox owl fox"), note(1, "a fox"), note(3, "oak"), note(4, "", data={"x": ["fox", 7]})]
    assert search_records(ALL, ["owl", "fox", "*", "fox"], records) == Matches(
        [
            Match("1", Scope(), NOON + timedelta(seconds=1), 1, 2, (0, 1, 0, 1)),
            Match("2", Scope(), NOON + timedelta(seconds=2), 2, 3, (1, 2, 0, 2)),
            Match("4", Scope(), NOON + timedelta(seconds=4), 4, 2, (0, 1, 0, 1)),
        ],
        (1, 3, 0, 3),
    )


def test_paging_and_text_are_not_looked_at():
    records = [note(number, "fox") for number in range(5)]
    query = Query(collection="messages", text="owl", limit=1, offset=2, newest_first=True)
    assert [match.id for match in search_records(query, ["fox"], records).found] == list("01234")


def test_an_answer_about_some_terms_spread_over_all():
    """What a backend answers about distinct, possible terms becomes the answer about the terms as given."""
    match = Match("1", Scope(), NOON, 1, 9, (3, 4))
    answer = Matches([match], (7, 8)).spread(("a", "b"), ("b", "*", "a", "b"))
    assert answer == Matches([Match("1", Scope(), NOON, 1, 9, (4, 0, 3, 4))], (8, 0, 7, 8))


def test_data_stands_in_for_text():
    assert content("text", {"a": "b"}) == "text"
    assert content("", {"a": "b", "c": [1, None, {"d": True}]}) == "b\n1\ntrue"


@pytest.mark.parametrize(
    ("text", "aged"),
    [
        ("I'm 68 and I still shovel my own driveway", True),
        ("my mother is eighty-two, her eyes are failing", True),
        ("my little guy is 3 and scared of the vacuum", True),
        ("the train is 5 minutes late", False),
        ("my rent is 640", False),
        ("there are twelve eggs", False),
    ],
)
def test_an_age_is_one_without_a_word_that_says_so(text, aged):
    """Otherwise nothing connects "I'm 68" with "how old am I?"."""
    assert ("birthday" in map(topic_name, topics(text, terms(text)))) is aged


def test_a_word_of_the_table_of_topics_is_found_by_how_its_stem_begins():
    """Or it would be looked for among others, and no text would be about it."""
    table = resources.files("octavo.kernel.terms").joinpath("topics.txt").read_text("utf-8")
    words = {*re.findall(r"[a-z]+", table)}
    assert len(words) > 5000
    assert [word for word in words if stem(word)[:2] != stem_start(word)] == []
