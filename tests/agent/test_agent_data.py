"""What is kept of the data of an event: everything, as text where JSON has no word for it."""

import asyncio
import dataclasses
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from agents import agent, call

from octavo import EventType
from octavo.agent.recording import make_keepable


class Colour:
    def __repr__(self):
        raise RuntimeError("no colour")


@dataclasses.dataclass
class Pair:
    one: object
    other: object


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("text", "text"), (1, 1), (1.5, 1.5), (True, True), (None, None), ((1, 2), [1, 2]), ({3}, [3]),
        (float("nan"), "nan"), (float("-inf"), "-inf"), (2**70, hex(2**70)), ("a\0b", "a�b"), ("\ud800x", "?x"),
        (datetime(2026, 1, 5, tzinfo=UTC), "2026-01-05T00:00:00Z"), (Decimal("1.10"), "1.10"),
        (UUID(int=1), str(UUID(int=1))), (EventType.CUSTOM, "custom"), (b"\x00", "AA=="), ({1: {"k": "\0"}}, {"1": {"k": "�"}}),
        (Path("a/b"), "PosixPath('a/b')"), (object, "<class 'object'>"),
    ],
)  # fmt: skip
async def test_any_data_is_kept(value, kept):
    """What JSON or a store has no word for is kept as text, whatever it is."""
    made = agent()
    event = await made.record_event(EventType.CUSTOM, {"value": value})
    [found] = await made.get_memory(EventType.CUSTOM)
    assert found == event
    assert found.data == {"value": kept}
    assert made.recorder.lost == 0


@pytest.mark.parametrize("name", ["data", "metadata"])
async def test_data_that_is_no_dict_is_named(name):
    with pytest.raises(TypeError, match=f"the {name} of an event is a dict; got 'login'"):
        await agent().record_event(EventType.CUSTOM, **{name: "login"})


async def test_odd_data_is_kept():
    """Objects that cannot be shown, circles and depths end as text too, and nobody shares what was recorded."""
    assert make_keepable(Colour()).startswith("<Colour instance at ")
    assert "..." in json.dumps(make_keepable(LOOP))
    assert make_keepable(-(1 << 20000)) == hex(-(1 << 20000))  # too long for decimals
    deep: list = []
    for _ in range(200):
        deep = [deep]
    made = agent()
    shared = {"list": [1]}
    await made.record_event(
        EventType.CUSTOM, {"colour": Colour(), "loop": LOOP, "deep": deep, "shared": shared}
    )
    shared["list"].append(2)
    [found] = await made.get_memory(EventType.CUSTOM)
    assert found.data["shared"] == {"list": [1]}
    assert made.recorder.lost == 0


async def test_shared_values_are_looked_at_once():
    """A few lists that stand in many places cost no more than they are; too large written out, they are kept cut."""
    looked = []

    class Looked(list):
        def __iter__(self):
            looked.append(self)
            return super().__iter__()

    body = Looked([0])
    for _ in range(20):
        body = Looked([body, body])
    kept = make_keepable(body)
    assert len(looked) <= 2 * 21
    for _ in range(20):
        assert len(kept) == 2
        kept = kept[1]
    assert kept == [0]
    pair = None
    for _ in range(40):
        pair, body = Pair(pair, pair), [body, body]
    made = agent()
    await made.record_event(EventType.CUSTOM, {"lists": body, "pairs": pair, "beside": "kept"})
    [found] = await made.get_memory(EventType.CUSTOM)
    assert found.data["beside"] == "kept"
    assert made.recorder.lost == 0


async def test_an_event_that_is_too_large_is_kept_cut():
    """Whatever makes an event too large, many values or long texts, what fits of it is kept, and what was cut is told."""
    made = agent()
    many = [
        "\1" * 90_000 for _ in range(60)
    ]  # 30 MB of JSON, as the numbers are 18: each is too large by itself
    await made.record_event(
        EventType.CUSTOM, {"many": many, "numbers": dict.fromkeys(range(1_400_000), 1.25)}, {"m": many}
    )
    [found] = await made.get_memory(EventType.CUSTOM)
    assert found.data["many"][0] == many[0]
    assert found.data["many"][-1] == f"… ({60 - len(found.data['many']) + 1} more)"
    assert made.recorder.lost == 0


async def test_arguments_are_recorded_as_they_were_given():
    """A tool that changes its arguments does not change the record."""

    async def eat(things: list[str]) -> int:
        await asyncio.sleep(0)
        things.clear()
        return 0

    made = agent(call("eat", things=["a"]), "done", tools=[eat])
    await made.run("go")
    [start] = await made.get_memory(EventType.TOOL_CALL_START)
    assert start.data["arguments"] == {"things": ["a"]}
