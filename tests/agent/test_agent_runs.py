"""What a run answers, and what it leaves in the memory: the documented events with the documented data, in order."""

import asyncio

import pytest
from agents import ListStore, agent, calculator, call, data_of, lived

from octavo import (
    Agent,
    AgentContext,
    ConfigError,
    EventType,
    InvalidRecord,
    MockAdapter,
    ModelConfig,
    ModelError,
)
from octavo.agent import ModelAdapter, Reply, ToolCall

RESULT = {"response", "tool_calls", "iterations", "success"}


async def test_a_plain_answer():
    """One message, one answer: three events with exactly the documented fields."""
    made = agent("Hi there.")
    await made.initialize()
    result = await made.run("Hello")
    assert result == {"response": "Hi there.", "tool_calls": [], "iterations": 1, "success": True}
    assert await lived(made) == ["AGENT_INIT", "USER_MESSAGE", "MODEL_RESPONSE"]
    assert await data_of(made, EventType.USER_MESSAGE) == [{"message": "Hello", "message_length": 5}]
    assert await data_of(made, "MODEL_RESPONSE") == [
        {"response": "Hi there.", "tool_calls_count": 0, "iterations": 1, "success": True}
    ]
    events = await made.get_memory()
    assert {event.agent_name for event in events} == {"assistant"}
    assert {event.session_id for event in events} == {made.context.session_id}
    assert all(event.event_id.startswith("evt_") and event.metadata == {} for event in events)


async def test_a_tool_is_called():
    """START, then SUCCESS; the model is told the result; the answer counts the calls."""
    made = agent(call("calculator", expression="2+2"), "It is 4.", tools=[calculator])
    result = await made.run("What is 2+2?")
    assert result["response"] == "It is 4."
    assert result["iterations"] == 2
    [one] = result["tool_calls"]
    assert (one["tool_name"], one["arguments"], one["result"]) == ("calculator", {"expression": "2+2"}, "4")
    assert await lived(made) == [
        "AGENT_INIT", "USER_MESSAGE", "TOOL_CALL_START", "TOOL_CALL_SUCCESS", "MODEL_RESPONSE",
    ]  # fmt: skip
    assert await data_of(made, EventType.TOOL_CALL_START) == [
        {"tool_name": "calculator", "arguments": {"expression": "2+2"}}
    ]
    assert await data_of(made, EventType.TOOL_CALL_SUCCESS) == [{"tool_name": "calculator", "result": "4"}]
    [response] = await data_of(made, EventType.MODEL_RESPONSE)
    assert (response["tool_calls_count"], response["iterations"]) == (1, 2)
    _, asked = made.model_adapter.asked
    assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
    assert asked[1]["tool_calls"][0]["function"] == {
        "name": "calculator",
        "arguments": '{"expression":"2+2"}',
    }
    assert asked[2] == {"role": "tool", "tool_call_id": one["id"], "content": "4"}


async def test_a_raising_tool():
    """START, then ERROR with the error's words and kind; the model is told, and the run goes on to succeed."""
    made = agent(call("calculator", expression="1/0"), "I cannot.", "fine", tools=[calculator])
    result = await made.run("What is 1/0?")
    assert result["success"] is True
    assert result["tool_calls"][0]["error_type"] == "ZeroDivisionError"
    assert (await lived(made))[2:] == ["TOOL_CALL_START", "TOOL_CALL_ERROR", "MODEL_RESPONSE"]
    assert await data_of(made, EventType.TOOL_CALL_ERROR) == [
        {"tool_name": "calculator", "error": "division by zero", "error_type": "ZeroDivisionError"}
    ]
    assert made.model_adapter.asked[1][-1]["content"] == "Error: ZeroDivisionError: division by zero"
    assert (await made.run("Still there?"))["response"] == "fine"


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (call("abacus"), "UnknownTool", "there is no tool 'abacus'; there are: calculator"),
        (call("calculator"), "InvalidArguments", "missing required field `expression`"),
        (call("calculator", expression=["2"]), "InvalidArguments", "Expected `str`, got `array`"),
        (call("calculator", expression="2", base=10), "InvalidArguments", "unknown field `base`"),
        (ToolCall(name="calculator", arguments='{"expression": "2'), "InvalidArguments", "are no JSON"),
        (ToolCall(name="calculator", arguments="[" * 100_000), "InvalidArguments", "are no JSON"),
        (ToolCall(name="calculator", arguments="[2]"), "InvalidArguments", "must be a JSON object"),
    ],
)
async def test_calls_a_model_gets_wrong(step, kind, words):
    """A tool that does not exist and arguments that do not fit are errors of the call; the model may do better."""
    made = agent(step, call("calculator", expression="2"), "two", tools=[calculator])
    result = await made.run("go")
    assert result["response"] == "two"
    assert (await lived(made))[2:6] == [
        "TOOL_CALL_START", "TOOL_CALL_ERROR", "TOOL_CALL_START", "TOOL_CALL_SUCCESS",
    ]  # fmt: skip
    [error] = await data_of(made, EventType.TOOL_CALL_ERROR)
    assert error["error_type"] == kind
    assert words in error["error"]
    assert words in made.model_adapter.asked[1][-1]["content"]
    # Whatever the model wrote, what it is shown of it is JSON: servers read it again.
    assert made.model_adapter.asked[1][-2]["tool_calls"][0]["function"]["arguments"].startswith("{")


