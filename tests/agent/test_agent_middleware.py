"""Middlewares: what they see, what they may change, and what becomes of one that fails."""

import pytest
from agents import agent, calculator, call, data_of, lived

from octavo import ConfigError, EventType
from octavo.agent import Middleware


class Tag(Middleware):
    """Says its name at both ends."""

    def __init__(self, name):
        self.name = name

    async def pre(self, message, context):
        return f"{message}<{self.name}"

    def post(self, response, context):
        return f"{response}>{self.name}"


class OnlyPost:
    def post(self, response):
        return response.upper()


class Silent:
    def __init__(self):
        self.seen = []

    async def pre(self, message):
        self.seen.append(message)

    async def post(self, response, context):
        self.seen.append((response, context.session_id))


async def test_they_go_in_and_come_out_in_turn():
    """The first sees the message first and the response last; PRE has the message as given, POST the response as made."""
    made = agent("ok", middlewares=[Tag("a"), Tag("b")])
    result = await made.run("hi")
    assert result["response"] == "ok>b>a"
    assert made.model_adapter.asked[0][-1]["content"] == "hi<a<b"
    assert (await lived(made))[1:] == [
        "USER_MESSAGE", "MIDDLEWARE_PRE", "MIDDLEWARE_PRE", "MODEL_RESPONSE", "MIDDLEWARE_POST", "MIDDLEWARE_POST",
    ]  # fmt: skip
    assert await data_of(made, EventType.MIDDLEWARE_PRE) == [
        {"middleware": "a", "message": "hi"},
        {"middleware": "b", "message": "hi<a"},
    ]
    assert await data_of(made, EventType.MIDDLEWARE_POST) == [
        {"middleware": "b", "response": "ok>b"},
        {"middleware": "a", "response": "ok>b>a"},
    ]
    assert (await data_of(made, EventType.USER_MESSAGE))[0]["message"] == "hi"
    assert (await data_of(made, EventType.AGENT_INIT))[0]["middlewares"] == ["a", "b"]


async def test_half_a_middleware_and_a_silent_one():
    """A hook that is not there is not recorded; None leaves the text as it is; the context may be left out."""
    silent = Silent()
    made = agent("ok", middlewares=[OnlyPost(), silent])
    assert (await made.run("hi"))["response"] == "OK"
    assert silent.seen == ["hi", ("ok", made.context.session_id)]
    assert [data["middleware"] for data in await data_of(made, EventType.MIDDLEWARE_PRE)] == ["Silent"]
    assert [data["middleware"] for data in await data_of(made, EventType.MIDDLEWARE_POST)] == [
        "Silent",
        "OnlyPost",
    ]


class Broken:
    def __init__(self, hook):
        setattr(self, hook, self.fail)
        self.left = 1

    def fail(self, text, context):
        if self.left:
            self.left = 0
            raise ValueError("not today")
        return text


@pytest.mark.parametrize(
    ("hook", "events"),
    [
        ("pre", ["USER_MESSAGE", "MIDDLEWARE_PRE", "AGENT_ERROR"]),
        ("post", ["USER_MESSAGE", "TOOL_CALL_START", "TOOL_CALL_SUCCESS", "MODEL_RESPONSE", "AGENT_ERROR"]),
    ],
)
async def test_a_raising_middleware(hook, events):
    """AGENT_ERROR naming it, no success, no half-filtered answer; the next run works."""
    made = agent(
        call("calculator", expression="1"), "one", "two", tools=[calculator], middlewares=[Broken(hook)]
    )
    result = await made.run("go")
    assert (result["success"], result["response"], result["error"]) == (False, "", "not today")
    assert (await lived(made))[1:] == events
    assert await data_of(made, EventType.AGENT_ERROR) == [
        {"error": "not today", "error_type": "ValueError", "stage": "middleware Broken"}
    ]
    again = await made.run("again")
    assert again["success"] is True
    assert [m["content"] for m in made.context.messages if m["role"] == "user"] == ["again"]


async def test_an_answer_that_is_no_text():
    """A hook that answers something else is at fault."""

    class Odd:
        def pre(self, message):
            return 42

    result = await agent(middlewares=[Odd()]).run("go")
    assert "must answer a text or None; got int" in result["error"]


@pytest.mark.parametrize("wrong", [object(), Middleware(), Tag, lambda message: message])
def test_what_is_no_middleware(wrong):
    """It is refused with the cure when the agent is made."""
    with pytest.raises(ConfigError, match=r"is no middleware; give it a pre\(message, context\)"):
        agent(middlewares=[wrong])
