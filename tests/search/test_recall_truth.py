"""What is gone, expired, moved or changed is never returned: by words, or by an index that has not noticed."""

from datetime import timedelta

import pytest

from memories import Clock, Recall, ids, inside, keep, naming, near, note
from octavo import Add, Change, Query, Record, Remove, Scope, new_id
from octavo.kernel.ids import now
from octavo.kernel.model import exact_scope
from octavo.kernel.ports import EntryKey, Near


def about(home: Scope, *names: str) -> Query:
    return Query(collection="messages", scope=home, ids=names)


async def test_removed(store, home):
    """Right after its removal a record is found by nothing; kept again, it is."""
    recall, fox = Recall(store), note(home, "fox", "red fox")
    await keep(store, fox, note(home, "owl", "red owl"))
    assert ids(await recall.recall("fox", home)) == ["fox"]
    await store.apply([Remove(about(home, "fox"))])
    assert await recall.recall("fox", home) == []
    assert ids(await recall.recall("red", home)) == ["owl"]
    await keep(store, fox)
    assert ids(await recall.recall("fox", home)) == ["fox"]


async def test_changed_text(store, home):
    """Right after a change a record is found by its new words only, and shown with its new text."""
    recall = Recall(store)
    await keep(store, note(home, "a", "red fox"))
    assert ids(await recall.recall("fox", home)) == ["a"]
    await store.apply([Change(query=about(home, "a"), text="grey 海豚 dolphin")])
    assert await recall.recall("fox", home) == []
    [hit] = await recall.recall("海豚", home)
    assert hit.record.text == "grey 海豚 dolphin"
    await store.apply([Change(query=about(home, "a"), text="", data={"animal": "heron"})])
    assert await recall.recall("dolphin", home) == []
    assert ids(await recall.recall("heron", home)) == ["a"]


async def test_changed_kind_and_marks(store, home):
    """Right after a change the filters see the new kind, marks and metadata."""
    recall = Recall(store)
    await keep(store, note(home, "a", "red fox", kind="draft", marks=("new",), metadata={"v": 1}))
    assert ids(await recall.recall("fox", home, kinds=["draft"], marks=["new"], where={"v": 1})) == ["a"]
    await store.apply(
        [Change(query=about(home, "a"), kind="final", mark=("old",), unmark=("new",), metadata={"v": 2})]
    )
    for gone in ({"kinds": ["draft"]}, {"marks": ["new"]}, {"where": {"v": 1}}, {"without": ["old"]}):
        assert await recall.recall("fox", home, **gone) == []
    assert ids(await recall.recall("fox", home, kinds=["final"], marks=["old"], where={"v": 2})) == ["a"]


async def test_expired(store, home):
    """A record is found until the moment it expires, by the clock that recall was given."""
    clock = Clock(now())
    recall = Recall(store, clock)
    end = clock.at + timedelta(hours=1)
    await keep(store, note(home, "a", "red fox", expires_at=end), note(home, "b", "red fox forever"))
    assert set(ids(await recall.recall("fox", home))) == {"a", "b"}
    clock.at = end - timedelta(microseconds=1)
    assert set(ids(await recall.recall("fox", home))) == {"a", "b"}
    clock.at = end
    assert ids(await recall.recall("fox", home)) == ["b"]
    assert [source.id for source in (await recall.context("fox", home)).sources] == ["b"]


async def test_expired_between_search_and_load(store, home):
    """What expires while a recall is under way is not in its answer, and the next best is."""
    start = now()
    moments = iter([start])
    recall = Recall(store, lambda: next(moments, start + timedelta(hours=2)))
    await keep(
        store,
        note(home, "a", "red fox", expires_at=start + timedelta(hours=1)),
        note(home, "b", "a fox that is not so red and stays"),
    )
    assert ids(await recall.recall("red fox", home, 1)) == ["b"]


