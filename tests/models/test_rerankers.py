"""Re-rankers: what is asked of a real server, what becomes of every bad answer, and a cross-encoder on this machine."""

import asyncio
import sys
import traceback

import pytest
from cross_encoder import make_cross_encoder

from model_endpoint import BROKEN, GARBAGE, HUNG_UP, OTHER_JSON, REFUSED, TOO_BUSY, http
from octavo import ConfigError, ModelError
from octavo.models.rerankers import LocalReranker, ServerReranker, open_reranker
from rerank_endpoint import endpoint, no_numbers, not_finite, strangers, too_few

KEY = "rk-very-secret-0123456789"
TEXTS = ["rent is due", "the cat sat on the mat", "a cat"]


@pytest.fixture
async def server():
    async with endpoint() as running:
        yield running


@pytest.fixture
async def reranker(server):
    made = open_reranker("openai:words", base_url=server.url, api_key=KEY)
    yield made
    await made.close()


async def test_scores_are_in_the_order_of_the_texts(server, reranker):
    """A server answers the best one first; whoever asks wants a score for each text."""
    assert await reranker.score("where sat the cat", TEXTS) == [0, 3, 1]
    assert server.requests == [
        {"model": "words", "query": "where sat the cat", "documents": TEXTS, "top_n": 3}
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


IMPORTS = """
import asyncio, sys, threading
from octavo.models.rerankers import open_reranker

class Watch:
    def find_spec(name, path=None, target=None):
        if name == "openai":
            print("beside" if threading.current_thread() is not threading.main_thread() else "in the loop")

reranker = open_reranker("openai:words", base_url="http://127.0.0.1:9")
sys.meta_path.insert(0, Watch)
try:
    asyncio.run(reranker.score("cat", ["cat"]))
except Exception as error:
    print(type(error).__name__)
"""


async def test_the_package_is_imported_beside_the_event_loop():
    """It takes most of a second, and everybody else would stand still."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", IMPORTS, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.decode().split() == ["beside", "ModelError"]


async def test_long_texts_are_cut_and_half_a_character_is_replaced(server, reranker):
    await reranker.score("q\ud800", ["x" * 100_000, "b"])
    sent = server.requests[0]
    assert [len(text) for text in sent["documents"]] == [2000, 1]
    assert sent["query"] == "q?"


@pytest.mark.parametrize(
    "step",
    [
        too_few, strangers, no_numbers, not_finite, BROKEN, TOO_BUSY, REFUSED, GARBAGE, OTHER_JSON, HUNG_UP,
        http("200 OK", b"[1, 2]"), http("200 OK", b'{"results": ['),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_a_model_error(server, reranker, step):
    server.script.append(step)
    with pytest.raises(ModelError, match="the re-ranker 'openai:words' at http://127"):
        await reranker.score("cat", TEXTS)
    assert await reranker.score("cat", TEXTS) == [0, 1, 1]


async def test_the_key_is_nowhere(server, reranker):
    """Some servers repeat the key they refuse."""
    server.script.append(http("401 Unauthorized", f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()))
    with pytest.raises(ModelError) as caught:
        await reranker.score("cat", TEXTS)
    told = "".join(traceback.format_exception(caught.value)) + repr(reranker) + reranker.name
    assert KEY not in told


async def test_a_key_for_openai_is_sent_to_nobody_else(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    reranker = ServerReranker("words", base_url=server.url)
    await reranker.score("cat", TEXTS)
    await reranker.close()
    assert KEY not in str(server.headers)


async def test_closed(reranker):
    await reranker.close()
    await reranker.close()
    with pytest.raises(ModelError, match="was closed"):
        await reranker.score("cat", TEXTS)


@pytest.mark.parametrize("spec", ["", "none", "jina", "openai:", "fastembed:", f"{KEY * 3}:x"])
def test_unknown_specs(spec):
    with pytest.raises(ConfigError, match="unknown re-ranker") as caught:
        open_reranker(spec, base_url="http://127.0.0.1:1/v1")
    assert KEY not in str(caught.value)


def test_a_server_needs_an_address(monkeypatch):
    """Also where OPENAI_BASE_URL names one: it is another server, for another purpose."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="needs base_url"):
        open_reranker("openai:words")


async def test_a_cross_encoder_in_a_folder(tmp_path):
    """Question and text reach the graph as a pair; of what the question has, [SEP] is in every text."""
    reranker = open_reranker(f"fastembed:{make_cross_encoder(tmp_path / 'shared')}")
    assert await reranker.score("where does the cat sit", TEXTS) == [1, 4, 2]
    assert await reranker.score("rent", [*TEXTS] * 10) == [2, 1, 1] * 10
    await reranker.close()
    await reranker.close()
    with pytest.raises(ModelError, match="was closed"):
        await reranker.score("rent", TEXTS)


async def test_an_embedder_is_no_cross_encoder(model_dir):
    reranker = LocalReranker(str(model_dir))
    with pytest.raises(ModelError, match="it scores no pairs of texts"):
        await reranker.score("cat", TEXTS)
    await reranker.close()


async def test_a_name_that_fastembed_does_not_know():
    reranker = open_reranker("fastembed:nobody/nothing")
    with pytest.raises(ModelError, match="fastembed has no re-ranker 'nobody/nothing'"):
        await reranker.score("cat", TEXTS)
    await reranker.close()


def test_no_such_folder():
    with pytest.raises(ConfigError, match="there is no folder"):
        open_reranker("fastembed:./nowhere")
