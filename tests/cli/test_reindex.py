"""`octavo reindex`: what it mends, what it names, how it ends; and everything docs/reindex.md shows."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from octavo import Add, ModelError, Query, Record, Remove, Scope, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder
from warm import programs

PAGE = Path(__file__).parents[2] / "docs" / "reindex.md"
SPACE = HashEmbedder().name
VECTORS = ("--vectors", "sqlite:///vectors.db", "--embedder", "hash-for-tests")


def change(url, *ops):
    async def apply():
        async with open_store(url) as store:
            await store.apply(ops)

    asyncio.run(apply())


def spaces():
    async def ask():
        async with open_vectors("sqlite:///vectors.db") as index:
            return {space.name: (space.complete, space.entries) for space in await index.spaces()}

    return asyncio.run(ask())


def test_terms_alone(octavo, url):
    told = octavo("reindex", url)
    assert told.exit_code == 0
    assert re.fullmatch(r"indexed 100 records by terms in \d+\.\d s\n", told.stdout)
    assert told.stderr == ""
    assert octavo("reindex", url, "--verify").stdout == "no differences\n"
    only = json.loads(octavo("reindex", url, "--collection", "messages", "--json").stdout)
    only.pop("seconds")
    assert only == {
        "ok": True,
        "command": "reindex",
        "url": url,
        "verify": False,
        "terms": {"messages": 100},
        "embedded": None,
        "refused": 0,
        "other_spaces": [],
    }


def test_vectors(octavo, url):
    """All of them first, then none, then what differs; complete as soon as all are there."""
    told = octavo("reindex", url, *VECTORS)
    assert told.exit_code == 0
    assert told.stdout.splitlines()[1].startswith(f"embedded 100 records by {SPACE} in ")
    assert spaces() == {SPACE: (True, 100)}
    again = octavo("reindex", url, *VECTORS, "--no-terms")
    assert again.stdout.startswith(f"embedded 0 records by {SPACE} in ")
    change(url, Remove(Query(collection="messages", ids=("m000",))), Add([Record(collection="messages", id="new", text="x")]))  # fmt: skip
    assert octavo("reindex", url, *VECTORS, "--no-terms").stdout.startswith("embedded 1 record by")
    assert spaces() == {SPACE: (True, 100)}


def test_verify_names_every_difference(octavo, url):
    """By collection, id and the name of the scope; status 1, in JSON too; after a reindex there are none."""
    octavo("reindex", url, *VECTORS)
    gone = Query(collection="messages", ids=("m001", "m002"), scope=Scope(tenant="acme"))
    new = Record(collection="messages", id="new", scope=Scope(user="lin"), text="新的")
    change(url, Remove(gone), Add([new]))
    told = octavo("reindex", url, *VECTORS, "--verify")
    assert told.exit_code == 1
    assert told.stdout.splitlines() == [
        f"messages new ({new.scope.key}): no vector",
        f"messages m001 ({Scope(tenant='acme').key}): a vector without a record",
        "2 differences; octavo reindex mends them",
    ]
    document = json.loads(octavo("reindex", url, *VECTORS, "--verify", "--json").stdout)
    assert not document["ok"]
    assert [key["id"] for key in document["vectors"]["missing"]] == ["new"]
    assert [key["id"] for key in document["vectors"]["stray"]] == ["m001"]
    assert [lexicon["collection"] for lexicon in document["terms"]] == ["messages"]
    assert spaces() == {SPACE: (True, 100)}  # it only looked
    narrow = octavo("reindex", url, *VECTORS, "--verify", "--tenant", "acme")
    assert narrow.exit_code == 1
    assert narrow.stdout.splitlines()[0].startswith("messages m001 ")
    assert octavo("reindex", url, *VECTORS).exit_code == 0
    assert octavo("reindex", url, *VECTORS, "--verify").stdout == "no differences\n"


def test_part_of_the_records_does_not_complete_a_space(octavo, url):
    """Or it would serve with holes in it."""
    octavo("reindex", url, *VECTORS, "--tenant", "acme")
    assert spaces() == {SPACE: (False, 50)}
    octavo("reindex", url, *VECTORS, "--collection", "messages")
    assert spaces() == {SPACE: (False, 100)}
    octavo("reindex", url, *VECTORS)
    assert spaces() == {SPACE: (True, 100)}


def test_vectors_of_another_model(octavo, url):
    """They are named, and removed only when that is asked for."""

    async def fill():
        from octavo import Indexed

        vectors = open_vectors("sqlite:///vectors.db")
        async with Indexed(open_store(url), vectors, HashEmbedder(8)) as indexed:
            await indexed.settle(60)

    asyncio.run(fill())
    old = HashEmbedder(8).name
    told = octavo("reindex", url, *VECTORS)
    assert told.stderr == f"octavo: the index also holds vectors of {old}; --forget {old} removes them\n"
    assert octavo("reindex", url, *VECTORS, "--forget", SPACE).exit_code == 2
    assert octavo("reindex", url, *VECTORS, "--forget", old).stderr == ""
    assert spaces() == {SPACE: (True, 100)}


def test_a_text_the_model_refuses(octavo, url, monkeypatch):
    """All others are embedded; that one is told of, with status 1, and waits."""

    async def embed(self, texts, *, asking=False):
        if any("消息 7" in text for text in texts):
            raise ModelError("too hot")
        return [self._vector(text) for text in texts]

    monkeypatch.setattr(HashEmbedder, "embed", embed)
    told = octavo("reindex", url, *VECTORS)
    assert told.exit_code == 1
    assert "embedded 89 records" in told.stdout
    assert told.stderr.startswith("octavo: 11 texts not embedded (ModelError: too hot)")
    assert octavo("reindex", url, *VECTORS, "--verify").stdout == "no differences\n"
    assert octavo("reindex", url, *VECTORS, "--verify").stderr.endswith("writes not embedded yet\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--vectors", "memory://"], "--vectors needs --embedder too"),
        (["--embedder", "hash-for-tests"], "--embedder needs --vectors too"),
        (["--tenant", "acme"], "--tenant narrows what is embedded"),
        (["--forget", "x"], "name that by --vectors"),
        (["--no-terms"], "nothing to do"),
        (["--vectors", "memory://", "--embedder", "none"], "names no model"),
        (["--vectors", "memory://", "--embedder", "magic"], "unknown embedder 'magic'"),
        (
            ["--vectors", "carrots://", "--embedder", "hash-for-tests"],
            "unknown vector index scheme 'carrots'",
        ),
        ([*VECTORS, "--verify"], "there is no store at vectors.db"),
    ],
)
def test_mistakes(octavo, url, words, expected):
    """Each is told before anything is done."""
    told = octavo("reindex", url, *words)
    assert told.exit_code == 2
    assert expected in told.stderr
    assert told.stdout == ""


def test_no_store(octavo):
    assert octavo("reindex").exit_code == 2
    told = octavo("reindex", "sqlite:///nowhere.db")
    assert told.exit_code == 2
    assert "there is no store at nowhere.db" in told.stderr
    assert not Path("nowhere.db").exists()


def test_secrets_are_not_told(octavo):
    told = octavo("reindex", "memory://", "--vectors", "postgresql://octavo:hush@127.0.0.1:1/x", "--embedder", "hash-for-tests")  # fmt: skip
    assert told.exit_code == 1
    assert "hush" not in told.output


LINE = '{"collection":"messages","id":"m9","scope":{"user":"lin"},"text":"snow","created_at":"2026-03-01T12:00:00Z","seq":1}\n'


def test_the_page():
    """Everything it shows is run, in one folder, and what it prints is compared."""
    Path("more.jsonl").write_text(LINE)
    env = {**os.environ, "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}"}

    def run(what, **more):
        done = subprocess.run(
            what,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
            **more,
        )
        return done.stdout

    def steady(printed):
        return re.sub(r"in \d+\.\d s$", "in T", printed, flags=re.MULTILINE)

    page = PAGE.read_text()
    output, ran = "", 0
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if kind == "python":
            output = run(["python", "-c", text])
        elif kind == "output":
            assert output == text
        elif kind == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                assert steady(run(command, shell=True)) == steady(expected), command
                ran += 1
    assert ran == page.count("\n$ ") == 7
