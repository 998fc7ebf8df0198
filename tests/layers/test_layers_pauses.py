"""On every store, long texts of many terms are kept, read for facts and found while others get their turn.

tests/server/test_server_pauses.py has the texts of every other shape, whose work is done before any store has them.
"""

from bench.heartbeat import SHAPES, Heartbeat, shaped

from octavo.layers import LayeredMemory
from sampled import sampled
from serving import KINDS

MOST_SECONDS = 1.0  # of the loop's own work, whatever else the machine does


NAMES = ("hyphens", "I am, Chinese")
#: Neighbours begin with another name, so that every second pair has each store, and both names.
PAIRS = [(kind, name) for at, kind in enumerate(KINDS) for name in NAMES[:: -1 if at % 2 else 1]]


@sampled(("store", "name"), PAIRS, share=2, indirect=["store"])
async def test_a_megabyte_holds_up_nobody(store, tenant, name):
    """Remembering a megabyte, extracting from it beside others like it, and searching in them, is bounded and done in turns."""
    text = shaped(SHAPES[name], 2**20)
    memory = LayeredMemory(store, tenant=tenant)
    await memory.remember("I like tea.", user_id="warm")
    await memory.recall("tea", user_id="warm")
    await memory.extract("I like tea.", user_id="warm")  # what is loaded once is loaded now
    async with Heartbeat() as heart:
        for layer in ("profile", "event", "profile"):
            assert (await memory.remember(text, user_id="lin", layer=layer)).content == text
        made = await memory.extract(text, user_id="lin")
        await memory.recall(text, user_id="lin")
        found = await memory.recall("So what?", user_id="lin")
    assert made.note.startswith(
        "only the first 20,000 of 1,048,576 characters" if text.isascii() else "only the first 20,000 of "
    )
    assert all(hit.memory.content for hit in found)
    assert heart.longest_work_seconds < MOST_SECONDS
