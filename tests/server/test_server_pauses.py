"""One request never holds up the others: whatever a text is made of, the work on it is bounded and done in turns."""

import gc
import json

import pytest
from bench.heartbeat import SHAPES, Heartbeat, asked, longest, of_bodies, settings_in, shaped

from octavo.server import create_app, requests
from sampled import sampled

#: Of the loop's own work, so that a busy machine changes nothing. It is a tenth of that: `python -m bench.heartbeat`.
MOST_SECONDS = 0.5
LONGEST = getattr(requests, "MAX_CONTENT_BYTES", 2**20)


@pytest.fixture(scope="module", autouse=True)
def only_own_objects():
    """As in a server of its own: the collector does not look through what other tests left in this process."""
    gc.collect()
    gc.freeze()


@pytest.fixture
async def app(tmp_path):
    made = create_app(settings_in(tmp_path))
    async with made.router.lifespan_context(made):
        # The first request loads patterns and pages.
        await longest(made, "I like tea. 我是老师。", "warm")
        yield made


@sampled("shape", SHAPES, share=16)
async def test_no_text_holds_up_others(app, shape):
    """Inserts, extraction, questions, events and listings of the longest texts of every shape leave everybody their turn."""
    found = await longest(app, shaped(SHAPES[shape], LONGEST), "lin")
    assert {kind: status for kind, (*_, status) in found.items()} == dict.fromkeys(found, 200)
    if any(work > MOST_SECONDS for _, work, _ in found.values()):
        # The collector, or a processor that others use, comes between once; what holds up others does it each time.
        found = await longest(app, shaped(SHAPES[shape], LONGEST), "lee")
    late = {kind: work for kind, (_, work, _) in found.items() if work > MOST_SECONDS}
    assert late == {}


async def test_no_body_holds_up_others(app):
    """Escapes, as many values and names as a body may have, and what is no JSON after all leave everybody their turn."""
    found = await of_bodies(app, LONGEST // 4)
    assert {status for *_, status in found.values()} <= {200, 400, 422}
    late = {name: work for name, (_, work, _) in found.items() if work > MOST_SECONDS}
    assert late == {}


async def test_long_memories_hold_up_nobody_who_says_something(app):
    """Facts are compared with a bounded part of what is known, and in turns: here it was 17 s for `I like tea.`"""
    known = json.dumps({"content": "我是" * 9990, "memory_layer": "profile"}, ensure_ascii=False).encode()
    for _ in range(25):
        assert (await asked(app, "POST", "/memory/user/lin", known))[0] == 200
    body = json.dumps({"content": "I like tea.", "auto_extract": True}).encode()
    async with Heartbeat() as heart:
        status, said = await asked(app, "POST", "/memory/user/lin", body)
    assert status == 200
    assert [one["action"] for one in json.loads(said)["memories"]] == ["insert"]
    assert heart.longest_work_seconds < MOST_SECONDS


async def test_what_was_not_read_is_said(app):
    """Of a long text the beginning is read for facts, the whole is kept, and the answer says so; of a short one it says nothing."""
    text = "I am a nurse. " + "The weather is fine. " * 2000
    told = f"only the first 20,000 of {len(text):,} characters were read for facts; the text is kept whole"
    for content, note in ((text, told), ("I am a nurse.", "")):
        body = json.dumps({"content": content, "auto_extract": True}).encode()
        _, said = await asked(app, "POST", "/memory/user/lin", body)
        assert json.loads(said).get("note", "") == note
