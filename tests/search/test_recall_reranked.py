"""A second model reads the best hits once more: it orders them, explains itself, and may fail without harm."""

import logging

import pytest

import octavo
from memories import Recall, ids, keep, note
from model_endpoint import BROKEN, never
from octavo import Scope
from octavo.models.rerankers import open_reranker
from octavo.wraps import Deduped, Journal, Metered
from octavo.wraps.reranked import Reranked
from rerank_endpoint import endpoint, reversed_order

QUESTION = "is the river bridge open"


@pytest.fixture
async def server():
    async with endpoint() as running:
        yield running


@pytest.fixture
async def reranked(in_memory, server):
    """A store whose hits that server reads once more."""
    made = Reranked(in_memory, open_reranker("openai:words", base_url=server.url), top=4, timeout=60)
    yield made
    await made._model.close()


@pytest.fixture
def loud(monkeypatch):
    """What the second model says outweighs all else."""
    monkeypatch.setattr("octavo.search.recall.RERANK", 100.0)


async def remember(store, home: Scope) -> None:
    """Six notes that all speak of the river."""
    texts = ("river bridge", "river boat", "river bank", "river flood", "river trip", "river fish")
    await keep(store, *(note(home, f"n{n}", text, minutes=n) for n, text in enumerate(texts)))


def signals(hit) -> dict:
    return {signal.name: signal for signal in hit.signals}


@pytest.mark.usefixtures("loud")
async def test_the_best_are_read_and_put_in_order(in_memory, reranked, server, home):
    """A model that says the opposite changes the order of the first four, and of no others."""
    await remember(in_memory, home)
    before = await Recall(in_memory).recall("river", home, limit=6)
    server.script.append(reversed_order)
    after = await Recall(reranked).recall("river", home, limit=6, explain=True)
    assert ids(before) == ["n5", "n4", "n3", "n2", "n1", "n0"]
    assert ids(after) == ["n2", "n3", "n4", "n5", "n1", "n0"]
    assert server.requests[0]["query"] == "river"
    assert server.requests[0]["documents"] == [hit.record.text for hit in before[:4]]
    assert [signals(hit)["rerank"].rank for hit in after] == [1, 2, 3, 4, 0, 0]
    assert signals(after[0])["rerank"].score == 3
    assert after.stages["rerank"] > 0
    assert [hit.score for hit in after] == [hit.score for hit in before], "each place keeps its score"
    assert after.notes == ()


@pytest.mark.usefixtures("loud")
async def test_it_reads_more_than_is_asked_for(reranked, server, home):
    """With a limit of one, what stood fourth can be the answer."""
    await remember(reranked, home)
    server.script.append(reversed_order)
    hits = await Recall(reranked).recall("river", home, limit=1)
    assert ids(hits) == ["n2"]
    assert hits.left_out == 0


async def test_what_does_not_fit_is_counted_once(reranked, home):
    await remember(reranked, home)
    for limit, room in ((1, 10), (3, 10), (3, 24), (6, 24), (6, 10_000)):
        plain = await Recall(reranked.inner).recall("river", home, limit, max_bytes=room)
        hits = await Recall(reranked).recall("river", home, limit, max_bytes=room)
        assert (len(hits), hits.left_out) == (len(plain), plain.left_out)


@pytest.mark.parametrize("step", [BROKEN, never])
async def test_a_failure_leaves_the_order_as_it_was(in_memory, server, home, caplog, step):
    """It is logged once, the answer says so, and the next questions do not wait for it; nothing is raised."""
    await remember(in_memory, home)
    before = await Recall(in_memory).recall(QUESTION, home, explain=True)
    server.otherwise = step
    model = open_reranker("openai:words", base_url=server.url)
    store = Reranked(in_memory, model, top=4, timeout=60 if step is BROKEN else 0.2)
    with caplog.at_level(logging.WARNING, "octavo.search"):
        for _ in range(3):
            after = await Recall(store).recall(QUESTION, home, explain=True)
            assert ids(after) == ids(before)
            assert [hit.score for hit in after] == [hit.score for hit in before]
            assert after.notes[0].startswith("without re-ranking: the re-ranker 'openai:words'")
            assert "rerank" not in signals(after[0])
    assert len(server.requests) <= 1, "none where its client was not loaded in time"
    assert [one.message.partition(":")[0] for one in caplog.records] == ["recall goes on without re-ranking"]
    await model.close()


