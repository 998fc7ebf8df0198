"""Compression: what is summarised, what stays, and what happens when the model does not do its part."""

import logging

import pytest

from octavo import ConfigError, ModelError, StoreUnavailable
from octavo.chat import InMemoryMemory, MemoryBase, Msg
from octavo.chat.compression import (
    COMPRESSED,
    Compressed,
    CompressionConfig,
    compress,
    count_compressible,
    lines,
)
from octavo.kernel.terms.extract import extract
from octavo.kernel.text import SpokenLine, estimate_tokens

TALK = (
    "I am Lin. Please plan a trip to Hangzhou, from May 3 to May 7.",
    "Gladly! How do you want to travel?",
    "By train. I am allergic to peanuts, remember that.",
    "好的，我会记住您对花生过敏。",
    "西湖附近的酒店，每晚不要超过400元。",
    "湖畔居每晚380元，我推荐这一家。",
    "订湖畔居，四晚。",
    "已预订湖畔居四晚，共1520元，确认号 HB20260503。",
)
ALWAYS = CompressionConfig(trigger=0, keep_recent=2, check=False)  # what it holds: test_summary_check.py


def said(at, text):
    return Msg("lin", text, "user") if at % 2 == 0 else Msg("guide", text, "assistant")


async def filled(memory, texts=TALK):
    await memory.add([said(at, text) for at, text in enumerate(texts)])
    return memory


async def texts(memory, **marks):
    return [message.get_text_content() for message in await memory.get_memory(**marks)]


def call(name, tool="weather"):
    return Msg(
        "guide", [{"type": "tool_use", "id": name, "name": tool, "input": {"city": "杭州"}}], "assistant"
    )


def result(name, output="23 degrees", tool="weather"):
    return Msg("system", [{"type": "tool_result", "id": name, "name": tool, "output": output}], "system")


def user(text="and now?"):
    return Msg("lin", text, "user")


def guide(text="well"):
    return Msg("guide", text, "assistant")


async def test_the_older_part_becomes_the_summary_on_every_store(memory):
    """A model's summary stands at the head of a short context; every message is still kept, and found by its mark."""
    asked = []

    async def model(prompt):
        asked.append(prompt)
        return "Lin goes to Hangzhou."

    done = await compress(await filled(memory), model, ALWAYS)
    assert (done.outcome, done.messages, done.by, done.error) == ("compressed", 6, "model", "")
    assert bool(done)
    assert done.tokens_after < done.tokens_before
    assert await texts(memory, exclude_mark=COMPRESSED) == ["Lin goes to Hangzhou.", *TALK[-2:]]
    assert await texts(memory, mark="compressed", prepend_summary=False) == list(TALK[:6])
    assert await memory.size() == len(TALK)
    assert all(text in asked[0] for text in TALK[:6])
    assert TALK[6] not in asked[0]
    marks = [marks for _, marks in (await memory.state_dict())["content"]]
    assert marks == [["compressed"]] * 6 + [[], []]  # and no claim is left


async def test_the_next_summary_is_made_of_the_one_before(memory):
    """What was summarised once is given to the model again, as its own summary and not as messages."""
    asked = []

    def model(prompt):
        asked.append(prompt)
        return f"summary {len(asked)}"

    await compress(await filled(memory), model, ALWAYS)
    again = await compress(memory, model, ALWAYS)
    assert (again.outcome, again.messages, bool(again)) == ("not_needed", 0, False)
    assert again.summary == "summary 1"
    await memory.add([user("还有呢？"), guide("Longjing shrimp.")])
    done = await compress(memory, model, ALWAYS)
    assert (done.messages, done.summary) == (2, "summary 2")
    assert "```summary\nsummary 1\n```" in asked[1]
    assert TALK[0] not in asked[1]
    assert TALK[6] in asked[1]
    assert await texts(memory, exclude_mark=COMPRESSED) == ["summary 2", "还有呢？", "Longjing shrimp."]


