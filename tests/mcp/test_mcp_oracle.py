"""The official memory server of the npm registry beside ours: the same calls have the same answers. And npm's inspector."""

import itertools
import json
import os
import random
import subprocess
import sys

import pytest
from npm import installed, node_version

from mcp import Client, StdioServerParameters
from sampled import sampled
from servers.verdict import NOT_TESTED
from serving import KINDS

SERVER = ("@modelcontextprotocol/server-memory", "2026.8.31")
INSPECTOR = ("@modelcontextprotocol/inspector", "2.12.0")
NAMES = ["Lin", "lin", "Acme", "", "名字", "a b", "Ünï", "ΟΔΟΣ", "İ", "x" * 300, "%_", "'; --", "🙂"]
TYPES = ["person", "Person", "公司", "", "t" * 300]
TEXTS = [
    "likes tea",
    "LIKES TEA",
    "对花生过敏",
    "",
    "straße",
    "STRASSE",
    "line\nline",
    '"quoted"',
    "🙂",
    "tea",
]
RELATIONS = ["works at", "knows", "", "认识"]
NEEDLES = [
    "",
    "tea",
    "TEA",
    "lin",
    "名",
    "ß",
    "ss",
    "σ",
    "ς",
    "i",
    "%",
    "_",
    "nothing of the sort",
    "🙂",
    "\n",
]
CALLS = 60


@pytest.fixture
async def official(tmp_path):
    """A client of the official server, with an empty file of its own."""
    program = installed(*SERVER) / "dist" / "index.js"
    env = {**os.environ, "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    return StdioServerParameters(command="node", args=[str(program)], env=env)


def program(rng):
    """A call that makes sense most of the time."""

    def some(values, most=3):
        return rng.sample(values, rng.randint(0, min(most, len(values))))

    def entity(name):
        return {
            "name": name,
            "entityType": rng.choice(TYPES),
            "observations": rng.choices(TEXTS, k=rng.randint(0, 3)),
        }

    def relations(most=3):
        pairs = {
            (rng.choice(NAMES), rng.choice(NAMES), rng.choice(RELATIONS)) for _ in range(rng.randint(0, most))
        }
        return [{"from": a, "to": b, "relationType": kind} for a, b, kind in sorted(pairs)]

    def named(key):
        return [
            {"entityName": name, key: rng.choices(TEXTS, k=rng.randint(0, 3))}
            for name in rng.choices(NAMES, k=2)
        ]

    return rng.choice([
        ("create_entities", {"entities": [entity(name) for name in some(NAMES, 5)]}),
        ("create_entities", {"entities": [entity(name) for name in some(NAMES, 5)]}),
        ("create_relations", {"relations": relations(5)}),
        ("add_observations", {"observations": named("contents")}),
        ("add_observations", {"observations": named("contents")[:1]}),
        ("delete_observations", {"deletions": named("observations")}),
        ("delete_entities", {"entityNames": some(NAMES, 2)}),
        ("delete_relations", {"relations": relations()}),
        ("read_graph", {}),
        ("search_nodes", {"query": rng.choice(NEEDLES)}),
        ("open_nodes", {"names": some(NAMES)}),
    ])  # fmt: skip


_answered = {}


async def answered(official, seed):
    """Calls, and what the official server answers to each; it is asked once, whatever stores ours is on."""
    if seed not in _answered:
        rng = random.Random(seed)
        calls = [*(program(rng) for _ in range(CALLS)), ("read_graph", {})]
        async with Client(official) as theirs:
            _answered[seed] = [(*call, await theirs.call_tool(*call)) for call in calls]
    return _answered[seed]


@sampled(("store", "seed"), itertools.product(KINDS, range(5)), share=4, indirect=["store"])
async def test_equal_answers(memory, official, connect, seed):
    """Call by call: what is answered to programs, what is shown to models, and that both refuse the same."""
    async with connect(memory, toolset="graph") as ours:
        for name, arguments, wanted in await answered(official, seed):
            got = await ours.client.call_tool(name, arguments)
            shown = (name, json.dumps(arguments, ensure_ascii=False))
            assert got.is_error == bool(wanted.is_error), shown
            if wanted.is_error:
                assert wanted.content[0].text in got.content[0].text, shown
                continue
            assert got.structured_content == wanted.structured_content, shown
            assert got.content[0].text == wanted.content[0].text, shown
        assert wanted.structured_content["entities"]


async def test_equal_tools(quick_memory, official, connect):
    """Names, order, annotations, and what each takes and answers."""

    def told(tools):
        return [
            (
                tool.name,
                tool.title,
                tool.annotations.model_dump(exclude={"title"}),
                sorted(tool.input_schema.get("properties", {})),
                sorted(tool.input_schema.get("required", [])),
                sorted(tool.output_schema["properties"]),
            )
            for tool in tools
        ]

    async with Client(official) as theirs, connect(quick_memory, toolset="graph") as ours:
        wanted = told((await theirs.list_tools()).tools)
        assert told((await ours.client.list_tools()).tools) == wanted


async def test_both_refuse_what_is_malformed(quick_memory, official, connect):
    async with Client(official) as theirs, connect(quick_memory, toolset="graph") as ours:
        for name, arguments in (
            ("create_entities", {}),
            ("create_entities", {"entities": [{"name": "a"}]}),
            ("create_entities", {"entities": [{"name": 1, "entityType": "t", "observations": []}]}),
            ("create_entities", {"entities": [{"name": "a", "entityType": "t", "observations": [1]}]}),
            ("create_relations", {"relations": [{"from": "a", "to": "b"}]}),
            ("add_observations", {"observations": [{"entityName": "nobody", "contents": ["x"]}]}),
            ("delete_entities", {"entityNames": "a"}),
            ("search_nodes", {"query": None}),
            ("open_nodes", {"names": [5]}),
        ):
            assert (await theirs.call_tool(name, arguments)).is_error, name
            assert await ours.refused(name, **arguments)


async def test_the_differences_that_the_page_lists(quick_memory, official, connect):
    twice = [{"name": "a", "entityType": "t", "observations": []}] * 2
    async with Client(official) as theirs, connect(quick_memory, toolset="graph") as ours:
        wanted = (await theirs.call_tool("create_entities", {"entities": twice})).structured_content
        assert len(wanted["entities"]) == 2
        assert len((await ours("create_entities", entities=twice))["entities"]) == 1
        assert not (await theirs.call_tool("read_graph", {"user": "bob"})).is_error
        assert "user" in await ours.refused("read_graph", user="bob")


def test_npms_inspector(tmp_path):
    """Its command line lists the tools and calls one."""
    if (version := node_version()) < 22:
        pytest.skip(f"{NOT_TESTED}npm's inspector needs Node 22 or newer, this is {version}")
    program = installed(*INSPECTOR) / "clients" / "launcher" / "build" / "index.js"
    octavo = [sys.executable, "-m", "octavo", "mcp", "--store", f"sqlite:///{tmp_path}/octavo.db"]
    told = subprocess.run(
        ["node", str(program), "--cli", *octavo, "--method", "tools/list"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert [each["name"] for each in json.loads(told.stdout)["tools"]][:2] == ["remember", "search_memory"]
