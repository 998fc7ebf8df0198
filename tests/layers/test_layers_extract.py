"""From a text to memories: the text is kept first, each fact is decided against what is known, all in one write."""

import asyncio

import pytest
from layers_kit import START, Scripted, agree, fact

from octavo import Conflict, ModelError, Query, Scope, StoreUnavailable, open_store
from octavo.layers import LayeredMemory
from octavo.layers.extracting import SOURCES
from octavo.wraps import Wrap
from serving import Faulty

LIN = {"user_id": "lin"}
TEXT = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"


async def observed(memory):
    found = await memory.store.find(Query(collection="observations", scope=Scope(tenant=memory.tenant)))
    return {record.id: record.text for record in found}


async def test_whose_a_text_is(memory):
    """What was extracted from belongs to whom the memories do, a user or an agent."""
    told = {}
    for owner in ({"user": "lin"}, {"agent": "lin"}, {"user": "ann"}):
        [[part, name]] = owner.items()
        told[part, name] = (await memory.extract(f"{part} {name}", **{f"{part}_id": name})).source_id
    for (part, name), source in told.items():
        whose = Scope(tenant=memory.tenant, **{part: name})
        assert [r.id for r in await memory.store.find(Query(collection="observations", scope=whose))] == [
            source
        ]


async def test_insert_update_ignore(memory, scripted, clock):
    """A text's facts are inserted, a changed one supersedes, a known one is ignored; each knows its sources and why."""
    at = clock.at
    scripted.script[TEXT] = [
        fact("用户是一名软件工程师", reason="提到了职业"),
        fact("用户毕业于北京大学", category="education", reason="提到了学历"),
        fact(
            "用户下午参加了技术分享会",
            layer="event",
            category="meeting",
            reason="提到了会议",
            happened_at=at,
            time_text="下午",
        ),
    ]
    made = await memory.extract(TEXT, **LIN, metadata={"via": "chat"})
    counts = (
        made.total_extracted,
        made.inserted,
        made.updated,
        made.ignored,
        made.profile_count,
        made.event_count,
    )
    assert counts == (3, 3, 0, 0, 2, 1)
    assert [one.reason for one in made.memories] == ["提到了职业", "提到了学历", "提到了会议"]
    assert await observed(memory) == {made.source_id: TEXT}
    job = await memory.get(made.memories[0].id)
    assert (job.sources, job.metadata, job.is_permanent) == ((made.source_id,), {"via": "chat"}, True)
    [event] = await memory.events(**LIN)
    assert (event.happened_at, event.sources) == (at, (made.source_id,))
    [row] = await memory.logs(event.id)
    assert row.metadata == {"source_id": made.source_id, "time_text": "下午"}

    scripted.script["他现在是高级软件工程师，毕业于北京大学"] = [
        fact("用户是一名高级软件工程师", "update", target=job.id, reason="职级变了"),
        fact(
            "用户毕业于北京大学",
            "ignore",
            category="education",
            target=made.memories[1].id,
            reason="已经知道",
        ),
    ]
    again = await memory.extract("他现在是高级软件工程师，毕业于北京大学", **LIN)
    assert (again.inserted, again.updated, again.ignored) == (0, 1, 1)
    assert again.memories[0].supersedes == "用户是一名软件工程师"
    new = await memory.get(job.id)
    assert (new.content, new.version, new.sources) == (
        "用户是一名高级软件工程师",
        2,
        (made.source_id, again.source_id),
    )
    assert new.metadata == {"via": "chat"}
    [ignored] = await memory.logs(action="ignore")
    assert (ignored.memory_id, ignored.reason) == (made.memories[1].id, "已经知道")
    assert set(scripted.shown[-1]) == {
        "用户是一名软件工程师",
        "用户毕业于北京大学",
        "用户下午参加了技术分享会",
    }
    await agree(memory.store, memory.tenant)


async def test_no_fact(memory):
    """A text without a fact is kept all the same."""
    made = await memory.extract("嗯", **LIN)
    assert (made.total_extracted, made.memories) == (0, [])
    assert await observed(memory) == {made.source_id: "嗯"}