@pytest.mark.parametrize("error", [ModelError("the model is down"), RuntimeError("boom"), SystemExit(3)])
async def test_a_raising_model(error):
    """AGENT_ERROR, no MODEL_RESPONSE, an answer that says so, and an agent that goes on."""
    made = agent(error, "back again")
    result = await made.run("Hello")
    assert {*result} == RESULT | {"error"}
    assert (result["success"], result["response"], result["iterations"]) == (False, "", 1)
    assert await lived(made) == ["AGENT_INIT", "USER_MESSAGE", "AGENT_ERROR"]
    [data] = await data_of(made, EventType.AGENT_ERROR)
    assert data["error"] == result["error"]
    assert data["stage"] == "model"
    assert (await made.run("Hello?"))["response"] == "back again"
    assert [message["content"] for message in made.model_adapter.asked[1]] == ["Hello?"]


class Mumble(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError("cannot even say it")


def raises(messages, tools):
    raise Mumble


@pytest.mark.parametrize(
    ("complete", "words"),
    [
        (lambda messages, tools: {"content": "hello"}, "not a Reply"),
        (lambda messages, tools: None, "not a Reply"),
        (lambda messages, tools: Reply(content=["hello"]), "not a Reply of text"),
        (lambda messages, tools: Reply(tool_calls=[{"name": "x"}]), "and ToolCalls"),
        (raises, "Mumble"),
    ],
)
async def test_a_model_that_answers_nonsense(complete, words):
    """An adapter that returns something else, or fails in an odd way, is the model's failure and no crash."""

    class Strange(ModelAdapter):
        def complete(self, messages, tools):
            return complete(messages, tools)

    made = Agent.create(name="a", model_adapter=Strange())
    result = await made.run("Hello")
    assert words in result["error"]
    assert await lived(made) == ["AGENT_INIT", "USER_MESSAGE", "AGENT_ERROR"]


async def test_a_model_that_is_not_async():
    """A plain method is as good."""

    class Plain(ModelAdapter):
        def complete(self, messages, tools):
            return Reply(content="plain")

    assert (await Agent.create(name="a", model_adapter=Plain()).run("Hello"))["response"] == "plain"


async def test_a_model_that_never_answers():
    """After max_iterations the run ends without success, and both the model's words and the error are recorded."""
    again = Reply(content="let me see", tool_calls=[call("calculator", expression="1")])
    made = agent(*[again] * 3, "enough", tools=[calculator], max_iterations=3)
    result = await made.run("Hello")
    assert (result["success"], result["iterations"], len(result["tool_calls"])) == (False, 3, 3)
    assert result["response"] == "let me see"
    assert "no answer after 3 iterations" in result["error"]
    assert (await lived(made))[-2:] == ["MODEL_RESPONSE", "AGENT_ERROR"]
    assert (await data_of(made, EventType.MODEL_RESPONSE))[0]["success"] is False
    assert (await data_of(made, EventType.AGENT_ERROR))[0]["error_type"] == "NoAnswer"
    assert (await made.run("And now?"))["response"] == "enough"


async def test_several_calls_in_one_answer():
    """They run one after the other, each START before its own end."""
    made = agent(
        [call("calculator", expression="1"), call("calculator", expression="x")], "done", tools=[calculator]
    )
    result = await made.run("go")
    assert [("result" in one, "error" in one) for one in result["tool_calls"]] == [
        (True, False),
        (False, True),
    ]
    assert (await lived(made))[2:6] == [
        "TOOL_CALL_START", "TOOL_CALL_SUCCESS", "TOOL_CALL_START", "TOOL_CALL_ERROR",
    ]  # fmt: skip
    starts = await made.get_memory(event_type=EventType.TOOL_CALL_START)
    ends = [*await made.get_memory("tool_call_success"), *await made.get_memory("tool_call_error")]
    assert [e.metadata["tool_call_id"] for e in starts] == [e.metadata["tool_call_id"] for e in ends]


async def test_initialize():
    """Each call records one AGENT_INIT with what the agent is; a run without one begins with it, once."""
    made = agent(tools=[calculator], max_iterations=7)
    await made.initialize()
    await made.run("a")
    assert await data_of(made, EventType.AGENT_INIT) == [
        {"model": "mock", "tools": ["calculator"], "middlewares": [], "max_iterations": 7}
    ]
    await made.initialize()
    assert (await lived(made)).count("AGENT_INIT") == 2
    other = agent()
    await asyncio.gather(*(other.run(str(number)) for number in range(5)))
    assert (await lived(other)).count("AGENT_INIT") == 1
    assert (await lived(other))[0] == "AGENT_INIT"


async def test_events_of_ones_own():
    """`record_event` and its older name record in the current session; inside a tool, in the session of the run."""
    made = None

    async def login(user: str) -> str:
        await made.record_event("custom", action="login", user=user)
        return "ok"

    made = agent(call("login", user="lin"), "done", tools=[login])
    event = await made._record_event(
        EventType.CUSTOM, {"action": "user_login", "user_id": "123"}, metadata={"source": "web"}
    )
    [kept] = await made.get_memory(event_type=EventType.CUSTOM)
    assert kept == event
    assert (kept.data, kept.metadata) == ({"action": "user_login", "user_id": "123"}, {"source": "web"})
    await made.run("go", session_id="elsewhere")
    [inside] = await made.get_memory(EventType.CUSTOM, session_id="elsewhere")
    assert inside.data == {"action": "login", "user": "lin"}
    named = await made.record_event(EventType.CUSTOM, {"n": 1}, session_id="third")
    assert named.session_id == "third"
    assert (await lived(made, "elsewhere"))[2:5] == ["TOOL_CALL_START", "CUSTOM", "TOOL_CALL_SUCCESS"]


async def test_a_cancelled_run():
    """Whoever cancels a run is heard; what was begun is recorded as ended, and the agent goes on."""
    gate = asyncio.Event()

    async def stuck() -> None:
        gate.set()
        await asyncio.get_running_loop().create_future()

    made = agent(call("stuck"), "fine", tools=[stuck])
    run = asyncio.create_task(made.run("go"))
    await gate.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await lived(made))[1:] == ["USER_MESSAGE", "TOOL_CALL_START", "TOOL_CALL_ERROR", "AGENT_ERROR"]
    assert (await made.run("again"))["success"] is True


