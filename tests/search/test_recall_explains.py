"""Why a record was found, why another was not, and whether memory holds an answer at all."""

from datetime import timedelta

import msgspec
import pytest
from generated import memory, questions

from memories import NOON, Clock, Recall, ids, inside, keep, naming, near, note, talk
from octavo import NotFound, Scope, new_id
from octavo.kernel.ids import now
from octavo.kernel.terms.matches import MOST

SIGNALS = ("terms", "session", "vector", "time", "recency", "alike", "later")


async def test_matched_terms(store, home):
    """Each hit says which of the question's terms it holds, in the order they were asked."""
    await keep(
        store,
        note(home, "a", "We painted the boats blue"),
        note(home, "b", "蓝色的船，blue boats", minutes=1),
    )
    hits = await Recall(store).recall("Which boats did you paint blue? 船", home, explain=True)
    assert {hit.record.id: hit.terms for hit in hits} == {
        "a": ("boat", "paint", "blue"),
        "b": ("boat", "blue", "船"),
    }


async def test_signals_agree_with_the_order(store, home):
    """Scores fall from hit to hit; by each signal, a rank counts those with a better score; 0 is not in it."""
    await keep(store, *memory(home, 150, 8))
    recall = Recall(store)
    for question in (*questions(10), "tomatoes in June 2025", "番茄 2025年3月"):
        hits = await recall.recall(question, home, 1000, explain=True)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(tuple(signal.name for signal in hit.signals) == SIGNALS for hit in hits)
        for at in range(len(SIGNALS)):
            standing = [hit.signals[at] for hit in hits]
            assert all((signal.rank == 0) == (signal.score == 0) for signal in standing)
            inside = [signal.score for signal in standing if signal.score]
            for signal in standing:
                better = sum(score > signal.score for score in inside)
                # Candidates that say nothing of what is asked are ranked, and are no hits.
                assert signal.rank == 0 or signal.rank > better


async def test_signals_that_had_nothing_to_say(store, home):
    """Without vectors, named times or several sessions those signals are 0, and so is the trust in vectors."""
    await keep(store, note(home, "a", "red fox"), note(home, "b", "red owl"))
    hits = await Recall(store).recall("red fox", home, explain=True)
    for hit in hits:
        by_name = {signal.name: signal for signal in hit.signals}
        assert by_name["terms"].score > 0
        for name in ("session", "vector", "time"):
            assert (by_name[name].score, by_name[name].rank) == (0, 0)
    assert hits.trust == 0
    assert ids(hits) == ["a", "b"]


async def test_stages(store, home):
    """With `explain` the time of each stage is told in milliseconds; without it nothing is."""
    kept = note(home, "a", "red fox")
    await keep(store, kept)
    plain = await Recall(store).recall("fox", home)
    assert plain.stages == {}
    explained = await Recall(store).recall("fox", home, explain=True)
    assert {"terms", "rank", "load", "total"} <= set(explained.stages)
    assert all(spent >= 0 for spent in explained.stages.values())
    assert explained.stages["total"] >= explained.stages["rank"] + explained.stages["load"]
    assert (ids(plain), [h.score for h in plain]) == (ids(explained), [h.score for h in explained])
    naming(store, near(kept, 0.9))
    assert "vectors" in (await Recall(store).recall("fox", home, explain=True)).stages


async def test_why_not_absent(store, home):
    """An id that is not kept in this scope and these collections is NotFound, which says where was looked."""
    await keep(store, note(inside(home, user="me"), "a", "red fox"))
    recall = Recall(store)
    for id_, scope, filters in (
        ("nobody", home, {}),
        ("a", inside(home, user="you"), {}),
        ("a", Scope(tenant=new_id()), {}),
        ("a", home, {"collections": ["profile", "episodes"]}),
        ("", home, {}),
        ("nul\0", home, {}),
    ):
        with pytest.raises(NotFound) as refused:
            await recall.why_not(id_, "fox", scope, **filters)
        assert repr(id_) in str(refused.value)
        assert ", ".join(filters.get("collections", ["messages"])) in str(refused.value)


async def test_why_not_filtered(store, home):
    """The reason names each filter that keeps the record out, and no other."""
    await keep(store, note(home, "a", "red fox", kind="draft", marks=("m",), metadata={"v": 1}))
    recall = Recall(store)
    for name, value in (
        ("kinds", ["final"]),
        ("marks", ["other"]),
        ("without", ["m"]),
        ("where", {"v": 2}),
        ("since", NOON + timedelta(days=1)),
        ("until", NOON),
    ):
        answer = await recall.why_not("a", "fox", home, **{"kinds": ["draft"], "marks": ["m"], name: value})
        assert answer.reason.startswith("it is filtered out: ")
        assert f"{name}=" in answer.reason
        assert "; " not in answer.reason
        assert (answer.rank, answer.hit) == (None, None)
    two = await recall.why_not("a", "fox", home, kinds=["final"], without=["m"])
    assert "kinds=('final',); without=('m',)" in two.reason


async def test_why_not_expired(store, home):
    """An expired record says since when."""
    clock = Clock(now())
    end = clock.at + timedelta(hours=1)
    await keep(store, note(home, "a", "red fox", expires_at=end))
    clock.at = end
    answer = await Recall(store, clock).why_not("a", "fox", home)
    assert "expired" in answer.reason
    assert f"{end:%Y-%m-%d %H:%M:%S}" in answer.reason