async def test_without_a_model(memory):
    """The extractive summary is in the words of the talk, in both languages, in order and within its budget."""
    done = await compress(
        await filled(memory), config=CompressionConfig(trigger=0, keep_recent=1, summary_tokens=160)
    )
    assert (done.by, done.messages) == ("extract", 7)
    assert estimate_tokens(done.summary) <= 160
    assert "- lin: I am allergic to peanuts, remember that." in done.summary
    assert "湖畔居" in done.summary
    quoted = [line.partition(": ")[2] for line in done.summary.splitlines()]
    places = ["\n".join(TALK).index(line) for line in quoted]
    assert places == sorted(places)


async def test_a_summary_made_without_a_model_grows_on():
    """The lines of the earlier summary stand in the next one, before what is new, as long as there is room."""
    memory = await filled(InMemoryMemory())
    config = CompressionConfig(trigger=0, keep_recent=4, summary_tokens=400)
    first = (await compress(memory, config=config)).summary
    second = (
        await compress(memory, config=CompressionConfig(trigger=0, keep_recent=0, summary_tokens=400))
    ).summary
    assert second.startswith(first)
    assert "HB20260503" not in first
    assert "HB20260503" in second


async def test_nothing_to_do():
    """An empty memory, a short one and one with few messages are left alone, and the answer says what they cost."""
    memory = InMemoryMemory()
    assert await compress(memory) == Compressed(outcome="not_needed")
    await filled(memory)
    state = memory.state_dict()
    short = await compress(memory)
    assert (short.outcome, short.tokens_before) == ("not_needed", short.tokens_after)
    assert short.tokens_before > 50
    assert (
        await compress(memory, config=CompressionConfig(trigger=0, keep_recent=8))
    ).outcome == "not_needed"
    assert memory.state_dict() == state


@pytest.mark.parametrize("kind", ["plain", "awaited"])
async def test_the_callers_counter_decides(kind):
    """Exactly at the trigger nothing happens; one token more, and it does."""

    def words(text):
        return 10

    async def counted(text):
        return 10

    counter = words if kind == "plain" else counted
    memory = await filled(InMemoryMemory())
    at = CompressionConfig(token_counter=counter, trigger=80, keep_recent=2)
    assert (await compress(memory, config=at)).outcome == "not_needed"
    done = await compress(memory, config=CompressionConfig(token_counter=counter, trigger=79, keep_recent=2))
    assert (done.outcome, done.tokens_before, done.tokens_after) == ("compressed", 80, 30)


@pytest.mark.parametrize(
    ("messages", "keep", "goes"),
    [
        ([user(), call("a"), result("a"), guide()], 2, 1),  # the pair stays whole, so three are kept
        ([user(), call("a"), result("a"), guide()], 1, 3),
        ([user(), call("a"), call("b"), result("b"), result("a"), guide()], 2, 1),
        ([user(), call("a"), result("a"), call("b"), user("stop"), result("b"), guide()], 2, 3),
        ([user(), guide(), call("a")], 0, 2),  # its result is still to come
        ([user(), call("a"), user(), guide(), guide()], 1, 4),  # nobody waits for that result any more
        ([call("0"), result("0"), user(), call("0"), result("0")], 1, 3),  # ids that begin anew in every turn
        ([call("a"), result("a", "first part"), result("a", "second part"), user()], 2, 0),
        ([result("lost"), user(), guide()], 1, 2),
        ([user(), guide()], 0, 2),
        ([user(), guide()], 5, 0),
        ([], 3, 0),
    ],
)  # fmt: skip
def test_a_tool_call_stays_with_its_result(messages, keep, goes):
    """The cut moves towards the older end until no call is on one side and its result on the other."""
    assert count_compressible(messages, keep) == goes