async def test_without_memory():
    """`enable_memory=False` records nothing, and asking finds nothing."""
    made = agent("hello", enable_memory=False)
    await made.initialize()
    assert (await made.run("Hi"))["response"] == "hello"
    assert made.memory_store is None
    assert await made.get_memory() == await made.search_memory("Hi") == []
    assert await made.record_event(EventType.CUSTOM, {}) is None
    assert await made.clear_memory() == (await made.get_memory_stats())["total_events"] == 0
    assert (await made.get_memory_stats())["by_type"].get("AGENT_ERROR", 0) == 0
    await made.aclose()
    store = ListStore()
    silent = agent(memory_store=store, enable_memory=False)
    await silent.run("Hi")
    assert store.events == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ""}, "an agent needs a usable name"),
        ({"name": "  "}, "an agent needs a usable name"),
        ({"name": "x" * 300}, "an agent needs a usable name"),
        ({"model_adapter": "gpt"}, "must have a method `complete`"),
        ({"memory_store": "sqlite:///x.db"}, "must be a BaseMemoryStore"),
        ({"max_iterations": 0}, "max_iterations must be 1 or more"),
        ({"tools": [calculator, calculator]}, "two tools are named 'calculator'"),
        ({"tools": ["calculator"]}, "a tool must be a function"),
        ({"middlewares": [print]}, "is no middleware"),
        ({"tools": print}, "tools are a list of functions; got <built-in function print>"),
        ({"middlewares": 5}, "middlewares are a list of them; got 5"),
        ({"system_prompt": 5}, "system_prompt is a text; got 5"),
    ],
)
def test_what_cannot_be_an_agent(given, words):
    """Mistakes are named when the agent is made."""
    with pytest.raises(ConfigError, match=words):
        Agent.create(**{"name": "a", "model_adapter": MockAdapter(), **given})


async def test_bad_sessions_and_messages():
    """They are refused before anything happens, in words."""
    made = agent()
    for session_id in ("", "x" * 300, "a\0b", "\ud800"):
        with pytest.raises(InvalidRecord, match="session_id"):
            await made.run("Hi", session_id=session_id)
    with pytest.raises(InvalidRecord, match="user_id"):
        await made.run("Hi", user_id="")
    with pytest.raises(TypeError, match="run takes a text"):
        await made.run(None)
    assert await lived(made) == []
    assert AgentContext(session_id="s").messages == []


def test_the_key_is_never_shown():
    """Neither a key nor a password in the address is in what is printed of a configuration."""
    config = ModelConfig(
        model_name="m", api_key="sk-secret", base_url="http://me:hidden@host/v1", temperature=0.2
    )
    assert "secret" not in repr(config)
    assert "hidden" not in repr(config)
    assert "temperature=0.2" in repr(config)
    for wrong in (
        {"model_name": ""},
        {"model_name": "m", "max_tokens": 0},
        {"model_name": "m", "timeout": 0},
    ):
        with pytest.raises(ConfigError):
            ModelConfig(**wrong)


async def test_the_script_of_a_mock():
    """Texts, calls, lists, replies, errors and functions are steps; anything else is named; a string is one answer."""
    mock = MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo"), script="just this")
    assert mock.config.model_name == "gpt-3.5-turbo"
    assert (await mock.complete([], [])).content == "just this"
    assert (await mock.complete([], [])).content == "Mock response"
    mock.script += [lambda messages: messages[-1]["content"][::-1], 42]
    assert (await mock.complete([{"role": "user", "content": "abc"}], [])).content == "cba"
    with pytest.raises(ConfigError, match="got 42"):
        await mock.complete([], [])
