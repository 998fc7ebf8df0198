"""OpenAIEmbedder against a real HTTP server: what it sends, and what becomes of every bad answer."""

import asyncio
import math
import traceback

import pytest
from endpoint import (
    NOT_JSON,
    answered,
    backwards,
    bad_base64,
    endpoint,
    in_floats,
    no_numbers,
    too_few,
    truncated,
    uneven,
    vector,
    zeros,
)

from model_endpoint import BROKEN, GARBAGE, HUNG_UP, OTHER_JSON, REFUSED, TOO_BUSY, http, never
from octavo import ConfigError, ModelError
from octavo.models import Cached, OpenAIEmbedder, open_embedder

MALFORMED = (too_few, uneven, no_numbers, bad_base64)
KEY = "sk-very-secret-0123456789"


@pytest.fixture
async def server():
    async with endpoint() as running:
        yield running


@pytest.fixture
async def embedder(server):
    made = OpenAIEmbedder("text-embedding-3-small", base_url=server.url, api_key=KEY, batch_size=4)
    yield made
    await made.close()


def near(found, values):
    length = math.hypot(*values)
    return found.typecode == "f" and list(found) == pytest.approx(
        [value / length for value in values], abs=1e-6
    )


async def test_vectors_of_unit_length_in_the_order_of_the_texts(server, embedder):
    """Texts of all lengths, in several requests, come back in their places; the model and the key are sent."""
    texts = ["x" * length for length in (9, 1, 30, 2, 2, 500, 0, 7, 3)]
    found = await embedder.embed(texts)
    assert [near(one, vector(text or " ")) for one, text in zip(found, texts, strict=True)] == [True] * 9
    assert len(server.requests) == 3
    assert {request["model"] for request in server.requests} == {"text-embedding-3-small"}
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert {request["encoding_format"] for request in server.requests} == {"base64"}
    assert await embedder.embed([]) == []
    assert len(server.requests) == 3