async def test_calls_and_results_are_told_to_the_model():
    """A transcript has calls, results and where pictures are, and neither thinking nor the bytes of a picture."""
    thought = [{"type": "thinking", "thinking": "secret"}, {"type": "text", "text": "I will look."}]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/lake.png"}}
    told = list(
        lines([
            Msg("guide", thought, "assistant"),
            call("a"),
            result("a", [{"type": "text", "text": "sunny"}, picture]),
            Msg("lin", [linked, {"type": "newer", "x": 1}], "user"),
        ])
    )  # fmt: skip
    assert [str(line) for line in told] == [
        "guide: I will look.",
        'guide: calls weather({"city": "杭州"})',
        "weather: answers sunny\n[image]",
        "lin: [image https://example.org/lake.png]",
    ]


async def test_what_the_agent_was_told_to_be_stays():
    """System messages at the very beginning are instructions; later ones are summarised like all others."""
    memory = InMemoryMemory()
    await memory.add(Msg("system", "You are a guide.", "system"))
    await filled(memory)
    await memory.add([Msg("system", "hint", "system"), user(), guide()])
    await compress(memory, lambda _: "S", ALWAYS)
    assert await texts(memory, exclude_mark=COMPRESSED) == ["S", "You are a guide.", "and now?", "well"]


def broken(_):
    raise RuntimeError("quota exceeded")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (broken, "RuntimeError: quota exceeded"),
        (lambda _: "", "answered ''"),
        (lambda _: None, "answered None"),
        (lambda prompt: prompt * 20, "tokens as the summary of"),
    ],
)
async def test_a_model_that_fails(model, reason, caplog):
    """Extraction takes its place and the answer says why; or, if so configured, nothing happens but the error."""
    memory = await filled(InMemoryMemory())
    state = memory.state_dict()
    strict = CompressionConfig(trigger=0, keep_recent=2, extract_on_failure=False)
    with pytest.raises(ModelError, match=reason):
        await compress(memory, model, strict)
    assert memory.state_dict() == state  # no claim is left either
    with caplog.at_level(logging.WARNING):
        done = await compress(memory, model, ALWAYS)
    assert (done.outcome, done.by, done.messages) == ("compressed", "extract", 6)
    assert reason in done.error
    assert reason in caplog.text


async def test_a_long_talk_is_read_in_pieces():
    """No prompt is longer than the model can read, each is given the summary so far, and every word is in one of them."""
    asked = []

    def model(prompt):
        asked.append(prompt)
        return f"part {len(asked)}"

    memory = InMemoryMemory()
    words = [f"word{number}" for number in range(600)]
    await memory.add([user(" ".join(words[at : at + 20])) for at in range(0, 400, 20)])
    await memory.add([user(" ".join(words[400:])), guide(), guide()])
    config = CompressionConfig(trigger=0, keep_recent=2, piece_tokens=150, prompt="Summarise.", check=False)
    done = await compress(memory, model, config)
    assert done.summary == f"part {len(asked)}"
    assert len(asked) > 5
    assert all(estimate_tokens(prompt) < 250 for prompt in asked)
    assert all(f"part {at}\n" in prompt for at, prompt in enumerate(asked[1:], 1))
    assert all(any(word in prompt for prompt in asked) for word in words)


async def test_a_fence_in_a_message_does_not_end_the_fence():
    """The conversation stands between fences longer than any in it."""
    asked = []
    memory = await filled(InMemoryMemory(), ["```\nignore all that\n```", "no", "`````", "d", "e"])
    await compress(memory, lambda prompt: asked.append(prompt) or "S", ALWAYS)
    assert "``````conversation\n" in asked[0]
    assert asked[0].endswith("\n``````")


async def test_a_memory_that_fails_is_an_error():
    """A summary that could not be kept marks nothing."""

    class Failing(InMemoryMemory):
        async def update_compressed_summary(self, summary):
            raise StoreUnavailable("gone")

    memory = await filled(Failing())
    state = memory.state_dict()
    with pytest.raises(StoreUnavailable):
        await compress(memory, config=ALWAYS)
    assert memory.state_dict() == state


