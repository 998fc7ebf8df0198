"""Msg: what it is made of, how it is told, and what it refuses."""

import copy
import json
import pickle
import re
from datetime import datetime

import pytest

import octavo
from octavo.chat import Msg

BLOCKS = [
    {"type": "thinking", "thinking": "hm"},
    {"type": "text", "text": "one"},
    {"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}},
    {"type": "text", "text": "two"},
    {"type": "tool_result", "id": "c", "name": "f", "output": "42"},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
]


def test_fields():
    """Metadata is a dict, the timestamp is now with milliseconds, and ids differ."""
    message = Msg("Alice", "hello", "user")
    assert (message.name, message.content, message.role) == ("Alice", "hello", "user")
    assert message.metadata == {}
    assert message.invocation_id is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", message.timestamp)
    assert len({Msg("a", "b", "user").id for _ in range(1000)}) == 1000
    assert octavo.Msg is Msg


def test_repr():
    """It is printed as documented."""
    message = Msg("system", "<hint>先</hint>", "system", timestamp="2026-02-12 08:44:59.628")
    message.id = "2YJqhRoHhzVXXcHpLZqAvR"
    assert f"{message}" == (
        "Msg(id='2YJqhRoHhzVXXcHpLZqAvR', name='system', content='<hint>先</hint>', role='system', "
        "metadata={}, timestamp='2026-02-12 08:44:59.628', invocation_id='None')"
    )


@pytest.mark.parametrize("content", ["", "hello", [], BLOCKS], ids=["empty", "text", "nothing", "blocks"])
@pytest.mark.parametrize("more", [{}, {"metadata": {"a": [1]}, "timestamp": "t", "invocation_id": "i"}])
def test_lossless(content, more):
    """from_dict(to_dict()) is the same message, through JSON too, and the dict is nobody else's."""
    message = Msg("a", copy.deepcopy(content), "assistant", **copy.deepcopy(more))
    told = message.to_dict()
    keys = ["id", "name", "role", "content", "metadata", "timestamp"]
    assert list(told) == [*keys, *(["invocation_id"] if more else [])]
    for again in (
        Msg.from_dict(told),
        Msg.from_dict(json.loads(json.dumps(told))),
        copy.deepcopy(message),
        pickle.loads(pickle.dumps(message)),
    ):
        assert again == message
        assert again.to_dict() == told
    told["metadata"]["b"] = 1
    Msg.from_dict(told).metadata["c"] = 1
    assert message.metadata == (more.get("metadata") or {})
    assert "c" not in told["metadata"]


def test_texts_and_blocks():
    text, blocks = Msg("a", "hello", "user"), Msg("a", BLOCKS, "assistant")
    assert text.get_text_content() == "hello"
    assert blocks.get_text_content() == "one\ntwo"
    assert blocks.get_text_content(" ") == "one two"
    assert Msg("a", BLOCKS[2:3], "assistant").get_text_content() is None
    assert text.get_content_blocks() == [{"type": "text", "text": "hello"}]
    assert text.get_content_blocks("tool_use") == []
    assert blocks.get_content_blocks() == BLOCKS
    assert blocks.get_content_blocks("tool_use") == [BLOCKS[2]]
    assert blocks.get_content_blocks(["tool_use", "tool_result"]) == [BLOCKS[2], BLOCKS[4]]
    assert text.has_content_blocks()
    assert not Msg("a", [], "user").has_content_blocks()
    assert blocks.has_content_blocks("image")
    assert not blocks.has_content_blocks("video")


@pytest.mark.parametrize(
    ("error", "args"),
    [
        (ValueError, ("a", "b", "tool")),
        (ValueError, ("a", "b", None)),
        (TypeError, (None, "b", "user")),
        (TypeError, ("a", None, "user")),
        (TypeError, ("a", {"type": "text"}, "user")),
        (TypeError, ("a", ["text"], "user")),
        (TypeError, ("a", [{"text": "no type"}], "user")),
        (TypeError, ("a", "b", "user", [1])),
    ],
)
def test_what_is_no_message(error, args):
    with pytest.raises(error, match=r"message|role|block"):
        Msg(*args)


def test_a_dict_that_is_no_message():
    """A key that is missing or unknown is named: nothing is dropped in silence."""
    with pytest.raises(ValueError, match="'role'"):
        Msg.from_dict({"name": "a", "content": "b"})
    with pytest.raises(ValueError, match="'colour'"):
        Msg.from_dict({"name": "a", "content": "b", "role": "user", "colour": "red"})
    short = Msg.from_dict({"name": "a", "content": "b", "role": "user", "metadata": None})
    assert short.metadata == {}
    assert short.id


def test_equality():
    """Two messages are equal when all of them is, and usable in sets."""
    one = Msg("a", "b", "user")
    two = Msg.from_dict(one.to_dict())
    assert one == two
    assert len({one, two}) == 1
    two.name = "c"
    assert one != two
    assert one != "b"


def test_a_time_is_told_as_messages_tell_it():
    at = datetime(2026, 2, 12, 8, 44, 59, 628_000).astimezone()
    message = Msg("a", "b", "user", timestamp=at)
    assert message.timestamp == "2026-02-12 08:44:59.628"
    with pytest.raises(TypeError, match="the timestamp of a message is a string; got 5"):
        Msg("a", "b", "user", timestamp=5)


@pytest.mark.parametrize("block", [{"type": "text"}, {"type": "text", "text": None}])
def test_a_block_of_text_has_a_text(block):
    with pytest.raises(TypeError, match="a block of text has a 'text' that is a string; got "):
        Msg("a", [block], "user")


def test_a_message_is_told_as_a_dict():
    with pytest.raises(TypeError, match="a message is told as a dict; got None"):
        Msg.from_dict(None)
