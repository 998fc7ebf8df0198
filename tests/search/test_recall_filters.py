"""What is filtered out is out before anything is ranked, and no scope sees another."""

from datetime import datetime, timedelta

import pytest

import octavo
from memories import NOON, Recall, ids, inside, keep, note
from octavo import InvalidQuery, Scope, new_id

CHAFF = 40  # better matches that a filter must take away before the limit counts


async def test_filters_come_before_the_limit(store, home):
    """With a limit of one, the only record past the filter is found though many others fit better."""
    wanted = note(
        home, "wanted", "a word about gold and other metals", minutes=-500,
        kind="fact", marks=("keep",), metadata={"lang": "en", "n": 3}, collection="episodes",
    )  # fmt: skip
    chaff = [
        note(
            home, f"c{n}", "gold gold gold", minutes=n, kind="chat", marks=("drop",), metadata={"lang": "de"}
        )
        for n in range(CHAFF)
    ]
    await keep(store, wanted, *chaff)
    recall = Recall(store)
    assert ids(await recall.recall("gold", home, 1)) != ["wanted"]
    for filters in (
        {"kinds": ["fact"]},
        {"kinds": ("fact", "none")},
        {"marks": ["keep", "other"]},
        {"without": ["drop"]},
        {"where": {"lang": "en"}},
        {"where": {"n": 3.0, "lang": "en"}},
        {"until": NOON},
        {"since": NOON - timedelta(days=2), "until": NOON - timedelta(minutes=499)},
        {"layer": "event"},
        {"collections": ["episodes"]},
        {"collections": ["episodes", "profile", "episodes"]},
        {"kinds": ["fact"], "marks": ["keep"], "without": ["drop"], "where": {"n": 3}, "layer": "event"},
    ):
        assert ids(await recall.recall("gold", home, 1, **filters)) == ["wanted"], filters
    for filters in (
        {"kinds": ["FACT"]},
        {"kinds": []},
        {"marks": []},
        {"where": {"lang": "fr"}},
        {"where": {"absent": None}},
        {"since": NOON + timedelta(days=1)},
        {"layer": "profile"},
        {"collections": ["knowledge"]},
    ):
        assert await recall.recall("gold", home, 1, **filters) == [], filters


async def test_every_filter_holds_for_every_hit(store, home):
    """Each filter keeps exactly what `Query` with the same clauses would, whatever else matches."""
    records = [
        note(
            home, f"n{n}", "green tea 绿茶", minutes=n, kind=("a", "b", "")[n % 3], seq=n,
            marks=(("x",), ("x", "y"), ())[n % 3], metadata={"p": (1, "1", True, None)[n % 4]},
        )
        for n in range(24)
    ]  # fmt: skip
    await keep(store, *records)
    recall = Recall(store)
    for filters, holds in (
        ({"kinds": ["a", ""]}, lambda r: r.kind in {"a", ""}),
        ({"marks": ["y"]}, lambda r: "y" in r.marks),
        ({"without": ["y"]}, lambda r: "y" not in r.marks),
        ({"where": {"p": 1}}, lambda r: r.metadata["p"] == 1 and r.metadata["p"] is not True),
        ({"where": {"p": True}}, lambda r: r.metadata["p"] is True),
        ({"where": {"p": None}}, lambda r: r.metadata["p"] is None),
        ({"since": records[7].created_at}, lambda r: r.created_at >= records[7].created_at),
        ({"until": records[7].created_at}, lambda r: r.created_at < records[7].created_at),
        ({"since": datetime(2026, 3, 2, 12, 7)}, None),  # noqa: DTZ001 - local time, as Query takes it
    ):
        found = ids(await recall.recall("绿茶", home, 100, **filters))
        if holds is not None:
            assert sorted(found) == sorted(r.id for r in records if holds(r)), filters


async def test_default_collections(store, home):
    """Unless told, recall looks at what was said and what was kept of it, and not at logs or events."""
    names = ("messages", "exchanges", "profile", "episodes", "knowledge", "events", "log", "turns", "configs")
    await keep(store, *(note(home, f"in-{name}", "ripe mango", collection=name) for name in names))
    recall = Recall(store)
    everywhere = {"in-messages", "in-exchanges", "in-profile", "in-episodes", "in-knowledge"}
    assert set(ids(await recall.recall("mango", home))) == everywhere
    assert ids(await recall.recall("mango", home, layer="profile")) == ["in-profile"]
    assert ids(await recall.recall("mango", home, layer="event")) == ["in-episodes"]
    assert set(ids(await recall.recall("mango", home, collections=["log", "events"]))) == {
        "in-log",
        "in-events",
    }


async def test_the_same_id_in_two_collections(store, home):
    """Records of one name in two collections are two records."""
    await keep(
        store,
        note(home, "same", "ripe mango", collection="profile"),
        note(home, "same", "ripe mango and kiwi", collection="messages"),
    )
    hits = await Recall(store).recall("mango kiwi", home)
    assert [(hit.collection, hit.record.text) for hit in hits] == [
        ("messages", "ripe mango and kiwi"),
        ("profile", "ripe mango"),
    ]


