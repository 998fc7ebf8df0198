"""Tools: what a model is told of a function, and what the function is given of a model's arguments."""

import asyncio
import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from agents import agent, call

from octavo import AgentContext, ConfigError, EventType
from octavo.agent import Tool, tool
from octavo.agent.tools import InvalidArguments, read_docstring, result_text

CONTEXT = AgentContext(session_id="s")


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Place:
    city: str
    country: str = "FR"


class Box(TypedDict, total=False):
    width: int


def schema(function):
    return Tool(function).parameters


def properties(function):
    return schema(function)["properties"]


def test_types():
    """Every type that JSON can say becomes its schema; what has a default need not be given."""

    def many(
        text: str, number: int, part: float, flag: bool, anything, maybe: Optional[str], names: list[str],  # noqa: UP045
        pairs: dict[str, int], way: Literal["up", "down"], unit: Unit, place: Place, box: Box, when: datetime,
        either: int | str, seq: Sequence[int], limit: int = 3, note: str | None = None, tags: list[str] = ["a"],  # noqa: B006
    ):  # fmt: skip
        """Everything."""

    found = properties(many)
    assert found["text"] == {"type": "string"}
    assert found["number"] == {"type": "integer"}
    assert found["part"] == {"type": "number"}
    assert found["flag"] == {"type": "boolean"}
    assert found["anything"] == {}
    assert found["maybe"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert found["names"] == {"type": "array", "items": {"type": "string"}}
    assert found["pairs"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert found["way"]["enum"] == ["down", "up"]
    assert found["unit"]["enum"] == ["c", "f"]
    assert found["place"]["properties"]["city"] == {"type": "string"}
    assert found["place"]["required"] == ["city"]
    assert found["box"]["properties"] == {"width": {"type": "integer"}}
    assert found["when"] == {"type": "string"}
    assert {one["type"] for one in found["either"]["anyOf"]} == {"integer", "string"}
    assert found["limit"] == {"type": "integer", "default": 3}
    assert found["note"]["default"] is None
    assert found["tags"]["default"] == ["a"]
    whole = schema(many)
    assert whole["type"] == "object"
    assert whole["additionalProperties"] is False
    assert whole["required"] == [name for name in found if name not in ("limit", "note", "tags")]
    assert "$ref" not in str(whole)


async def test_values():
    """Arguments arrive as the types that were asked for, and the function's own defaults hold."""

    def many(
        place: Place, unit: Unit, when: datetime, count: int = 3, marker: Any = ..., box: Box | None = None
    ):
        return place, unit, when, count, marker, box

    given = {"place": {"city": "Paris"}, "unit": "f", "when": "2026-01-05T09:30:00Z"}
    place, unit, when, count, marker, box = await Tool(many).call(given, CONTEXT)
    assert (place, unit, when.year, count, marker, box) == (
        Place("Paris"),
        Unit.FAHRENHEIT,
        2026,
        3,
        ...,
        None,
    )
    assert (await Tool(many).call(given | {"count": "4", "box": {"width": 2}}, CONTEXT))[3:] == (
        4,
        ...,
        {"width": 2},
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `place`"),
        ({"place": "Paris"}, r"Expected `object`, got `str` - at `\$.place`"),
        ({"place": {}}, "missing required field `city`"),
        ({"place": {"city": "x"}, "unit": "k"}, r"Invalid enum value 'k' - at `\$.unit`"),
        ({"place": {"city": "x"}, "days": "many"}, r"at `\$.days`"),
        ({"place": {"city": "x"}, "speed": 1}, "unknown field `speed`"),
        ("", "missing required field"),
        ("{", "are no JSON"),
        ("null", "must be a JSON object"),
    ],
)
async def test_arguments_that_do_not_fit(arguments, words):
    """They are refused in words a model can act on, and the function is not called."""

    def weather(place: Place, unit: Unit = Unit.CELSIUS, days: int = 1):
        raise AssertionError

    with pytest.raises(InvalidArguments, match=words):
        await Tool(weather).call(arguments, CONTEXT)


GOOGLE = """Look up the weather.

    For up to a week.

    Args:
        city: where it is,
            in any language
        days (int): how many

    Returns:
        words: in English
    """
NUMPY = """Look up the weather.

    For up to a week.

    Parameters
    ----------
    city : str
        where it is,
        in any language
    days
        how many

    Returns
    -------
    str
        words
    """
SPHINX = """Look up the weather.

    For up to a week.

    :param city: where it is,
        in any language
    :param int days: how many
    :returns: words
    """
CHINESE = """Look up the weather.

    For up to a week.

    参数：
        city：where it is, in any language
        days：how many

    返回：
        words
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX, CHINESE])
def test_descriptions(docstring):
    """All docstring styles say what the function is for and what each parameter means; what follows is left out."""

    def weather(city: str, days: int = 1):
        pass

    weather.__doc__ = docstring
    made = Tool(weather)
    assert made.description == "Look up the weather.\n\nFor up to a week."
    assert made.parameters["properties"]["city"]["description"] == "where it is, in any language"
    assert made.parameters["properties"]["days"] == {
        "description": "how many",
        "type": "integer",
        "default": 1,
    }
    assert made.spec["function"]["name"] == "weather"
    assert read_docstring(None) == ("", {})


async def test_other_names_and_words():
    """`@tool` leaves the function as it is; Annotated describes a parameter; a Tool can be made by hand."""

    @tool(name="look_up", description="Finds things.")
    def find(what: Annotated[str, "a word"]) -> str:
        """Not this."""
        return what

    @tool
    def plain() -> None:
        """Plain."""

    assert find("x") == "x"
    made = Tool(find)
    assert (made.name, made.description) == ("look_up", "Finds things.")
    assert made.parameters["properties"]["what"]["description"] == "a word"
    assert Tool(plain).description == "Plain."
    byhand = Tool(lambda x: x, name="echo")
    assert agent(tools=[byhand]).tools["echo"] is byhand
    assert await byhand.call({"x": 5}, CONTEXT) == 5


async def test_every_kind_of_callable():
    """Methods, partials, callable objects, async or not, positional-only and open signatures are all tools."""

    class Shop:
        """A shop."""

        def __init__(self):
            self.sold = 0

        def buy(self, count: int) -> int:
            """Buy some."""
            self.sold += count
            return self.sold

        async def __call__(self, thing: str) -> str:
            """Ask for a thing."""
            return f"no {thing}"

    shop = Shop()
    assert list(properties(shop.buy)) == ["count"]
    assert await Tool(shop.buy).call({"count": 2}, CONTEXT) == shop.sold == 2
    asking = Tool(shop, name="ask")
    assert asking.description == "Ask for a thing."
    assert await asking.call({"thing": "milk"}, CONTEXT) == "no milk"

    def power(base: int, exponent: int = 2, /) -> int:
        return base**exponent

    assert await Tool(power).call({"base": 3}, CONTEXT) == 9
    assert await Tool(functools.partial(power, 2)).call({"exponent": 5}, CONTEXT) == 32

    def anything(first: int = 1, **rest) -> dict:
        return {"first": first, **rest}

    assert schema(anything).get("additionalProperties") is not False
    assert await Tool(anything).call({"second": 2}, CONTEXT) == {"first": 1, "second": 2}

    def deferred() -> Any:
        return asyncio.sleep(0, "later")

    assert await Tool(deferred).call({}, CONTEXT) == "later"


async def test_the_context_is_not_the_models_to_give():
    """A parameter of type AgentContext gets the running conversation and is not shown to the model."""

    def whose(context: AgentContext, what: str) -> str:
        return f"{context.user_id}'s {what}"

    made = agent(call("whose", what="hat"), "done", tools=[whose])
    assert list(properties(whose)) == ["what"]
    result = await made.run("go", user_id="lin")
    assert result["tool_calls"][0]["result"] == "lin's hat"


async def test_sync_tools_do_not_hold_up_the_event_loop():
    """A blocking tool runs in a thread: the event loop goes on, and can even let the tool go on."""
    go = threading.Event()

    def blocking() -> str:
        assert go.wait(60)
        return threading.current_thread().name

    made = agent(call("blocking"), "done", tools=[blocking])
    run = asyncio.create_task(made.run("go"))
    while not made.model_adapter.asked:
        await asyncio.sleep(0)
    go.set()
    result = await run
    assert result["tool_calls"][0]["result"] != threading.current_thread().name


def stop():
    raise StopIteration("no more")


def leave():
    raise SystemExit(2)


async def give_up():
    raise asyncio.CancelledError


class Mute(Exception):  # noqa: N818
    pass


def mute():
    raise Mute


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (stop, "RuntimeError", "StopIteration: no more"),
        (leave, "Abandoned", "it tried to end the program (exit 2)"),
        (give_up, "Abandoned", "what it waited for was cancelled"),
        (mute, "Mute", "Mute"),
    ],
)
async def test_tools_that_fail_in_odd_ways(function, kind, words):
    """None of them ends the run, the loop or the program."""
    made = agent(call(function.__name__), "done", tools=[function])
    assert (await made.run("go"))["success"] is True
    [event] = await made.get_memory(EventType.TOOL_CALL_ERROR)
    assert event.data == {"tool_name": function.__name__, "error": words, "error_type": kind}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("text", "text"), (4, "4"), (None, "null"), (True, "true"), ([1, "a"], '[1,"a"]'), ({"a": 1.5}, '{"a":1.5}'),
        (Unit.CELSIUS, '"c"'), (Place("Paris"), '{"city":"Paris","country":"FR"}'), (1j, "1j"),
    ],
)  # fmt: skip
async def test_results(value, told):
    """A result is told and recorded as text: strings as they are, the rest as JSON where there is some."""

    def give():
        return value

    made = agent(call("give"), "done", tools=[give])
    await made.run("go")
    assert made.model_adapter.asked[1][-1]["content"] == told
    [event] = await made.get_memory(EventType.TOOL_CALL_SUCCESS)
    assert event.data == {"tool_name": "give", "result": told}


def test_what_cannot_be_a_tool():
    """Each is refused when the agent is made, with its cure."""

    class Thing:
        pass

    def takes(thing: Thing):
        pass

    def unknown(x: "Missing"):  # noqa: F821
        pass

    with pytest.raises(ConfigError, match=r"tool 'takes': parameter 'thing' is annotated .*Thing"):
        Tool(takes)
    with pytest.raises(ConfigError, match="'unknown' cannot be read"):
        Tool(unknown)
    with pytest.raises(ConfigError, match=r"give one with @tool\(name=…\)"):
        Tool(lambda: 1)
    with pytest.raises(ConfigError, match="at most 64"):
        Tool(takes, name="x" * 65)
    with pytest.raises(ConfigError, match="a tool must be a function; got 3"):
        Tool(3)


def test_a_result_of_pydantic_is_json():
    """The model is told fields that it can read, also inside a list."""

    class Offer:  # what a pydantic model answers of itself
        def model_dump(self, *, mode):
            return {"price": 5, "mode": mode}

    assert result_text(Offer()) == '{"price":5,"mode":"json"}'
    assert result_text([Offer()]) == '[{"price":5,"mode":"json"}]'
    assert result_text({"path": Path("x")}).startswith("{'path': ")
