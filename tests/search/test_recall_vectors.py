"""Vectors beside words: they add what words cannot find, are trusted as far as they agree, and may fail."""

import logging
import random

import pytest

from memories import Recall, ids, inside, keep, naming, near, note
from octavo import ModelError, Scope, StoreUnavailable
from octavo.errors import StoreError
from octavo.search.candidates import NEAREST
from octavo.search.hits import ABSENT


def crowd(home: Scope, many: int = 120):
    """Records of which some speak about rivers, more or less, and most do not."""
    draw = random.Random(5)
    words = ("lamp", "desk", "chair", "window", "carpet", "shelf", "mirror", "ladder", "bucket", "towel")
    records = []
    for n in range(many):
        said = draw.sample(words, 4)
        if n % 6 == 0:
            said.insert(n % 4, "river " * (1 + n % 5))
        if n % 12 == 0:
            said.append("bridge")
        records.append(note(home, f"n{n}", " ".join(said), minutes=n))
    return records


async def test_found_by_meaning(store, home):
    """A record that shares no word with the question is found when the vectors name it, in the order of its cosine."""
    fox, owl, elk = (
        note(home, name, text) for name, text in {"fox": "vulpine", "owl": "strix", "elk": "alces"}.items()
    )
    await keep(store, fox, owl, elk)
    naming(store, near(owl, 0.9), near(fox, 0.8), near(elk, 0.7))
    hits = await Recall(store).recall("which animals?", home, explain=True)
    assert ids(hits) == ["owl", "fox", "elk"]
    assert hits.trust == 1
    assert [{s.name: s for s in hit.signals}["vector"].rank for hit in hits[:2]] == [1, 2]
    assert all(hit.terms == () for hit in hits)


async def test_words_and_meaning_together(store, home):
    """Who is named by both stands before who is named by one, and each is returned once."""
    both, words, meaning = (
        note(home, "both", "the fox den"),
        note(home, "words", "a fox trot", minutes=1),
        note(home, "meaning", "vulpine burrow"),
    )
    await keep(store, both, words, meaning, note(home, "none", "table"))
    naming(store, near(both, 0.9), near(meaning, 0.85), near(words, 0.2))
    assert ids(await Recall(store).recall("fox", home)) == ["both", "words", "meaning"]


async def test_what_is_asked_of_an_index(in_memory, home):
    """The question without small talk, within the scope and the collections, and no more than are looked at; nothing for nothing."""
    asked = []

    async def resembling(*given):
        asked.append(given)
        return []

    in_memory.resembling = resembling
    recall, scope = Recall(in_memory), inside(home, user="me")
    await recall.recall("It rained. Where is the red fox?", scope, collections=["profile", "messages"])
    assert asked == [("Where is the red fox?", scope, ["profile", "messages"], NEAREST)]
    for nothing in ("", " \n"):
        assert await recall.recall(nothing, scope) == []
    assert await recall.recall("fox", scope, 0) == []
    assert len(asked) == 1


BEGUN = "I came last at the sports meet and feel so bad about it. Did you try your best? "
ENDED = (
    "I did, but all the others were so much faster, and seeing them ahead of me only made me more nervous."
)


async def test_the_end_of_what_is_said_is_looked_for_too(in_memory, home):
    """A record is as near as it is to the nearer of all that was said and its end."""
    whole, both, end = (note(home, name, f"about {name}") for name in ("whole", "both", "end"))
    await keep(in_memory, whole, both, end)
    named = {BEGUN + ENDED: [near(whole, 0.8), near(both, 0.7)], ENDED: [near(end, 0.85), near(both, 0.75)]}

    async def resembling(text, *_):
        return named[text]

    in_memory.resembling = resembling
    hits = await Recall(in_memory).recall(BEGUN + ENDED, home)
    assert ids(hits) == ["end", "whole", "both"]


async def test_talk_brings_to_mind_what_has_other_words(store, home):
    """Where nothing is asked, what is nearest stands before what has some of the words; who asks wants these."""
    raft, boats = (
        note(home, "raft", "a raft on the canal"),
        note(home, "boats", "beaten by six boats", minutes=1),
    )
    others = [note(home, f"other{n}", f"a cupboard on the wall {n}", minutes=n + 9) for n in range(20)]
    await keep(store, raft, boats, *others)
    naming(store, near(boats, 0.88), near(raft, 0.7), *(near(o, 0.5 + n / 100) for n, o in enumerate(others)))
    recall = Recall(store)
    assert ids(await recall.recall(f"{BEGUN}{ENDED} So we took the canal.", home))[:2] == ["boats", "raft"]
    assert ids(await recall.recall(f"{ENDED} Who took the canal?", home))[:2] == ["raft", "boats"]


async def test_talk_has_no_later_answer(in_memory, home):
    """What goes on about the best hit may answer what is asked; where nothing is, vectors say what belongs to it."""
    first = note(home, "first", "a sports meet in Orkney")
    later = note(home, "later", "Orkney is off, we stay here", minutes=1)
    await keep(in_memory, first, later, note(home, "none", "a lamp", minutes=2))

    async def lifted(text: str) -> float:
        found = await Recall(in_memory).recall(text, home, explain=True)
        return next(signal.score for signal in found[1].signals if signal.name == "later")

    assert await lifted(BEGUN + ENDED) > 0  # words alone know no better
    naming(in_memory, near(first, 0.8), near(later, 0.6))
    assert await lifted("Where is the sports meet?") > 0
    assert await lifted(BEGUN + ENDED) == 0