async def test_scopes_in_every_form(store, home):
    """Any, exactly and none: a scope finds what it covers and nothing else."""
    places = [
        inside(home, **{k: v for k, v in {"user": user, "agent": agent, "session": session}.items() if v})
        for user in ("", "ann", "Ann")
        for agent in ("", "bot")
        for session in ("", "s1", "s2")
    ]
    await keep(store, *(note(place, "same-id", "hidden treasure", seq=n) for n, place in enumerate(places)))
    recall = Recall(store)
    for user in (None, "", "ann"):
        for agent in (None, "", "bot"):
            for session in (None, "", "s1", "nowhere"):
                asked = Scope(tenant=home.tenant, user=user, agent=agent, session=session)
                found = [hit.record.scope for hit in await recall.recall("treasure", asked, 100)]
                assert sorted(found, key=places.index) == [p for p in places if asked.covers(p)], asked


async def test_tenants_never_mix(store):
    """The same ids and texts in two tenants: each sees its own, by words, in sessions and in context."""
    one, two = new_id(), new_id()
    for tenant in (one, two):
        await keep(
            store,
            *(
                note(
                    Scope(tenant=tenant, user="u", session=f"s{n % 3}"),
                    f"n{n}",
                    "secret plan 秘密计划",
                    seq=n,
                )
                for n in range(9)
            ),
            note(Scope(tenant=tenant, user="u"), "whose", f"secret of {tenant}"),
        )
    recall = Recall(store)
    for mine, other in ((one, two), (two, one)):
        for scope in (Scope(tenant=mine), Scope(tenant=mine, user="u"), Scope(tenant=mine, session="s1")):
            hits = await recall.recall("secret plan 秘密", scope, 100, explain=True)
            assert hits
            assert {hit.record.scope.tenant for hit in hits} == {mine}
            sessions = await recall.sessions("秘密计划", scope)
            assert {hit.record.scope.tenant for found in sessions for hit in found.hits} == {mine}
            assert other not in (await recall.context("secret", scope)).text
    assert await recall.recall("secret plan", Scope(tenant=one + two)) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"limit": -1}, "-1"),
        ({"limit": 1001}, "1001"),
        ({"limit": "3"}, "'3'"),
        ({"limit": 2.5}, "2.5"),
        ({"text": None}, "None"),
        ({"text": b"fox"}, "b'fox'"),
        ({"scope": "me"}, "'me'"),
        ({"layer": "events"}, "'events'"),
        ({"layer": "profile", "collections": ["messages"]}, "layer"),
        ({"collections": "messages"}, "'messages'"),
        ({"collections": []}, "[]"),
        ({"collections": ["messages", "massages"]}, "'massages'"),
        ({"collections": ["massages"], "text": ""}, "'massages'"),
        ({"collections": ["massages"], "limit": 0}, "'massages'"),
        ({"kinds": "user"}, "'user'"),
        ({"marks": "todo"}, "'todo'"),
        ({"without": "todo"}, "'todo'"),
        ({"kinds": [1]}, "[1]"),
        ({"where": {"k": [1]}}, "[1]"),
        ({"where": [("k", 1)]}, "[('k', 1)]"),
        ({"since": "yesterday"}, "'yesterday'"),
        ({"until": 2024}, "2024"),
        ({"kind": "user"}, "'kind'"),
        ({"user": "ann"}, "'user'"),
    ],
)
async def test_bad_arguments(in_memory, home, arguments, named):
    """An argument without meaning is refused by name before anything is searched, by every method."""
    recall = Recall(in_memory)
    given = {"text": "fox", "scope": home, **arguments}
    for method in (recall.recall, recall.sessions, recall.context):
        with pytest.raises(InvalidQuery) as refused:
            await method(**given)
        assert named in str(refused.value)
    with pytest.raises(InvalidQuery):
        await recall.why_not("a", **given)


async def test_a_bad_budget(in_memory, home):
    """A negative budget is refused by its value."""
    for budget in (-1, "9", None):
        with pytest.raises(InvalidQuery) as refused:
            await Recall(in_memory).context("fox", home, budget)
        assert repr(budget) in str(refused.value)


@pytest.mark.parametrize("ask", ["recall", "sessions", "context", "why_not"])
async def test_a_search_belongs_to_somebody(store, home, ask):
    """Every verb refuses a scope that names no user, agent or session, unless everyone is meant."""
    await keep(store, note(inside(home, user="lin", session="s"), "a", "red fox"))
    verb = getattr(octavo.Recall(store), ask)
    words = ("a", "fox") if ask == "why_not" else ("fox",)
    for nobody in ((), (home,), (Scope(tenant="x"),)):
        with pytest.raises(InvalidQuery, match="a search belongs to somebody"):
            await verb(*words, *nobody)
    for somebody in ({"user": "lin"}, {"session": "s"}, {"agent": ""}):
        assert await verb(*words, inside(home, **somebody))
    assert await verb(*words, home, everyone=True)
    with pytest.raises(InvalidQuery, match="everyone must be True or False"):
        await verb(*words, home, everyone="yes")