@pytest.mark.parametrize("verb", ["remove", "rescope", "rekind"])
async def test_gone_between_search_and_load(store, home, verb):
    """What others take away while a recall is under way is not in its answer, and the next ones take its place."""
    await keep(
        store,
        *(note(inside(home, user="me"), f"x{n}", "red fox", minutes=n, kind="k") for n in range(40)),
        note(inside(home, user="me"), "last", "fox", minutes=-1, kind="k"),
    )
    gone = Query(collection="messages", scope=inside(home, user="me"), text="red")
    ops = {
        "remove": [Remove(gone)],
        "rescope": [
            Remove(gone),
            Add([note(inside(home, user="you"), f"x{n}", "red fox", kind="k") for n in range(40)]),
        ],
        "rekind": [Change(query=gone, kind="other")],
    }
    find, waiting = store.find, [ops[verb]]

    async def find_after_the_others(query):
        if query.ids is not None and waiting:  # the recall has its candidates, and now reads them
            await store.apply(waiting.pop())
        return await find(query)

    store.find = find_after_the_others
    assert ids(await Recall(store).recall("red fox", inside(home, user="me"), 5, kinds=["k"])) == ["last"]
    assert waiting == []  # or nothing happened in between


async def test_rescoped(store, home):
    """A record moved to another user is found there and no longer here."""
    me, you = inside(home, user="me"), inside(home, user="you")
    recall = Recall(store)
    await keep(store, note(me, "a", "red fox"))
    assert ids(await recall.recall("fox", me)) == ["a"]
    await store.apply([Remove(about(me, "a")), Add([note(you, "a", "red fox")])])
    assert await recall.recall("fox", me) == []
    [hit] = await recall.recall("fox", you)
    assert hit.record.scope == you


def stale_world(home: Scope) -> tuple[dict[str, Record], list[Near]]:
    """Records, and an index that names each as it once was, together with what was never there."""
    me, you, other = inside(home, user="me"), inside(home, user="you"), Scope(tenant=new_id(), user="me")
    kept = {
        "good": note(me, "good", "vulpine quadruped"),
        "removed": note(me, "removed", "vulpine in the past"),
        "changed": note(me, "changed", "vulpine before the change"),
        "expired": note(me, "expired", "vulpine for a while", expires_at=now() + timedelta(hours=1)),
        "moved": note(me, "moved", "vulpine on the move"),
        "foreign": note(other, "foreign", "vulpine abroad"),
        "yours": note(you, "yours", "vulpine of yours"),
        "kind": note(me, "kind", "vulpine of another kind", kind="hidden"),
        "elsewhere": note(me, "elsewhere", "vulpine in the log", collection="log"),
    }
    named = [near(record, 0.9 - n / 100) for n, record in enumerate(kept.values())]
    ghosts = [
        Near(EntryKey("messages", "never", exact_scope(me)), "0" * 32, 0.99),
        Near(EntryKey("messages", "good", Scope(user="no such")), "0" * 32, 0.98),
        Near(EntryKey("episodes", "good", exact_scope(me)), named[0].digest, 0.97),
        Near(EntryKey("no such collection", "good", exact_scope(me)), named[0].digest, 0.96),
        Near(EntryKey("messages", "", Scope()), "", 0.95),
        Near(EntryKey("messages", "nul\0", exact_scope(me)), "", 0.94),
        Near(EntryKey("messages", "half\ud800", exact_scope(me)), "", 0.93),
    ]
    return kept, ghosts + named


async def test_a_stale_index_names_what_is_gone(store, home):
    """Whatever an index names, only what is there now, in scope, past the filters and of that very text is returned."""
    kept, named = stale_world(home)
    me = inside(home, user="me")
    clock = Clock(now())
    await keep(store, *kept.values())
    naming(store, *named)
    recall = Recall(store, clock)
    first = ids(await recall.recall("fox", me, kinds=[""]))
    assert first == ["good", "removed", "changed", "expired", "moved"]
    await store.apply(
        [
            Remove(about(me, "removed")),
            Change(query=about(me, "changed"), text="ursine after the change"),
            Remove(about(me, "moved")),
            Add([note(inside(home, user="you"), "moved", "vulpine on the move")]),
        ]
    )
    clock.at += timedelta(hours=2)
    assert ids(await recall.recall("fox", me, kinds=[""])) == ["good"]
    assert ids(await recall.recall("fox", me, kinds=["hidden"])) == ["kind"]
    assert await recall.recall("fox", Scope(tenant=new_id())) == []
    assert [source.id for source in (await recall.context("fox", me, kinds=[""])).sources] == ["good"]
    # Found by its new words it is returned; what the index says of its old ones does not hide it.
    assert "changed" in ids(await recall.recall("ursine", me, kinds=[""]))
