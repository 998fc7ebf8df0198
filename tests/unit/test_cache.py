"""One budget of bytes for all caches of a process."""

import gc
import sys
import tracemalloc

import pytest

from octavo import Change, Query, Record, Scope
from octavo.kernel.terms.english import stem
from octavo.layers.rules.reading import _read, facts_of
from octavo.service.recent import Recent
from octavo.util import cache
from octavo.util.cache import Cache, set_budget, size_of, used_bytes
from octavo.util.sync import run_steps


@pytest.fixture(autouse=True)
def budget():
    """A small budget, of which nobody else has anything."""
    _read.clear()
    gc.collect()
    set_budget(0)
    set_budget(1_000_000)
    yield
    set_budget(cache.DEFAULT_BYTES)


def test_all_caches_share_one_budget():
    """What was not used for longest goes first, in whichever cache it is."""
    one, other = Cache(), Cache()
    for number in range(5):
        one.put(number, "x", 90_000)
        other.put(number, "x", 90_000)
    assert (len(one), len(other)) == (5, 5)
    assert one.get(0) == "x"
    other.put("new", "y", 120_000)
    assert one.get(0) == "x"  # used last
    assert other.get(0) is None
    assert used_bytes() <= 1_000_000
    set_budget(300_000)
    assert used_bytes() <= 300_000
    assert other.get("new") == "y"


def test_a_cache_that_is_gone_takes_nothing():
    """The entries of a cache that nobody has any more are not counted, and one that is emptied has none."""
    held = Cache()
    held.put("a", "x", 100_000)
    other = Cache()
    other.put("a", "x", 100_000)
    other.clear()
    assert 100_000 < used_bytes() < 101_000
    del held
    gc.collect()
    assert used_bytes() == 0


def test_what_is_too_large_is_not_held():
    """One value that would push out all others is not held; who was told what was dropped is told of it too."""
    dropped = []
    held = Cache(dropped=lambda key, value: dropped.append((key, value)))
    held.put("small", 1, 10)
    held.put("huge", 2, 500_000)
    assert (held.get("small"), held.get("huge")) == (1, None)
    assert dropped == [("huge", 2)]
    held.put("small", 3, 20)
    assert held.get("small") == 3
    held.pop("small")
    assert used_bytes() == 0


def event(number, text, session="s"):
    return Record(
        collection="observations", id=str(number), scope=Scope(session=session), data={"text": text}
    )


@pytest.mark.parametrize(
    "text", ["x" * 20_000, "计" * 20_000, "😀" * 20_000], ids=["ASCII", "Chinese", "emoji"]
)
def test_recent_events_are_counted_in_bytes(text):
    """However many tenants and sessions there are, and whatever their events are made of, their bytes are bounded together."""
    tenants = [Recent() for _ in range(20)]
    for number in range(200):
        tenants[number % 20].put(event(number, text, session=f"s{number}"))
    held = [
        sealed
        for recent in tenants
        for session in recent._sessions._values.values()
        for sealed in session.records.values()
    ]
    assert 0 < sum(sys.getsizeof(sealed.data_json) for sealed in held) < 1_000_000
    assert sum(len(recent._session_of) for recent in tenants) == len(held)
    assert tenants[199 % 20].get("observations", "199").data == {"text": text}
    assert tenants[0].get("observations", "0") is None


def test_short_events_are_counted_with_what_holds_them():
    """Of many sessions that said a word each, what is counted is what they take."""
    recent = Recent()
    recent.put(event("first", "tea", session="first"))
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], used_bytes()
        for number in range(300):
            recent.put(event(number, "tea", session=f"session {number}"))
        counted = used_bytes() - counted
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(recent._session_of) == 301
    # Caches of names grow as well, unless other tests filled them before.
    assert 0.5 * counted < taken < 1.5 * counted


def test_a_change_of_what_was_let_go():
    """A record that is not held any more is not changed, and one that is held is counted by its new size."""
    recent = Recent()
    recent.put(event(1, "short"))
    before = used_bytes()
    long = Change(query=Query(collection="observations"), data={"text": "x" * 50_000})
    recent.change("observations", "1", long)
    assert used_bytes() > before + 49_000
    set_budget(0)
    recent.change("observations", "1", long)
    assert recent.get("observations", "1") is None
    assert recent.session_of("observations", "1") is None


def test_facts_of_memories_are_counted_in_bytes():
    """What the rules found in contents is held within the budget, however long and many they are."""
    set_budget(50_000)
    for number in range(40):
        run_steps(facts_of(f"{number} " + "sunny " * 300, "user"))
    assert 0 < used_bytes() <= 50_000
    assert 0 < len(_read) < 40


def test_long_words_are_not_held():
    """A word of thousands of letters is stemmed, and forgotten."""
    word = "running" * 9000
    before = sys.getrefcount(word)
    stem(word)
    assert sys.getrefcount(word) == before
    assert stem("running") == "run"


def test_texts_are_measured_as_they_lie_in_memory():
    """A Chinese character is two bytes, an emoji four."""
    assert 1000 <= size_of("x" * 1000) < 1100
    assert 2000 <= size_of("计" * 1000) < 2100
    assert 4000 <= size_of("😀" * 1000) < 4100
