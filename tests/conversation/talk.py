"""A conversation with a message of every kind."""

from octavo.conversation import AIMessage, HumanMessage, SystemMessage, ToolMessage

TALK = [
    SystemMessage("简短回答"),
    HumanMessage("上海天气？", name="小明", id="m1"),
    AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "上海"}, "id": "c1"}]),
    ToolMessage("晴", tool_call_id="c1"),
    AIMessage("上海今天晴。🙂", response_metadata={"model": "x"}),
]


def said(messages):
    return [message.content for message in messages]