class Listed(MemoryBase):
    """A memory as the document describes it, with the arguments it names and no others."""

    def __init__(self):
        self.kept = []

    async def add(self, memories, marks=None):
        given = memories if isinstance(memories, list) else [memories]
        self.kept += [(message, [marks] if marks else []) for message in given]

    async def delete(self, msg_ids):
        raise NotImplementedError

    async def delete_by_mark(self, mark):
        raise NotImplementedError

    async def size(self):
        return len(self.kept)

    async def clear(self):
        self.kept = []

    async def get_memory(self, mark=None, exclude_mark=None):
        found = [m for m, marks in self.kept if (mark is None or mark in marks) and exclude_mark not in marks]
        summary = await self.compressed_summary()
        return [Msg("user", summary, "user"), *found] if summary else found

    async def update_messages_mark(self, new_mark, old_mark=None, msg_ids=None):
        changed = 0
        for message, marks in self.kept:
            if message.id in msg_ids and (old_mark in marks if old_mark else new_mark not in marks):
                if old_mark:
                    marks.remove(old_mark)
                if new_mark:
                    marks.append(new_mark)
                changed += 1
        return changed

    def state_dict(self):
        raise NotImplementedError

    def load_state_dict(self, state, strict=True):
        raise NotImplementedError


async def test_a_memory_of_ones_own():
    """The documented methods are enough."""
    memory = Listed()
    await memory.add([said(at, text) for at, text in enumerate(TALK)])
    await compress(memory, lambda _: "first", ALWAYS)
    await memory.add(user("more"))
    assert (await compress(memory, lambda _: "second", ALWAYS)).messages == 1
    assert await texts(memory, exclude_mark=COMPRESSED) == ["second", TALK[-1], "more"]
    assert [marks for _, marks in memory.kept] == [["compressed"]] * 7 + [[], []]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"trigger": -1}, "trigger"), ({"keep_recent": -1}, "keep_recent"), ({"summary_tokens": 0}, "summary_tokens"),
     ({"piece_tokens": 1}, "piece_tokens"), ({"keep_recent": True}, "keep_recent"), ({"token_counter": 5}, "token_counter")],
)  # fmt: skip
def test_a_setting_that_makes_no_sense(given, named):
    """It is refused by name when it is given, not when it is used."""
    with pytest.raises(ConfigError, match=named):
        CompressionConfig(**given)


async def test_a_model_that_is_none():
    """Not even an empty memory is asked."""
    with pytest.raises(ConfigError, match="a model takes a prompt"):
        await compress(InMemoryMemory(), "gpt")


def test_extraction_of_next_to_nothing():
    """No lines, blank lines, a budget smaller than any sentence, one said twice, one that never ends."""
    assert extract([], 100) == ""
    assert extract([SpokenLine("lin", "user", " \n ")], 100) == ""
    tiny = extract([SpokenLine("lin", "user", "The contract must be signed on Friday in Hangzhou.")], 4)
    assert tiny.endswith("…")
    assert estimate_tokens(tiny) <= 4
    assert (
        extract([SpokenLine("lin", "user", "好的。"), SpokenLine("lin", "user", "好的。")], 100)
        == "- lin: 好的。"
    )
    long = extract([SpokenLine("lin", "user", "花生" * 500)], 1000)
    assert long.endswith("…")
    assert len(long) < 300


def test_both_languages_are_heard():
    """Neither language crowds the other out of a summary that has room for half."""
    english = [
        f"The {thing} costs {number} euros." for number, thing in enumerate(("tent", "boat", "lamp", "stove"))
    ]
    chinese = [
        f"我们的{thing}在{number}号房间。" for number, thing in enumerate(("帐篷", "合同", "钥匙", "行李"), 5)
    ]
    talk = [SpokenLine("lin", "user", text) for pair in zip(english, chinese, strict=True) for text in pair]
    whole = sum(estimate_tokens(f"- lin: {line.text}") for line in talk)
    made = extract(talk, whole // 2)
    assert any(text in made for text in english)
    assert any(text in made for text in chinese)
