"""Compression by many at once: every message is in the context or in the summary, whoever wins."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from compressing_child import CONFIG, NUMBER, remembering

from octavo.chat import InMemoryMemory, Msg, compression
from octavo.chat.compression import COMPRESSED, compress
from sampled import sampled
from warm import programs

CHILD = Path(__file__).with_name("compressing_child.py")


def numbered(*numbers):
    return [Msg("lin", f"<{number}>", "user") for number in numbers]


async def known(memory):
    """Every number in the short context, its summary included, and whether a claim is left."""
    shown = await memory.get_memory(exclude_mark=COMPRESSED)
    marks = {mark for _, marks in (await memory.state_dict())["content"] for mark in marks}
    return {number for message in shown for number in NUMBER.findall(message.get_text_content())}, marks


class Slow:
    """A model that waits until it is told to go on."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, prompt):
        self.asked.set()
        await self.go.wait()
        return remembering(prompt)


@pytest.mark.parametrize("place", ["memory", "file", "sqlite", "postgres", "mysql", "redis"], indirect=True)
async def test_many_at_once(place):
    """Eight compress one session through memories of their own while messages come in; none is forgotten."""
    memories = [await place.memory() for _ in range(8)]
    await memories[0].add(numbered(*range(20)))
    said = [f"<{number}>" for number in range(20)]

    async def live(number, memory):
        outcomes = []
        for turn in range(5):
            await memory.add(numbered(f"{number}.{turn}"))
            outcomes.append((await compress(memory, remembering, CONFIG)).outcome)
        return outcomes

    outcomes = await asyncio.gather(*(live(at, memory) for at, memory in enumerate(memories)))
    said += [f"<{number}.{turn}>" for number in range(8) for turn in range(5)]
    found, marks = await known(memories[0])
    assert found == set(said)
    assert marks == {COMPRESSED}
    assert "compressed" in {outcome for each in outcomes for outcome in each}
    assert await memories[0].size() == len(said)


@sampled("place", ["sqlite", "file", "redis", "postgres"], share=2, indirect=True)
async def test_four_processes(place, size):
    """Four processes talk in one session and compress it; nothing is forgotten and no claim is left."""
    memory = await place.memory(session="race")
    count = size(10, 100)
    children = [
        await asyncio.create_subprocess_exec(
            f"{programs()}/python", CHILD, place.url(), memory.user_id, str(number), str(count),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
        for number in range(4)
    ]  # fmt: skip
    told = await asyncio.gather(*(child.communicate() for child in children))
    assert [child.returncode for child in children] == [0] * 4, told
    assert sum(int(out) for out, _ in told) > 0
    await compress(memory, remembering, CONFIG)  # the last one may have found another at work
    found, marks = await known(memory)
    assert found == {f"<{number}.{turn}>" for number in range(4) for turn in range(count)}
    assert marks == {COMPRESSED}


async def test_the_second_one_steps_back():
    """While one is at work, another answers at once that it is, and changes nothing; messages may go on coming."""
    memory = InMemoryMemory()
    await memory.add(numbered(*range(10)))
    slow = Slow()
    first = asyncio.create_task(compress(memory, slow, CONFIG))
    await slow.asked.wait()
    await memory.add(numbered(10, 11))
    second = await compress(memory, remembering, CONFIG)
    assert (second.outcome, second.messages, bool(second)) == ("busy", 0, False)
    slow.go.set()
    assert (await first).messages == 7
    third = await compress(memory, remembering, CONFIG)
    assert third.messages == 2
    assert await known(memory) == ({f"<{number}>" for number in range(12)}, {COMPRESSED})


async def test_one_that_was_overtaken_asks_no_model():
    """Where another one finished between the reading and the claim, the model is not paid for nothing."""

    class Overtaken(InMemoryMemory):
        overtaken = False

        async def update_messages_mark(self, *given):
            if not self.overtaken:
                self.overtaken = True
                await compress(self, remembering, CONFIG)
            return await super().update_messages_mark(*given)

    memory, asked = Overtaken(), []
    await memory.add(numbered(*range(10)))
    assert (await compress(memory, asked.append, CONFIG)).outcome == "busy"
    assert asked == []
    assert await known(memory) == ({f"<{number}>" for number in range(10)}, {COMPRESSED})


async def test_a_message_taken_away_meanwhile_is_in_no_summary():
    """What somebody deletes while the model reads it must not come back as a summary."""
    memory = InMemoryMemory()
    talk = numbered(*range(10))
    await memory.add(talk)
    slow = Slow()
    working = asyncio.create_task(compress(memory, slow, CONFIG))
    await slow.asked.wait()
    await memory.delete([talk[3].id])
    slow.go.set()
    assert (await working).outcome == "busy"
    assert await memory.compressed_summary() == ""
    assert (await compress(memory, remembering, CONFIG)).messages == 6
    found, _ = await known(memory)
    assert "<3>" not in found


async def test_cancelled():
    """A compression that is cancelled lets go of the session and changes nothing."""
    memory = InMemoryMemory()
    await memory.add(numbered(*range(10)))
    state = memory.state_dict()
    slow = Slow()
    working = asyncio.create_task(compress(memory, slow, CONFIG))
    await slow.asked.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert memory.state_dict() == state
    assert await compress(memory, remembering, CONFIG)


async def test_a_claim_left_behind_runs_out(monkeypatch):
    """A process that died at work holds the others up for a while, and not for good."""
    memory = InMemoryMemory()
    talk = numbered(*range(10))
    await memory.add(talk)
    moment = 1_000_000.0
    monkeypatch.setattr(compression, "time", SimpleNamespace(time=lambda: moment))
    slot = int(moment // compression._LEASE_SECONDS)
    await memory.update_messages_mark(f"compressing:{slot}", None, [talk[0].id])
    assert (await compress(memory, remembering, CONFIG)).outcome == "busy"
    moment += compression._LEASE_SECONDS
    assert (await compress(memory, remembering, CONFIG)).outcome == "busy"
    moment += compression._LEASE_SECONDS
    assert (await compress(memory, remembering, CONFIG)).messages == 7
    assert (await known(memory))[0] == {f"<{number}>" for number in range(10)}