async def test_why_not_nothing_shared(store, home):
    """A record that shares no term says so, with the terms it lacks."""
    await keep(store, note(home, "a", "red fox"), note(home, "b", "grey zeppelin"))
    answer = await Recall(store).why_not("a", "Where is the zeppelin?", home)
    assert answer.reason.startswith("it shares no term")
    assert (answer.rank, answer.shared, answer.lacking) == (None, (), ("zeppelin",))


async def test_why_not_below_the_limit(store, home):
    """A candidate has its rank, also below the limit, with the terms it shares and lacks and all its signals."""
    await keep(
        store, *(note(home, f"n{n}", "red fox", minutes=n) for n in range(15)), note(home, "a", "fox trot")
    )
    recall = Recall(store)
    order = ids(await recall.recall("red fox", home, 1000))
    for limit in (0, 1, 10, 100):
        for id_ in ("a", "n14", "n3"):
            answer = await recall.why_not(id_, "red fox", home, limit)
            assert answer.rank == order.index(id_) + 1
            assert answer.of == 16
            assert f"number {answer.rank} of 16" in answer.reason
            assert (f"the limit is {limit}" in answer.reason) == (answer.rank > limit)
            assert tuple(signal.name for signal in answer.hit.signals) == SIGNALS
    answer = await recall.why_not("a", "red fox", home)
    assert (answer.shared, answer.lacking) == (("fox",), ("red",))


async def test_why_not_agrees_with_recall(store, home):
    """Also where the record's importance moves it: the rank is its place, and below the limit it is not a hit."""
    await keep(
        store,
        *(note(home, f"n{n}", "red fox", minutes=n) for n in range(8)),
        note(home, "low", "red fox", minutes=9, metadata={"importance": 0}),
        note(home, "high", "red fox", minutes=-9, metadata={"importance": 1}),
    )
    recall = Recall(store)
    for limit in (1, 3, 9, 10):
        hits = await recall.recall("red fox", home, limit)
        for id_ in ("low", "high", "n0", "n7"):
            answer = await recall.why_not(id_, "red fox", home, limit)
            assert (answer.rank <= limit) == (id_ in ids(hits)), (id_, limit)
            if answer.rank <= limit:
                assert hits[answer.rank - 1].record.id == id_
                assert hits[answer.rank - 1].score == answer.hit.score


async def test_why_not_too_common(in_memory, home):
    """Where more records hold the terms than are looked at, an old one says that its terms are too common."""
    await keep(in_memory, *(note(home, f"n{n}", "red fox", minutes=n) for n in range(MOST + 5)))
    answer = await Recall(in_memory).why_not("n0", "red fox", home)
    assert f"not among the {MOST} records" in answer.reason
    assert (answer.rank, answer.shared, answer.lacking) == (None, ("red", "fox"), ())


async def test_why_not_by_meaning_only(in_memory, home):
    """A record that only the vectors named is a candidate like others."""
    kept = note(home, "a", "vulpine")
    await keep(in_memory, kept)
    naming(in_memory, near(kept, 0.8))
    answer = await Recall(in_memory).why_not("a", "fox", home)
    assert (answer.rank, answer.of, answer.shared) == (1, 1, ())


UNRELATED = (
    "What is the boiling point of mercury in kelvin?",
    "Which theorem did Noether prove about symmetries?",
    "How many moons orbit Neptune?",
    "Does the warranty include hydraulic pumps?",
    "Who composed the anthem of Uruguay?",
    "explain photosynthesis chloroplast membranes",
    "水星表面的温度有多高？",
    "量子纠缠是怎么被证明的？",
    "海王星有几颗卫星",
    "液压泵保修条款包括哪些内容？",
    "蒙古帝国的首都叫哈拉和林吗？",
    "怎样计算矩阵的特征值",
)


async def test_probably_absent(store, home):
    """In a memory of hundreds of records: seldom said of what is there, and of half of what has nothing to do with it."""
    records = memory(home, 300, 12)
    await keep(store, *records)
    recall = Recall(store)
    for record in records[::9]:
        answer = await recall.recall(record.text, home)
        assert not answer.probably_absent, (record.text, answer.presence)
    asked = questions(60)
    missed = [q for q in asked if (await recall.recall(q, home)).probably_absent]
    assert len(missed) <= len(asked) // 6, missed  # some ask for a price that nobody told
    wrong = {
        q: answer.presence for q in UNRELATED if not (answer := await recall.recall(q, home)).probably_absent
    }
    assert len(wrong) <= len(UNRELATED) // 2, wrong


async def test_presence_is_of_the_memory_asked(store, home):
    """What another scope holds, or a filter takes away, is absent here."""
    await keep(
        store,
        *talk(inside(home, user="me"), "s", "The spare key is under the blue pot", "Thanks for telling me"),
    )
    recall = Recall(store)
    question = "Is the spare key under the blue pot?"
    assert not (await recall.recall(question, inside(home, user="me"))).probably_absent
    assert (await recall.recall(question, inside(home, user="you"))).probably_absent
    assert (await recall.recall(question, home, layer="profile")).presence == 0


async def test_answers_are_values(in_memory, home):
    """A hit is a value that can be sent on as JSON."""
    await keep(in_memory, note(home, "a", "red fox"))
    [hit] = await Recall(in_memory).recall("fox", home, explain=True)
    assert msgspec.json.decode(msgspec.json.encode(hit))["record"]["text"] == "red fox"