@pytest.mark.parametrize("step", [in_floats, backwards])
async def test_other_spellings(server, embedder, step):
    """Floats instead of base64, and numbered items in another order, mean the same."""
    server.script.append(step)
    found = await embedder.embed(["a", "bb", "ccc"])
    assert [near(one, vector(text)) for one, text in zip(found, ["a", "bb", "ccc"], strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize("step", [TOO_BUSY, BROKEN, truncated, HUNG_UP])
async def test_what_passes_is_retried(server, embedder, step):
    """One such answer is followed by another attempt, and the caller sees no error."""
    server.script += [step, answered]
    (found,) = await embedder.embed(["hello"])
    assert near(found, vector("hello"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "step",
    [TOO_BUSY, BROKEN, truncated, HUNG_UP, REFUSED, GARBAGE, NOT_JSON, OTHER_JSON, *MALFORMED],
)
async def test_what_stays_wrong_is_a_model_error(server, embedder, step):
    """Every kind of bad answer ends as ModelError, and the next call works."""
    server.script += [step] * 3
    with pytest.raises(ModelError) as caught:
        await embedder.embed(["hello", "world"])
    assert step in MALFORMED or caught.value.__cause__ is not None
    server.script.clear()
    assert len(await embedder.embed(["hello"])) == 1


async def test_a_slow_server_is_a_model_error(server):
    """After `timeout` seconds, and as many retries as asked for, the call ends."""
    server.script += [never] * 2
    slow = OpenAIEmbedder("m", base_url=server.url, timeout=0.5, max_retries=1)
    with pytest.raises(ModelError, match=r"'openai:m' at http://127.0.0.1:\d+/v1 .*timed out"):
        await slow.embed(["hello"])
    assert len(server.requests) == 2
    await slow.close()


async def test_nobody_there():
    """A refused connection is a ModelError that names the address."""
    gone = OpenAIEmbedder("m", base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(ModelError, match=r"http://127\.0\.0\.1:9/v1"):
        await gone.embed(["hello"])
    await gone.close()


async def test_a_vector_without_direction(server, embedder):
    """It fails the call, and says what is wrong."""
    server.script += [zeros] * 3
    with pytest.raises(ModelError, match=r"text \d of \d: .*zeros"):
        await embedder.embed(["long" * 9, "longer" * 9, "zero", "a", "b", "c"])


async def test_another_dimension_than_before(server, embedder):
    """A server that changes its model under one name is found out."""
    await embedder.embed(["a"])
    server.script.append(lambda body: answered(body | {"dimensions": 7}))
    with pytest.raises(ModelError, match="7 dimensions instead of 4"):
        await embedder.embed(["b"])


async def test_dimensions(server):
    """They are asked for, checked, and part of the name."""
    made = open_embedder(f"openai:m?dimensions=6&base_url={server.url}")
    assert made.name == "openai:m/6"
    (found,) = await made.embed(["a"])
    assert len(found) == server.requests[0]["dimensions"] == 6
    server.script.append(in_floats)
    with pytest.raises(ModelError, match="4 dimensions instead of 6"):
        await made.embed(["b"])
    await made.close()


async def test_bounded_concurrency(server):
    """Requests run side by side, but no more than `concurrency` of them."""
    made = OpenAIEmbedder("m", base_url=server.url, batch_size=1, concurrency=3)
    server.gate = asyncio.Event()
    calls = [asyncio.create_task(made.embed([f"text {n}" for n in range(5)])) for _ in range(2)]
    while server.at_once < 3:
        await asyncio.sleep(0)
    server.gate.set()
    await asyncio.gather(*calls)
    assert server.most_at_once == 3
    assert len(server.requests) == 10
    await made.close()


async def test_a_failure_ends_the_other_requests(server):
    """One refused batch fails the call at once, and nothing of it goes on in the background."""
    made = OpenAIEmbedder("m", base_url=server.url, batch_size=1)
    server.script += [REFUSED, never, never, never]
    before = asyncio.all_tasks()
    with pytest.raises(ModelError):
        await made.embed(["a", "b", "c", "d"])
    assert not [task for task in asyncio.all_tasks() - before if "_ask" in repr(task)]
    await made.close()


async def test_long_and_empty_texts(server):
    """What the endpoint would refuse is cut or padded, so that it cannot fail its neighbours."""
    made = OpenAIEmbedder("m", base_url=server.url, max_tokens=10)
    await made.embed(["", "x" * 1000, "记" * 1000, "\ud800"])
    sent = server.requests[0]["input"]
    assert sorted(sent, key=len) == sorted([" ", "x" * 20, "记" * 6, "?"], key=len)
    await made.close()


async def test_families_have_prefixes_here_too(server):
    """A server of e5 adds none by itself; an override changes what is sent, and the space's name."""
    made = OpenAIEmbedder("intfloat/multilingual-e5-small", base_url=server.url)
    await made.embed(["a"], asking=True)
    await made.embed(["b"])
    plain = OpenAIEmbedder(
        "intfloat/multilingual-e5-small", base_url=server.url, passage_prefix="", query_prefix=""
    )
    await plain.embed(["c"])
    assert [request["input"] for request in server.requests] == [["query: a"], ["passage: b"], ["c"]]
    assert plain.name != made.name == "openai:intfloat/multilingual-e5-small"
    await made.close()
    await plain.close()


async def test_the_key_is_nowhere(server):
    """Not in names, reprs, errors or their causes, even when the server repeats it."""

    async def indiscreet(body):
        said = f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}'
        return http("401 Unauthorized", said.encode())

    made = open_embedder(f"openai:m?api_key={KEY}&base_url={server.url}")
    server.script.append(indiscreet)
    with pytest.raises(ModelError, match="Incorrect API key provided: …") as caught:
        await made.embed(["hello"])
    shown = "".join(traceback.format_exception(caught.value))
    cause = caught.value.__cause__
    for said in (repr(made), made.name, shown, repr(cause), str(cause), str(cause.body), repr(Cached(made))):
        assert KEY not in said
    await made.close()


def test_a_key_that_cannot_be_one():
    """It is refused before any header is made of it, and not shown."""
    for key in (f"{KEY}\nX", f"{KEY}é"):
        with pytest.raises(ConfigError) as caught:
            OpenAIEmbedder("m", api_key=key)
        assert KEY not in str(caught.value)


def test_no_key():
    """OpenAI itself needs one; the error says where it comes from."""
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        open_embedder("openai:text-embedding-3-small")


async def test_the_environment(server, monkeypatch):
    """Key and address come from where the openai package takes them."""
    monkeypatch.setenv("OPENAI_API_KEY", f"  {KEY}\n")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    made = open_embedder("openai:text-embedding-3-small")
    await made.embed(["hello"])
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    await made.close()


async def test_a_client_handed_in_stays_open(server):
    """Whoever opened it closes it."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="k", base_url=server.url) as client:
        made = OpenAIEmbedder("m", client=client)
        await made.embed(["hello"])
        await made.close()
        assert not client.is_closed()


async def test_closed(server, embedder):
    """Used after close it says so; closing twice is fine."""
    await embedder.embed(["hello"])
    await embedder.close()
    await embedder.close()
    with pytest.raises(ModelError, match="closed"):
        await embedder.embed(["hello"])


def test_one_embedder_in_two_event_loops():
    """A second asyncio.run() gets connections of its own."""
    made = OpenAIEmbedder("m", base_url="set below", api_key="k")

    async def once():
        async with endpoint() as running:
            made._server.base_url = running.url
            found = await made.embed(["hello"])
            await made._server._made[1].close()  # else its sockets would be left to the garbage collector
            return found

    assert asyncio.run(once()) == asyncio.run(once())


async def test_reads(embedder):
    """Everything, unless languages are given."""
    assert embedder.reads("我喜欢猫")
    english = OpenAIEmbedder("m", api_key="k", languages=["en"])
    assert english.reads("cats")
    assert not english.reads("我喜欢猫")