async def test_only_what_is_ones_own_is_known(memory, scripted):
    """An extractor is shown the owner's memories of both layers and nobody else's."""
    await memory.remember("tea", **LIN, layer="profile", category="value")
    await memory.remember("tea party", **LIN, category="event")
    await memory.remember("tea too", agent_id="lin", category="other")
    await memory.of(memory.tenant + "x").remember("tea", **LIN, category="other")
    await memory.extract("tea", **LIN)
    assert sorted(scripted.shown[-1]) == ["tea", "tea party"]


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_decisions_made_good(memory, scripted):
    """A target that is not there, a category of the other layer, a layer that is not the target's: nothing is lost."""
    job = await memory.remember("nurse", **LIN, layer="profile", category="career")
    scripted.script["x"] = [
        fact("a", "update", target="user_nobody_1.5"),
        fact("b", category="meeting"),
        fact("doctor", "update", layer="event", category="meeting", target=job.id),
        fact("c", "ignore", target="user_nobody_1.5"),
        fact("d", reason=" "),
        fact("  "),
    ]
    made = await memory.extract("x", **LIN)
    assert [(one.action, one.layer, one.category) for one in made.memories] == [
        ("insert", "profile", "career"),
        ("insert", "profile", "preference"),
        ("update", "profile", "career"),
        ("ignore", "profile", "career"),
        ("insert", "profile", "career"),
    ]
    assert made.memories[3].id == ""
    assert made.memories[4].reason == "Stored directly in the profile layer as career."
    scripted.script["y"] = [fact("doctor", "update", target=job.id)]
    assert [one.action for one in (await memory.extract("y", **LIN)).memories] == ["ignore"]
    scripted.script["w"] = [fact("doctor", "update", target=job.id, happened_at=START)]
    assert [one.action for one in (await memory.extract("w", **LIN)).memories] == ["update"]
    assert (await memory.get(job.id)).happened_at == START
    scripted.script["z"] = [fact("z", layer="moon")]
    with pytest.raises(ModelError, match="moon"):
        await memory.extract("z", **LIN)
    await agree(memory.store, memory.tenant)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_what_changes_every_day_does_not_grow(memory, scripted):
    """A memory names its newest sources; the log names every one."""
    job = await memory.remember("0", **LIN, layer="profile", category="career")
    told = []
    for n in range(SOURCES + 5):
        scripted.script[f"x{n}"] = [fact(f"job {n}", "update", target=job.id)]
        told.append((await memory.extract(f"x{n}", **LIN)).source_id)
    assert list((await memory.get(job.id)).sources) == told[-SOURCES:]
    assert [entry.metadata["source_id"] for entry in (await memory.history(job.id))[1:]] == told


async def test_one_memory_twice_in_one_text(memory, scripted):
    """Two facts of a text may change the same memory, one after the other."""
    job = await memory.remember("nurse", **LIN, layer="profile", category="career")
    scripted.script["x"] = [fact("doctor", "update", target=job.id), fact("surgeon", "update", target=job.id)]
    made = await memory.extract("x", **LIN)
    assert [(one.action, one.supersedes) for one in made.memories] == [
        ("update", "nurse"),
        ("update", "doctor"),
    ]
    assert ((await memory.get(job.id)).content, len(await memory.history(job.id))) == ("surgeon", 3)
    await agree(memory.store, memory.tenant)


async def test_equal_texts_at_once(memory, scripted):
    """Of many equal texts at once one inserts, and the others find what it made."""

    def once(known):
        same = [one.id for one in known if one.content == "tea"]
        return [fact("tea", "ignore", target=same[0])] if same else [fact("tea")]

    scripted.script["x"] = once
    made = await asyncio.gather(*(memory.extract("x", **LIN) for _ in range(8)))
    assert sum(one.inserted for one in made) == 1
    assert sum(one.ignored for one in made) == 7
    assert len(await memory.profile(**LIN)) == 1
    assert len(await observed(memory)) == 8


