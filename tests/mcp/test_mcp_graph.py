"""The knowledge graph on every store: what the nine tools do, and that nobody's writes are lost."""

import asyncio
import uuid

import pytest

from octavo import Conflict, NotFound, Scope
from octavo.mcp.graph import Entity, Graph, KnowledgeGraph, Relation

LIN = Entity("Lin", "person", ["likes tea"])
ACME = Entity("Acme", "company", [])
WORKS = Relation("Lin", "Acme", "works at")
TOOLS = [
    "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
    "delete_relations", "read_graph", "search_nodes", "open_nodes",
]  # fmt: skip


@pytest.fixture
def graph(store):
    return Graph(store, Scope(tenant=uuid.uuid4().hex, user="lin"))


async def test_what_is_made_is_read_in_its_order(graph):
    assert await graph.read() == KnowledgeGraph([], [])
    assert await graph.create_entities([LIN, ACME]) == [LIN, ACME]
    assert await graph.create_entities([Entity("Bob", "person", []), LIN, Entity("Bob", "x", [])]) == [
        Entity("Bob", "person", [])
    ]
    assert await graph.create_relations([WORKS, WORKS]) == [WORKS]
    assert await graph.create_relations([WORKS, Relation("Lin", "nowhere", "lives in")]) == [
        Relation("Lin", "nowhere", "lives in")
    ]
    whole = await graph.read()
    assert [each.name for each in whole.entities] == ["Lin", "Acme", "Bob"]
    assert [each.to for each in whole.relations] == ["Acme", "nowhere"]


async def test_observations(graph):
    await graph.create_entities([LIN, ACME])
    added = await graph.add_observations(
        [("Lin", ["likes tea", "speaks 中文 🙂"]), ("Acme", ["new"]), ("Lin", ["new"])]
    )
    assert added == [["speaks 中文 🙂"], ["new"], ["new"]]
    with pytest.raises(NotFound, match="Entity with name Nobody not found"):
        await graph.add_observations([("Acme", ["lost"]), ("Nobody", ["x"])])
    await graph.delete_observations([("Lin", ["likes tea", "unknown"]), ("Nobody", ["x"])])
    assert {each.name: each.observations for each in (await graph.read()).entities} == {
        "Lin": ["speaks 中文 🙂", "new"],
        "Acme": ["new"],
    }


async def test_search_and_open(graph):
    await graph.create_entities([LIN, ACME, Entity("%_", "sign", ["100 %"])])
    await graph.create_relations([WORKS])
    for needle, names in (
        ("TEA", ["Lin"]),
        ("COMP", ["Acme"]),
        ("%", ["%_"]),
        ("", ["Lin", "Acme", "%_"]),
        ("x", []),
    ):
        found = await graph.search(needle)
        assert [each.name for each in found.entities] == names
        assert found.relations == ([WORKS] if {"Lin", "Acme"} & {*names} else [])
    assert await graph.open(["Acme", "nobody"]) == KnowledgeGraph([ACME], [WORKS])
    assert await graph.open([]) == KnowledgeGraph([], [])


async def test_deleting(graph):
    bob = Relation("Bob", "Lin", "knows")
    await graph.create_entities([LIN, ACME])
    await graph.create_relations([WORKS, bob])
    await graph.delete_relations([WORKS, Relation("a", "b", "c")])
    assert (await graph.read()).relations == [bob]
    await graph.create_relations([WORKS])
    await graph.delete_entities(["Lin", "nobody"])
    assert await graph.read() == KnowledgeGraph([ACME], [])
    await graph.create_entities([LIN])
    assert [each.name for each in (await graph.read()).entities] == ["Acme", "Lin"]
    for nothing in (graph.delete_entities, graph.delete_relations, graph.delete_observations):
        await nothing([])


async def test_names_of_any_length_and_sort(graph):
    odd = [
        Entity(name, kind, [])
        for name, kind in (("", ""), ("n" * 5000, "t" * 5000), ("a/b", "中"), ("ab", "/"))
    ]
    await graph.create_entities(odd)
    assert (await graph.read()).entities == odd
    edges = [Relation("a", "bc", "d"), Relation("ab", "c", "d"), Relation("", "", "")]
    assert await graph.create_relations(edges) == edges


async def test_two_users_have_two_graphs(store):
    tenant = uuid.uuid4().hex
    ours, theirs = (Graph(store, Scope(tenant=tenant, user=user)) for user in ("lin", "bob"))
    await ours.create_entities([LIN])
    assert await theirs.read() == KnowledgeGraph([], [])
    assert await theirs.create_entities([LIN]) == [LIN]
    await theirs.delete_entities(["Lin"])
    assert (await ours.read()).entities == [LIN]


async def test_writers_at_once_lose_nothing(graph):
    """Twenty who add to one entity, make the same entities, and say the same of each."""
    await graph.create_entities([ACME])
    made = await asyncio.gather(
        *(graph.add_observations([("Acme", [f"said by {number}"])]) for number in range(20)),
        *(graph.create_entities([LIN, Entity(f"e{number}", "x", [])]) for number in range(20)),
    )
    whole = await graph.read()
    found = {each.name: each.observations for each in whole.entities}
    assert {*found} == {"Acme", "Lin", *(f"e{number}" for number in range(20))}
    assert sorted(found["Acme"]) == sorted(f"said by {number}" for number in range(20))
    assert sum(LIN in each for each in made[20:]) == 1  # one of them made it, and only that one is told so


async def test_a_graph_that_never_stands_still(graph, monkeypatch):
    monkeypatch.setattr("octavo.mcp.graph._TRIES", 3)
    monkeypatch.setattr("octavo.mcp.graph._PAUSE_SECONDS", 0)
    await graph.create_entities([LIN])

    async def always(ops):
        raise Conflict("somebody was quicker")

    monkeypatch.setattr(graph, "_write", always)
    with pytest.raises(Conflict, match="3 times"):
        await graph.add_observations([("Lin", ["x"])])


async def test_the_nine_tools(memory, connect):
    async with connect(memory, toolset="graph") as call:
        listed = (await call.client.list_tools()).tools
        assert [each.name for each in listed] == TOOLS
        assert [each.annotations.read_only_hint for each in listed] == [False] * 6 + [True] * 3
        assert [each.annotations.destructive_hint for each in listed] == [False] * 3 + [True] * 3 + [
            False
        ] * 3
        entity = {"name": "Lin", "entityType": "person", "observations": ["likes tea"]}
        edge = {"from": "Lin", "to": "Acme", "relationType": "works at"}
        assert await call("create_entities", entities=[entity]) == {"entities": [entity]}
        assert await call("create_relations", relations=[edge]) == {"relations": [edge]}
        assert await call("search_nodes", query="tea") == {"entities": [entity], "relations": [edge]}
    async with connect(memory, "bob", toolset="graph") as call:
        assert await call("read_graph") == {"entities": [], "relations": []}
        await call("delete_entities", entityNames=["Lin"])
        assert await call("open_nodes", names=["Lin"]) == {"entities": [], "relations": []}
    async with connect(memory, toolset="graph") as call:
        assert await call("read_graph") == {"entities": [entity], "relations": [edge]}