@pytest.mark.parametrize("scale", [1.0, 0.2])
async def test_where_nothing_stands_out_there_is_probably_no_answer(in_memory, home, scale):
    """Whatever cosines a model is used to: the nearest must be nearer than all others, unless these are few."""
    records = crowd(home, 40)
    await keep(in_memory, *records)
    recall, question = Recall(in_memory), "Which ladder is the wooden one?"

    async def presence(lead: float, many: int = 40, asked: str = question) -> float:
        cosines = [0.5 + lead, *(0.5 - n / 1000 for n in range(1, many))]
        naming(in_memory, *(near(r, 1 - scale * (1 - c)) for r, c in zip(records, cosines, strict=False)))
        return (await recall.recall(asked, home)).presence

    words = await presence(0.3)
    assert await presence(0.2) == words > await presence(0.05) > await presence(0.0)
    assert await presence(0.0, many=20) == words
    talk = f"{question} I forgot. Is it this one or that one?"
    assert await presence(0.0, asked=talk) == await presence(0.3, asked=talk)
    assert (
        ABSENT
        > await presence(0.3, asked="Why is quantum chromodynamics so?")
        > await presence(0.0, asked="Why is quantum chromodynamics so?")
    )


async def test_noise_is_not_trusted(store, home):
    """Vectors that name none of what the words find change nothing that matters; named at random, they change little."""
    good = (
        "the old stone bridge over the river",
        "a stone bridge, and a river",
        "stone by stone the bridge fell",
    )
    records = [*crowd(home, 600), *(note(home, f"good{n}", text, minutes=-n) for n, text in enumerate(good))]
    await keep(store, *records)
    recall = Recall(store)
    words = ids(await recall.recall("Where is the stone bridge over the river?", home))
    assert set(words[:3]) == {"good0", "good1", "good2"}
    draw = random.Random(1)
    strangers = [record for record in records if "river" not in record.text]
    for named in (strangers, records):
        naming(store, *(near(record, draw.random()) for record in draw.sample(named, 100)))
        noisy = await recall.recall("Where is the stone bridge over the river?", home)
        assert ids(noisy)[:3] == words[:3]
        assert noisy.trust < 0.7
        assert named is records or noisy.trust == 0


async def test_agreement_is_trusted(store, home):
    """Vectors that name what the words find are believed, about the order of what is alike and about the rest."""
    records = crowd(home)
    stream = note(home, "stream", "the brook with a crossing", minutes=-5)
    await keep(store, *records, stream)
    recall, question = Recall(store), "the bridge over the river"
    words = ids(await recall.recall(question, home, 100))
    assert "stream" not in words
    by_name = {record.id: record for record in records}
    agreeing = [near(by_name[name], 0.9 - n / 100) for n, name in enumerate(words)]
    naming(store, near(stream, 0.95), *agreeing)
    hits = await recall.recall(question, home, 100)
    assert hits.trust == 1
    assert ids(hits)[0] == words[0]
    assert "stream" in ids(hits)
    second = words[1]
    naming(store, near(by_name[second], 0.99), *(n for n in agreeing if n.key.id != second))
    assert ids(await recall.recall(question, home))[0] == second


@pytest.mark.parametrize(
    "error", [ModelError("the model is out"), StoreUnavailable("no index"), StoreError("bad")]
)
async def test_words_answer_alone(store, home, error, caplog):
    """A model or an index that fails costs its opinion and nothing else; `notes` and the log say so."""
    await keep(store, note(home, "a", "red fox"), note(home, "b", "red owl"))
    recall = Recall(store)
    plain = await recall.recall("red fox", home)

    async def resembling(text, scope, collections, limit):
        raise error

    store.resembling = resembling
    with caplog.at_level(logging.WARNING, "octavo.search"):
        hits = await recall.recall("red fox", home, explain=True)
    assert (ids(hits), [hit.score for hit in hits]) == (ids(plain), [hit.score for hit in plain])
    assert hits.notes == (f"without vectors: {error}",)
    assert str(error) in caplog.text
    assert hits.trust == 0
    assert plain.notes == ()
    assert (await recall.context("red fox", home)).sources
    assert (await recall.why_not("b", "fox", home)).reason


async def test_a_store_that_fails_is_an_error(in_memory, home):
    """Memory that is down is never nothing found: where the words cannot be asked either, recall raises."""
    await keep(in_memory, note(home, "a", "red fox"))

    async def search(query, terms):
        raise StoreUnavailable("gone")

    in_memory.search = search
    with pytest.raises(StoreUnavailable):
        await Recall(in_memory).recall("fox", home)


async def test_a_bug_in_an_index_is_not_hidden(in_memory, home):
    """Only what may fail is forgiven."""

    async def resembling(text, scope, collections, limit):
        raise ZeroDivisionError

    in_memory.resembling = resembling
    with pytest.raises(ZeroDivisionError):
        await Recall(in_memory).recall("fox", home)


async def test_neighbours_share_in_meaning(in_memory, home):
    """What stands next to a record near in meaning is lifted, in the same session."""
    one, two = inside(home, session="one"), inside(home, session="two")
    named = note(one, "named", "vulpine")
    await keep(
        in_memory,
        named,
        note(one, "reply", "fox, yes", minutes=1, seq=2),
        note(two, "other", "fox, yes", minutes=1, seq=3),
    )
    plain = ids(await Recall(in_memory).recall("fox", home))
    assert plain == ["other", "reply"]
    naming(in_memory, near(named, 0.9), near(note(two, "other", "fox, yes"), 0.2))
    found = await Recall(in_memory).recall("fox", home, explain=True)
    vector = {hit.record.id: {s.name: s.score for s in hit.signals}["vector"] for hit in found}
    assert vector["reply"] > vector["other"] == 0
