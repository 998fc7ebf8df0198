"""Questions asked of real stores: what is scored, and what is left behind."""

import msgspec
import pytest

from octavo import Add, Query, Record, Scope, open_store
from octavo.errors import ModelError
from octavo.measure import Run, Trial, compare_runs, load, summary
from octavo.testing.embedding import HashEmbedder
from octavo.vectors import open_vectors
from octavo.wraps import Indexed
from questions import locomo, memdaily, written


@pytest.fixture
def conversations(tmp_path):
    return load(written(tmp_path / "locomo.json", locomo()))


@pytest.fixture
def trajectories(tmp_path):
    return load(written(tmp_path / "memdaily.json", memdaily()))


async def measure(store, data, **more):
    async with Trial(store, data, **more) as trial:
        await trial.write()
        await trial.embed()
        return await trial.ask()


async def test_sessions_and_turns_are_scored(conversations):
    """Every question is answered from its own conversation, by session and by turn."""
    async with open_store("memory://") as store:
        run = await measure(store, conversations)
    assert [asked.name for asked in run.asked] == ["baker/0", "baker/1", "baker/2", "baker/3", "glider/0"]
    fridays = run.asked[0]
    assert "D1:3" in fridays.found[:2]
    assert fridays.ranks in ((1,), (2,))
    assert fridays.found_sessions[0] == "session_1"
    assert fridays.scores == dict.fromkeys(["Hit@1", "R@5", "R@10", "R_all@10", "NDCG@5", "turn any@10"], 1)
    assert set(run.asked[-1].found) <= {"D1:1", "D10:1"}
    assert run.records == 7
    assert fridays.told_apart is True
    figures = summary(run)
    assert figures.scores["turn any@10"] == 1
    assert figures.by_category["4 single-hop"].questions == 2
    assert sum(each.questions for each in figures.by_category.values()) == figures.questions == 5
    assert 0 < figures.p50_ms <= figures.p95_ms


async def test_messages_alone_are_scored(trajectories):
    async with open_store("memory://") as store:
        run = await measure(store, trajectories)
    cousin = run.asked[0]
    assert set(cousin.found[:2]) == {"0", "1"}
    assert cousin.scores == {"R@5": 1, "R@10": 1, "any@10": 1}
    assert cousin.found_sessions == ()
    assert compare_runs(run, run).same_sessions is None


async def test_other_records_of_the_store_are_neither_found_nor_touched(conversations, tmp_path):
    """A store in use may be measured: afterwards it holds what it held."""
    mine = Record(collection="messages", scope=Scope(user="baker"), text="What does Ines sell on Fridays?")
    async with open_store(f"sqlite:///{tmp_path}/octavo.db") as store:
        await store.apply([Add([mine])])
        run = await measure(store, conversations)
        assert all(mine.id not in asked.found for asked in run.asked)
        assert [record.id for record in await store.find(Query(collection="messages"))] == [mine.id]
        assert await store.tenants() == [""]


async def test_a_failed_run_leaves_nothing_behind_either(conversations):
    async with open_store("memory://") as store:
        with pytest.raises(RuntimeError, match="enough"):
            async with Trial(store, conversations) as trial:
                await trial.write()
                await trial.ask(on_answer=_stop)
        assert await store.tenants() == []


def _stop(asked):
    raise RuntimeError("enough")


async def test_only_what_is_asked_about_is_written(trajectories):
    """One question needs its own talk and one other, not the whole file."""
    more = [msgspec.structs.replace(trajectories.talks[0], user=f"u{n}") for n in range(20)]
    many = msgspec.structs.replace(trajectories, talks=tuple(more))
    async with open_store("memory://") as store:
        assert (await measure(store, many)).records == 60
        assert (await measure(store, many.some(1, seed=3))).records == 6


async def test_a_single_talk_has_no_other_to_be_told_apart_from(trajectories):
    alone = msgspec.structs.replace(trajectories, talks=trajectories.talks[:1])
    async with open_store("memory://") as store:
        run = await measure(store, alone)
    assert run.asked[0].told_apart is None
    assert summary(run).told_apart is None


async def test_progress_counts_to_the_end(conversations):
    told = []
    async with open_store("memory://") as store, Trial(store, conversations) as trial:
        await trial.write(lambda done, total: told.append(("wrote", done, total)))
        await trial.ask(lambda done, total: told.append(("asked", done, total)))
    assert told == [("wrote", 7, 7), *(("asked", n, 5) for n in range(1, 6))]


async def test_with_vectors(conversations):
    """Every record has its vector before the first question, and nothing of the upkeep stays behind."""
    async with open_vectors("memory://") as index, open_store("memory://") as inner:
        async with Indexed(inner, index, HashEmbedder(), owned=False) as store:
            async with Trial(store, conversations) as trial:
                await trial.write()
                await trial.embed()
                [space] = await index.spaces()
                assert space.entries == 7
                run = await trial.ask()
            assert run.notes == {}
            [space] = await index.spaces()
            assert space.entries == 0
        assert await inner.tenants() == []


class Broken(HashEmbedder):
    """A model that cannot be reached."""

    async def embed(self, texts, *, asking=False):
        raise ModelError("nobody answers")


async def test_a_model_that_fails_ends_the_run(conversations):
    """Figures without vectors must not be taken for figures with them; nothing is left for a next process to do."""
    async with open_vectors("memory://") as index, open_store("memory://") as inner:
        with pytest.raises(ModelError, match="nobody answers"):
            async with Indexed(inner, index, Broken(), owned=False) as store:
                await measure(store, conversations)
        assert await inner.tenants() == []


async def test_two_stores_answer_alike(conversations, tmp_path):
    """The same tenant on both: it takes part in the order of records that are alike."""
    runs = []
    for url in ("memory://", f"sqlite:///{tmp_path}/octavo.db"):
        async with open_store(url) as store:
            runs.append(await measure(store, conversations, tenant="t"))
    likeness = compare_runs(*runs)
    assert (likeness.same, likeness.same_sessions, likeness.differing) == (1, 1, [])


async def test_stores_that_differ_are_told_apart(conversations):
    """Order counts: the same hits otherwise ordered are another answer."""
    async with open_store("memory://") as store:
        run = await measure(store, conversations)
    turned = [
        asked.__class__(
            **{f: getattr(asked, f) for f in asked.__struct_fields__} | {"found": asked.found[::-1]}
        )
        if len(asked.found) > 1 and asked.name == "baker/3"
        else asked
        for asked in run.asked
    ]
    other = Run(asked=turned, records=7, write_seconds=0.0, first_answer_seconds=0.0, notes={})
    likeness = compare_runs(run, other)
    assert likeness.same == pytest.approx(0.8)
    assert likeness.same_sessions == 1
    assert likeness.differing == ["baker/3"]
