"""Cached: each text is embedded once, and nobody pays for somebody else's mistake."""

import asyncio

import pytest

from octavo import ConfigError, ModelError
from octavo.kernel.ports import Embedder
from octavo.models import Cached, FunctionEmbedder
from octavo.testing.embedding import HashEmbedder


class Watched(HashEmbedder):
    """Remembers what it was asked, and refuses texts called bad."""

    def __init__(self):
        super().__init__()
        self.calls, self.closed = [], False

    async def embed(self, texts, *, asking=False):
        self.calls.append((list(texts), asking))
        for text in texts:
            if text.startswith("bad"):
                raise ModelError("bad text")
            if text == "away":
                raise ModelError("the model is away")
            if text == "bug":
                raise KeyError(text)
        return await super().embed(texts, asking=asking)

    async def close(self):
        self.closed = True


@pytest.fixture
def model():
    return Watched()


async def test_it_is_an_embedder(model):
    """Same name, same vectors, same languages; closing closes what is inside."""
    cached = Cached(model)
    assert isinstance(cached, Embedder)
    assert cached.name == model.name
    assert cached.reads("我") == model.reads("我")
    assert await cached.embed(["a", "b"]) == await HashEmbedder().embed(["a", "b"])
    assert await cached.embed([]) == []
    await cached.close()
    assert model.closed


async def test_each_text_once(model):
    """Duplicates in a call, and texts of earlier calls, are not embedded again; questions are another matter."""
    cached = Cached(model)
    first = await cached.embed(["a", "b", "a"])
    assert first[0] == first[2] != first[1]
    assert await cached.embed(["c", "a"]) == [*await HashEmbedder().embed(["c"]), first[0]]
    await cached.embed(["a"], asking=True)
    assert model.calls == [(["a", "b"], False), (["c"], False), (["a"], True)]


async def test_the_least_recently_used_is_forgotten(model):
    """Memory is bounded by `entries`; with none, nothing is remembered and all still works."""
    cached = Cached(model, entries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert [texts[0] for texts, _ in model.calls] == ["a", "b", "c", "b"]
    assert len(await cached.embed(list("abcdefg"))) == 7
    assert len(cached._kept) == 2
    nothing = Cached(model, entries=0)
    assert await nothing.embed(["a"]) == await nothing.embed(["a"])
    with pytest.raises(ConfigError):
        Cached(model, entries=-1)


async def test_what_a_caller_does_to_its_vector(model):
    """It gets a copy."""
    cached = Cached(model)
    (mine,) = await cached.embed(["a"])
    expected = mine[:]
    mine[0] = 7.0
    assert await cached.embed(["a"]) == [expected]


async def test_at_the_same_time(model):
    """Concurrent calls do not get in each other's way."""
    cached = Cached(model)
    found = await asyncio.gather(*(cached.embed([f"text {n % 5}", "common"]) for n in range(50)))
    calls = len(model.calls)
    assert found == [await cached.embed([f"text {n % 5}", "common"]) for n in range(50)]
    assert len(model.calls) == calls


async def test_a_refused_text_fails_only_who_asked_for_it(model):
    """Who did not ask for it gets an answer, and nothing wrong is remembered."""
    cached = Cached(model)
    texts = [["a"], ["b", "bad"], ["c"], ["b"], ["c", "y", "z", "bad too", "a"]]
    found = [await _attempt(cached, each) for each in texts]
    assert [type(each) for each in found] == [list, ModelError, list, list, ModelError]
    assert len(await cached.embed(["a", "b", "c", "x", "y", "z"])) == 6


async def _attempt(cached, texts):
    try:
        return await cached.embed(texts)
    except ModelError as refused:
        return refused


@pytest.mark.parametrize(("text", "kind"), [("away", ModelError), ("bug", KeyError)])
async def test_any_other_failure(model, text, kind):
    """It reaches the caller as it is, and the next call asks again."""
    cached = Cached(model)
    with pytest.raises(kind):
        await cached.embed(["a", text])
    assert len(await cached.embed(["a"])) == 1
    assert len(model.calls) == 2


async def test_a_wrong_count(model):
    """An embedder that answers too few is found out, and nobody waits for ever."""

    class Short(Watched):
        async def embed(self, texts, *, asking=False):
            return (await super().embed(texts, asking=asking))[1:]

    with pytest.raises(ModelError, match="1 vector to 2 texts"):
        await Cached(Short()).embed(["a", "b"])


def test_in_two_event_loops(model):
    """What was remembered in one loop is known in the next."""
    cached = Cached(model)
    found = [asyncio.run(cached.embed(["a"])) for _ in range(2)]
    assert found[0] == found[1]
    assert len(model.calls) == 1


async def test_around_a_function():
    """What a function answers wrongly is told, and the rest of it not remembered."""
    cached = Cached(FunctionEmbedder(lambda texts: [[0.0 if "bad" in text else 1.0] for text in texts], "f"))
    await cached.embed(["a", "b"])
    with pytest.raises(ModelError, match=r"text 2 of 3: .*zeros"):
        await cached.embed(["a", "b", "c", "bad", "d"])
    assert len(await cached.embed(["c", "d"])) == 2
