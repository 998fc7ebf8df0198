"""Messages: nothing is lost on the way to plain values and back."""

import json

import pytest

from octavo.conversation import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    get_buffer_string,
    message_from_dict,
    message_to_dict,
    messages_from_dict,
    messages_to_dict,
)
from octavo.conversation.messages import as_message

CALL = {"name": "weather", "args": {"city": "上海"}, "id": "call_1", "type": "tool_call"}
ALL = [
    HumanMessage("你好 🙂", id="m1", name="小明", additional_kwargs={"a": [1, None]}),
    AIMessage("", tool_calls=[CALL], usage_metadata={"input_tokens": 3}, response_metadata={"model": "x"}),
    ToolMessage("晴", tool_call_id="call_1", status="error", artifact={"raw": 1}),
    FunctionMessage("42", name="answer"),
    SystemMessage([{"type": "text", "text": "be brief"}, "please"]),
    ChatMessage("hm", role="critic"),
]


def test_there_and_back():
    """Every kind of message comes back equal, through JSON too."""
    told = messages_to_dict(ALL)
    assert messages_from_dict(json.loads(json.dumps(told))) == ALL
    assert [one["type"] for one in told] == ["human", "ai", "tool", "function", "system", "chat"]
    assert all(set(one) == {"type", "data"} for one in told)


def test_what_else_came_with_a_message_is_told_again():
    told = {"type": "human", "data": {"content": "x", "type": "human", "example": True}}
    assert message_to_dict(message_from_dict(told))["data"]["example"] is True


def test_plain_form_shares_nothing():
    message = AIMessage("", tool_calls=[dict(CALL, args={"city": "北京"})])
    told = message_to_dict(message)
    told["data"]["tool_calls"][0]["args"]["city"] = "changed"
    assert message.tool_calls[0]["args"]["city"] == "北京"
    back = message_from_dict(told)
    told["data"]["tool_calls"].clear()
    assert len(back.tool_calls) == 1


def test_equal_means_equal_in_everything():
    assert HumanMessage("a") == HumanMessage("a")
    assert HumanMessage("a") != AIMessage("a")
    assert HumanMessage("a") != HumanMessage("a", id="1")
    assert HumanMessage("a") != "a"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"type": "martian", "data": {"content": "x"}}, "'martian' is not known"),
        ({"type": "human", "data": {}}, "content"),
        ({"type": "tool", "data": {"content": "x"}}, "tool_call_id"),
        ({"type": "human"}, "told as"),
        ("human", "told as"),
    ],
)
def test_what_is_no_message_is_refused(told, said):
    with pytest.raises(ValueError, match=said):
        message_from_dict(told)


def test_content_is_text_or_blocks():
    with pytest.raises(TypeError, match="string or a list of blocks"):
        HumanMessage(None)


def test_buffer_string_is_the_documented_one():
    messages = [
        HumanMessage("hi"),
        AIMessage("hello"),
        SystemMessage("s"),
        ToolMessage("t", tool_call_id="1"),
    ]
    assert get_buffer_string(messages) == "Human: hi\nAI: hello\nSystem: s\nToolMessage: t"
    assert get_buffer_string(messages[:2], human_prefix="用户", ai_prefix="助手") == "用户: hi\n助手: hello"
    assert get_buffer_string([]) == ""


def test_text_of_blocks():
    assert ALL[4].text == "be brief\nplease"
    assert HumanMessage([{"type": "image", "url": "x"}]).text == ""


class Foreign:
    """A message of another library."""

    type = "ai"
    content = "ok"
    tool_calls = (CALL,)
    additional_kwargs = {"k": 1}  # noqa: RUF012


def test_messages_of_other_libraries_keep_their_tool_calls():
    made = as_message(Foreign(), HumanMessage)
    assert isinstance(made, AIMessage)
    assert list(made.tool_calls) == [CALL]
    assert made.additional_kwargs == {"k": 1}
    with pytest.raises(TypeError, match="a text or a message"):
        as_message(object(), HumanMessage)


def test_base_message_has_the_documented_fields():
    message = BaseMessage("x")
    assert (message.content, message.additional_kwargs, message.response_metadata) == ("x", {}, {})
    assert (message.id, message.name) == (None, None)


@pytest.mark.parametrize("kind", [BaseMessage, HumanMessage, AIMessage, SystemMessage])
def test_the_documented_fields_have_the_documented_order(kind):
    """The second argument of an answer was taken for its tool calls."""
    message = kind("x", {"a": 1}, {"b": 2})
    assert (message.additional_kwargs, message.response_metadata) == ({"a": 1}, {"b": 2})
