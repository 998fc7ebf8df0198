"""LangGraph's graphs on Octavo's store and saver, held to LangGraph's own suite for savers and to its own store."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError

RUN = Path(__file__).with_name("langgraph_run.py")
PAGE = "langgraph.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    folder = tmp_path_factory.mktemp("graphs")
    told = {}
    for parts in [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]:
        told |= json.loads(ran_warm(frameworks, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_the_suite_for_savers(told):
    """`langgraph-checkpoint-conformance` finds every capability, and nothing wrong with any."""
    whole, passed, failures = told["conformance"]
    assert failures == []
    assert whole
    assert passed >= 80


def test_the_answers_are_those_of_the_store_of_langgraph(told):
    """Batches of random operations, sent to `InMemoryStore` and to ours: the last write of a batch wins, reads come first."""
    assert told["differing"] == []


def test_namespaces(told):
    names = told["names"]
    assert names["prefix"] == [["a", "b", "c"], ["a", "b", "d"], ["a", "x"]]
    assert names["suffix"] == [["a", "x"], ["ab", "x"], ["b", "x"]]
    assert names["any"] == [["a", "b", "d"]]
    assert names["depth"] == [["a", "x"], ["ab", "x"], ["b", "x"]]
    assert [name for name, _, _ in names["searched"]] == names["prefix"]
    assert names["refused"] == [["a.b"], [], [""]]
    assert names["text"] == "value must be a dict, such as {'text': …}; got 'text'"


def test_what_is_written_again(told):
    """It is the last one, with its first time; of a crowd's writes to one key, which go together, the last stays."""
    again = told["rewritten"]
    assert again["order"] == ["d", "a", "c"]
    assert again["page"] == ["a", "c"]
    assert again["kept"] == [2, True, True]
    assert again["crowd"] == list(range(40, 120))
    assert again["one"] == ["k7", "k47"]


def test_the_last_ones_are_read_page_by_page(told):
    """A filter that drops nearly all, and more namespaces below than are asked one by one, leave none out."""
    again = told["rewritten"]
    assert again["rare"] == [6, 5, 4]
    assert again["wide"] == [*range(539, 499, -1), *range(449, 444, -1)]


def test_items_end(told):
    """After their time, from the last time they were read; one that is not to end stays."""
    after_16, after_90, gone, searched = told["ttl"]
    assert sorted(after_16) == ["default", "ever", "long"]
    assert sorted(after_90) == ["ever", "long"]
    assert gone == [None, 1]
    assert sorted(searched) == ["ever", "long"]


def test_items_are_found(told):
    """By words in Chinese and English, by the fields that are indexed, by filters, and by meaning with embeddings."""
    assert told["found"] == {
        "words": [["tea", True]],
        "chinese": ["home"],
        "unindexed": [],
        "filtered": ["home"],
        "meaning": ["pet"],
    }


def test_a_graph_goes_on_in_another_process(told):
    """Its state and its items are there, and what waited for an answer is resumed with it."""
    first, second = told["first"], told["second"]
    assert first["real"] == [True, True]
    assert first["said"][0] == ["I am Lin", "I was told 1 things and know 1.", "side"]
    assert first["said"][1][4:] == ["I was told 4 things and know 2.", "side"]
    assert first["interrupt"] == ["May I?", ["go", "side"]]
    assert second["before"] == 6
    assert second["said"] == ["Who am I?", "I was told 7 things.", "side"]
    assert second["items"] == ["turn-1", "turn-4", "turn-7"]
    assert second["found"] == ["turn-4"]
    assert second["resumed"] == ["go", "approved: yes", "side"]
    assert second["threads"] == ["ask", "monday", "same"]
    assert second["left"] > 5
    assert second["deleted"] == [None, []]


def test_the_history_is_that_of_the_saver_of_langgraph(told):
    """The same run on `InMemorySaver`: the same states, blocking."""
    same, length = told["first"]["like_theirs"]
    assert same
    assert length > 6


def test_the_tools_of_langmem(told):
    """They keep a memory of one user in the store, and find it for him alone."""
    assert told["langmem"] == [True, True, False]


def test_searches_do_not_see_checkpoints(told):
    """A search of a user finds what was said, not the states of his graphs; forgetting him takes those along.

    And forgetting a session takes the thread of its name.
    """
    sources, left, session = told["unpolluted"]
    assert session == [True, None]
    assert set(sources) <= {"facts", "messages"}
    assert left == [None, None]


def test_every_block_of_the_page(frameworks, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_vectors_of_a_store_that_is_handed_in(frameworks):
    """They are its own business: embeddings for it are refused, with the cure."""
    program = """
from octavo import ConfigError, open_store
from octavo.integrations.langgraph import OctavoStore
try:
    OctavoStore(open_store("memory://"), index={"embed": lambda texts: [[1.0]] * len(texts), "dims": 1})
except ConfigError as error:
    print(error)
"""
    assert ran_warm(frameworks, "-c", program).endswith("give its URL with index\n")


def test_without_langgraph():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install langgraph"):
        importlib.import_module("octavo.integrations.langgraph")