class Meddling(Wrap):
    """A store that lets somebody else in just before a write."""

    meddle = None

    async def apply(self, ops):
        if self.meddle is not None:
            await self.meddle(ops)
        return await self.inner.apply(ops)


async def test_decided_again(store, tenant, clock):
    """What somebody else came before is decided again, on what is there by then; the rest is not written twice."""
    direct = LayeredMemory(store, tenant=tenant, clock=clock)
    job = await direct.remember("nurse", **LIN, layer="profile", category="career")
    meddling = Meddling(store, owned=False)

    def superseding(known):
        return [fact("surgeon", "update", target=one.id) for one in known if one.id == job.id] or [
            fact("surgeon")
        ]

    extractor = Scripted(
        {"x": lambda known: [fact("likes tea"), *superseding(known)], "surgeon": superseding}
    )
    memory = LayeredMemory(meddling, tenant=tenant, clock=clock, extractor=extractor)
    times = iter(range(3))

    async def meddle(ops):
        if len(ops) > 1 and (n := next(times, None)) is not None:
            await direct.revise(job.id, content=f"doctor {n}")

    meddling.meddle = meddle
    made = await memory.extract("x", **LIN)
    assert [(one.action, one.supersedes) for one in made.memories] == [
        ("insert", None),
        ("update", "doctor 2"),
    ]
    assert sorted(one.content for one in await memory.profile(**LIN)) == ["likes tea", "surgeon"]
    await agree(store, tenant)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_the_target_goes_away(store, tenant, clock):
    """A fact whose memory somebody removes meanwhile is not lost, even if the extractor has nothing more to say."""
    direct = LayeredMemory(store, tenant=tenant, clock=clock)
    job = await direct.remember("nurse", **LIN, layer="profile", category="career")
    meddling = Meddling(store, owned=False)
    extractor = Scripted({"x": [fact("surgeon", "update", target=job.id)]})
    memory = LayeredMemory(meddling, tenant=tenant, clock=clock, extractor=extractor)

    async def meddle(ops):
        if len(ops) > 1:
            meddling.meddle = None
            await direct.forget(job.id)

    meddling.meddle = meddle
    assert [one.action for one in (await memory.extract("x", **LIN)).memories] == ["insert"]
    await agree(store, tenant)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_never_first(store, tenant, clock):
    """Whoever loses every race is told so, by name of what was not kept and of the text that is."""
    direct = LayeredMemory(store, tenant=tenant, clock=clock)
    job = await direct.remember("nurse", **LIN, layer="profile", category="career")
    meddling = Meddling(store, owned=False)
    extractor = Scripted({"x": [fact("surgeon", "update", target=job.id)]})
    memory = LayeredMemory(meddling, tenant=tenant, clock=clock, extractor=extractor)
    count = iter(range(1000))

    async def meddle(ops):
        if len(ops) > 1:
            await direct.revise(job.id, content=f"doctor {next(count)}")

    meddling.meddle = meddle
    with pytest.raises(Conflict, match=r"'surgeon'.*kept as 'evt_"):
        await memory.extract("x", **LIN)
    with pytest.raises(Conflict, match="try again"):
        await memory.revise(job.id, content="mine")
    await agree(store, tenant)


async def test_the_text_is_kept_first():
    """When the extractor or the store fails after it, the text is there, and the error says under which name."""
    store = Faulty(open_store("memory://"))

    async def falls(text, known, **named):
        raise ModelError("no answer")

    extractor = Scripted()
    memory = LayeredMemory(store, extractor=extractor)
    extractor.decide = falls
    with pytest.raises(ModelError):
        await memory.extract("one", **LIN)

    async def gone(text, known, **named):
        store.mode = "down"
        return [fact("a")]

    extractor.decide = gone
    with pytest.raises(StoreUnavailable, match="kept as 'evt_"):
        await memory.extract("two", **LIN)
    store.mode = "up"
    assert sorted((await observed(memory)).values()) == ["one", "two"]
    assert await memory.logs() == []
