"""OpenAIAdapter against a real HTTP server: what it sends, and what becomes of every bad answer."""

import asyncio
import json
import sys
import traceback

import pytest
from agents import calculator, lived
from chat_endpoint import (
    BROKEN,
    GARBAGE,
    HUNG_UP,
    NO_CHOICES,
    NOT_JSON,
    OTHER_JSON,
    REFUSED,
    TOO_BUSY,
    called,
    chat_endpoint,
    http,
    never,
    said,
)

from octavo import Agent, ConfigError, EventType, ModelConfig, ModelError, OpenAIAdapter

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def server():
    async with chat_endpoint() as running:
        yield running


@pytest.fixture
async def adapter(server):
    async with OpenAIAdapter(ModelConfig(model_name="m", base_url=server.url, api_key=KEY)) as made:
        yield made


async def test_a_conversation_with_a_tool(server, adapter):
    """The prompt, the tools, the call and its result go over the wire as the protocol has them."""
    server.script += [called(("calculator", '{"expression": "2+2"}')), said("It is 4.")]
    agent = Agent.create(name="a", model_adapter=adapter, system_prompt="Be brief.", tools=[calculator])
    result = await agent.run("What is 2+2?")
    assert (result["response"], result["iterations"], result["success"]) == ("It is 4.", 2, True)
    first, second = server.requests
    assert first["model"] == "m"
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 2+2?"},
    ]
    [tool] = first["tools"]
    assert tool["type"] == "function"
    assert tool["function"]["name"] == "calculator"
    assert tool["function"]["description"] == "Work out an arithmetic expression."
    assert tool["function"]["parameters"]["properties"]["expression"] == {
        "type": "string",
        "description": "such as 2+2",
    }
    assert second["messages"][2]["tool_calls"][0]["id"] == "call_0"
    assert json.loads(second["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {
        "expression": "2+2"
    }
    assert second["messages"][3] == {"role": "tool", "tool_call_id": "call_0", "content": "4"}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "temperature" not in first
    assert (await agent.get_memory(EventType.AGENT_INIT))[0].data["model"] == "m"


async def test_what_is_configured_is_sent(server):
    """Temperature, the largest answer and whatever else was asked for; no tools, no list of them."""
    config = ModelConfig(
        model_name="m", base_url=server.url, temperature=0.0, max_tokens=50, extra={"seed": 7, "stop": ["x"]}
    )
    async with OpenAIAdapter(config) as adapter:
        assert (await adapter.complete([{"role": "user", "content": "Hi"}], [])).content == "Hello."
    [sent] = server.requests
    assert (sent["temperature"], sent["max_tokens"], sent["seed"], sent["stop"]) == (0.0, 50, 7, ["x"])
    assert "tools" not in sent


async def test_openai_itself_knows_another_name_for_max_tokens(server):
    """Without an address of its own the request is OpenAI's, whose newer models refuse `max_tokens`."""
    adapter = OpenAIAdapter(ModelConfig(model_name="gpt-5", api_key=KEY, max_tokens=50))
    request = adapter._request([], [])
    assert request["max_completion_tokens"] == 50
    assert "max_tokens" not in request
    assert repr(adapter) == "OpenAIAdapter('gpt-5' at https://api.openai.com/v1)"


async def test_key_and_address_from_the_environment(server, monkeypatch):
    """They are taken where the configuration has none; a server without keys needs none."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    async with OpenAIAdapter(ModelConfig(model_name="m")) as adapter:
        await adapter.complete([], [])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with OpenAIAdapter(ModelConfig(model_name="m")) as adapter:
        await adapter.complete([], [])
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("step", [TOO_BUSY, BROKEN, HUNG_UP])
async def test_what_passes_is_retried(server, adapter, step):
    """One such answer is followed by another attempt, and nobody notices."""
    server.script += [step, said("here")]
    assert (await adapter.complete([], [])).content == "here"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "step", [TOO_BUSY, BROKEN, HUNG_UP, REFUSED, GARBAGE, NOT_JSON, OTHER_JSON, NO_CHOICES]
)
async def test_what_stays_wrong_is_a_model_error(server, adapter, step):
    """Every kind of bad answer is ModelError, AGENT_ERROR in the memory, and a run that says so; the next one works."""
    server.script += [step] * 3
    with pytest.raises(ModelError, match=r"OpenAIAdapter\('m' at http://127.0.0.1:\d+/v1\)"):
        await adapter.complete([], [])
    server.script.clear()
    server.script += [step] * 3
    agent = Agent.create(name="a", model_adapter=adapter)
    result = await agent.run("Hi")
    assert result["success"] is False
    assert await lived(agent) == ["AGENT_INIT", "USER_MESSAGE", "AGENT_ERROR"]
    server.script.clear()
    assert (await agent.run("Hi"))["response"] == "Hello."


async def test_a_slow_server(server):
    """After `timeout` seconds, and as many retries as asked for, the call ends."""
    server.script += [never] * 2
    config = ModelConfig(model_name="m", base_url=server.url, timeout=0.05, max_retries=1)
    async with OpenAIAdapter(config) as adapter:
        with pytest.raises(ModelError, match="timed out"):
            await adapter.complete([], [])
    assert len(server.requests) == 2


async def test_nobody_there():
    """A refused connection is a ModelError that names the address."""
    config = ModelConfig(model_name="m", base_url="http://127.0.0.1:9/v1", max_retries=0)
    async with OpenAIAdapter(config) as adapter:
        with pytest.raises(ModelError, match=r"http://127\.0\.0\.1:9/v1"):
            await adapter.complete([], [])


async def test_arguments_that_are_no_json(server, adapter):
    """What a model writes by mistake is told to it, and never sent back as arguments that no server can read."""
    server.script += [
        called(("calculator", '{"expression": ')),
        called(("calculator", "")),
        called(("calculator", '{"expression": "3"}'), content="Once more."),
        said("three"),
    ]
    agent = Agent.create(name="a", model_adapter=adapter, tools=[calculator])
    assert (await agent.run("go"))["response"] == "three"
    errors = await agent.get_memory(EventType.TOOL_CALL_ERROR)
    assert [error.data["error_type"] for error in errors] == ["InvalidArguments"] * 2
    for request in server.requests[1:]:
        for message in request["messages"]:
            for call in message.get("tool_calls", ()):
                json.loads(call["function"]["arguments"])
    assert server.requests[3]["messages"][-2]["content"] == "Once more."


async def test_the_key_is_in_no_error(server, adapter):
    """Not even when the server repeats it, in the message or anywhere in the traceback; nor in a repr."""
    repeated = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
    server.script += [http("401 Unauthorized", repeated)]
    with pytest.raises(ModelError) as caught:
        await adapter.complete([], [])
    printed = "".join(traceback.format_exception(caught.value))
    assert "bad key …" in str(caught.value)
    assert KEY not in printed
    assert KEY not in repr(adapter) + repr(adapter.config)


async def test_closing(server):
    """What was opened is closed and says so when it is used again; a client handed in stays open."""
    import openai

    client = openai.AsyncOpenAI(api_key=KEY, base_url=server.url)
    adapter = OpenAIAdapter(ModelConfig(model_name="m"), client=client)
    await adapter.complete([], [])
    await adapter.close()
    await adapter.close()
    with pytest.raises(ModelError, match="was closed"):
        await adapter.complete([], [])
    await client.chat.completions.create(model="m", messages=[])
    await client.close()


def test_one_adapter_in_two_event_loops():
    """A second asyncio.run() gets connections of its own."""
    made = OpenAIAdapter(ModelConfig(model_name="m", api_key=KEY))

    async def once():
        async with chat_endpoint() as server:
            made._server.base_url = server.url
            reply = await made.complete([], [])
            await made._server._made[1].close()  # else its sockets would be left to the garbage collector
            return reply.content

    assert asyncio.run(once()) == asyncio.run(once()) == "Hello."


def test_what_is_missing(monkeypatch):
    """A missing key and a missing package are named, with the cure."""
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
        OpenAIAdapter(ModelConfig(model_name="m"))
    with pytest.raises(ConfigError, match="characters in it that no key has") as caught:
        OpenAIAdapter(ModelConfig(model_name="m", api_key="sk-né"))
    assert "né" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'octavo\[openai\]'"):
        OpenAIAdapter(ModelConfig(model_name="m", api_key=KEY))