async def test_it_is_asked_again_after_a_while(in_memory, server, home, caplog, monkeypatch):
    await remember(in_memory, home)
    monkeypatch.setattr("octavo.wraps.reranked._PAUSE_SECONDS", 0.0)
    model = open_reranker("openai:words", base_url=server.url)
    recall = Recall(Reranked(in_memory, model, timeout=60))
    server.script += [BROKEN, BROKEN]
    with caplog.at_level(logging.WARNING, "octavo.search"):
        notes = [bool((await recall.recall(QUESTION, home)).notes) for _ in range(3)]
        server.script.append(BROKEN)
        await recall.recall(QUESTION, home)
    assert notes == [True, True, False]
    assert len(caplog.records) == 2, "once for each time that it begins to fail"
    await model.close()


async def test_its_opinion_is_one_beside_ours(reranked, server, home):
    """Where it finds all alike, the order is what it was; where we do, the order is its own."""
    await keep(reranked, *(note(home, name, "river", minutes=0) for name in ("a", "b", "c")))
    server.script.append(reversed_order)
    own = ids(await Recall(reranked.inner).recall("river", home))
    assert ids(await Recall(reranked).recall("river", home)) == own[::-1]
    assert ids(await Recall(reranked).recall("river", home)) == own


async def test_absence_is_what_it_was(in_memory, reranked, server, home):
    """A model that likes everything does not make an answer of it."""
    await remember(in_memory, home)
    for question in ("how many moons does neptune have?", "is there a fish in the river?"):
        plain = await Recall(in_memory).recall(question, home)
        read = await Recall(reranked).recall(question, home)
        assert (read.presence, read.probably_absent) == (plain.presence, plain.probably_absent)
    assert len(server.requests) == 1, "of nothing found nothing is read"


async def test_not_asked_where_there_is_nothing_to_order(reranked, server, home):
    await keep(reranked, note(home, "only", "river"))
    recall = Recall(reranked)
    await recall.recall("river", home)
    await recall.recall("river", home, limit=0)
    await keep(reranked, note(home, "other", "river", minutes=1))
    await recall.recall("what do you know about me?", home)
    await recall.recall("river", home, rerank=False)
    await recall.sessions("river", home)
    assert server.requests == []
    await recall.recall("river", home)
    assert len(server.requests) == 1


@pytest.mark.usefixtures("loud")
async def test_why_not_counts_by_the_same_order(reranked, server, home):
    await remember(reranked, home)
    server.otherwise = reversed_order
    told = await Recall(reranked).why_not("n2", "river", home)
    assert (told.rank, told.reason) == (1, "it is number 1 of 6 candidates")
    assert signals(told.hit)["rerank"].rank == 1


async def test_writing_asks_nothing(reranked, server):
    """Extraction compares with what is known, without the second model: nobody who writes waits for it."""
    memory = octavo.AsyncMemory(reranked)
    for said in ("I live in Berlin.", "I work as a nurse.", "I moved from Berlin to Lisbon."):
        await memory.add(said, user_id="lin")
    assert server.requests == []
    hits = await memory.search("Where do I live?", user_id="lin")
    assert len(server.requests) == 1
    assert "number 1 when read again" in {reason for hit in hits for reason in hit.why.split("; ")}


async def test_through_every_wrap(in_memory, server, home, tmp_path):
    """Whatever stands around it, the model is asked; and with the outermost all is closed."""
    model = open_reranker("openai:words", base_url=server.url)
    store = Metered(Journal(Deduped(Reranked(in_memory, model, timeout=60)), tmp_path / "queue"))
    async with store:
        await remember(store, home)
        assert ids(await Recall(store).recall(QUESTION, home))[0] == "n0"
        assert len(server.requests) == 1
    assert model._server.closed
