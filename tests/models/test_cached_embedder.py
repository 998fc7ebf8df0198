"""Cached: each text is embedded once, and nobody pays for somebody else's mistake."""

import asyncio
import gc

import pytest

from octavo import ConfigError, ModelError
from octavo.kernel.ports import Embedder
from octavo.models import Cached, FunctionEmbedder, RefusedText
from octavo.testing.embedding import HashEmbedder


class Watched(HashEmbedder):
    """Remembers what it was asked, waits where a test wants it to, and refuses texts called bad."""

    def __init__(self):
        super().__init__()
        self.calls, self.gate, self.names_the_number, self.closed = [], None, True, False

    async def embed(self, texts, *, asking=False):
        self.calls.append((list(texts), asking))
        if self.gate is not None:
            await self.gate.wait()
        for number, text in enumerate(texts, 1):
            if text.startswith("bad"):
                raise RefusedText(number if self.names_the_number else None, "bad text")
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
    """Concurrent calls share one call of the model, and a text asked for by many is embedded once."""
    cached = Cached(model)
    found = await asyncio.gather(*(cached.embed([f"text {n % 5}", "common"]) for n in range(50)))
    assert found == [await cached.embed([f"text {n % 5}", "common"]) for n in range(50)]
    assert model.calls == [(["text 0", "common", "text 1", "text 2", "text 3", "text 4"], False)]


async def test_while_the_model_works_the_next_call_gathers(model):
    """No waiting when idle, one call for all who came meanwhile, and questions do not queue behind records."""
    cached = Cached(model)
    model.gate = asyncio.Event()
    calls = [asyncio.create_task(cached.embed(["first"]))]
    while not model.calls:
        await asyncio.sleep(0)
    calls += [asyncio.create_task(cached.embed([text])) for text in ("second", "third", "first")]
    await asyncio.sleep(0)
    calls.append(asyncio.create_task(cached.embed(["question"], asking=True)))
    while len(model.calls) < 2:
        await asyncio.sleep(0)
    assert model.calls == [(["first"], False), (["question"], True)]
    model.gate.set()
    await asyncio.gather(*calls)
    assert model.calls[2:] == [(["second", "third"], False)]


async def test_a_call_at_every_step_of_the_loop(model):
    """However a call meets the end of the work before it, it is answered."""
    cached = Cached(model)
    calls = []
    for n in range(300):
        calls.append(asyncio.create_task(cached.embed([f"text {n}"])))
        for _ in range(n % 7):
            await asyncio.sleep(0)
    found = await asyncio.gather(*calls)
    assert found == [await HashEmbedder().embed([f"text {n}"]) for n in range(300)]


async def test_a_cancelled_caller(model):
    """Whoever waits for the same text gets it all the same."""
    cached = Cached(model)
    model.gate = asyncio.Event()
    leaving = asyncio.create_task(cached.embed(["a"]))
    while not model.calls:
        await asyncio.sleep(0)
    staying = asyncio.create_task(cached.embed(["a"]))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    model.gate.set()
    assert len(await staying) == 1
    assert len(model.calls) == 1


@pytest.mark.parametrize("numbered", [True, False])
async def test_a_refused_text_fails_only_who_asked_for_it(model, numbered):
    """The others of the same call of the model are answered, and each caller is told its own text's number."""
    cached = Cached(model)
    model.names_the_number = numbered
    texts = [["a"], ["b", "bad"], ["c"], ["b"], ["x", "y", "z", "bad too", "a"]]
    found = await asyncio.gather(*(cached.embed(each) for each in texts), return_exceptions=True)
    assert [type(each) for each in found] == [list, RefusedText, list, list, RefusedText]
    assert [found[1].number, found[4].number] == [2, 4]
    calls = len(model.calls)
    assert len(await cached.embed(["a", "b", "c", "x", "y", "z"])) == 6
    assert len(model.calls) == calls


async def test_when_all_is_refused(model):
    """The search for the culprit ends soon when it is not the texts that are wrong."""
    model.names_the_number = False
    with pytest.raises(RefusedText):
        await Cached(model).embed([f"bad {n}" for n in range(1000)])
    assert len(model.calls) < 50


@pytest.mark.parametrize(("text", "kind"), [("away", ModelError), ("bug", KeyError)])
async def test_any_other_failure_is_everybodys(model, text, kind):
    """It is not tried for each caller in turn, each has an error of its own, and the next call asks again."""
    cached = Cached(model)
    found = await asyncio.gather(*(cached.embed([each]) for each in ("a", "b", text)), return_exceptions=True)
    assert [type(each) for each in found] == [kind] * 3
    assert len(model.calls) == 1
    assert kind is KeyError or found[0] is not found[1]
    assert len(await cached.embed(["a"])) == 1


async def test_a_wrong_count(model):
    """An embedder that answers too few is found out, and nobody waits for ever."""

    class Short(Watched):
        async def embed(self, texts, *, asking=False):
            return (await super().embed(texts, asking=asking))[1:]

    with pytest.raises(ModelError, match="1 vectors to 2 texts"):
        await Cached(Short()).embed(["a", "b"])


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
async def test_closed_while_somebody_waits(model, steps):
    """However far the call has come, it ends with an error."""
    cached = Cached(model)
    model.gate = asyncio.Event()
    waiting = [asyncio.create_task(cached.embed([text])) for text in ("a", "b")]
    await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    later = asyncio.create_task(cached.embed(["c"]))
    await asyncio.sleep(0)
    await cached.close()
    for call in (*waiting, later):
        with pytest.raises(ModelError, match="closed"):
            await call


@pytest.mark.parametrize("tidy", [True, False])
def test_in_two_event_loops(model, tidy):
    """What was under way when a loop ended, with or without cancelling its tasks, is begun anew in the next one."""
    cached = Cached(model)
    model.gate = asyncio.Event()

    async def left_behind():
        left.append(asyncio.create_task(cached.embed(["a"])))
        while not model.calls:
            await asyncio.sleep(0)

    left = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # of tasks destroyed while they wait, which is the point
    loop.run_until_complete(left_behind())
    if tidy:
        for task in (pending := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.wait(pending))
    loop.close()
    left.clear()
    gc.collect()  # what is left complains here, if at all, and not in another test
    model.gate = None
    (found,) = asyncio.run(asyncio.wait_for(cached.embed(["a"]), 30))
    assert len(found) == 64
    assert len(model.calls) == 2


async def test_around_a_function():
    """The number of a refused text is the caller's, behind every layer."""
    cached = Cached(FunctionEmbedder(lambda texts: [[0.0 if "bad" in text else 1.0] for text in texts], "f"))
    await cached.embed(["a", "b"])
    with pytest.raises(RefusedText, match=r"text 4: .*zeros"):
        await cached.embed(["a", "b", "c", "bad", "d"])
