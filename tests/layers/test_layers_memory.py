"""Layered memory on every store: each method does what it promises, and writes down why."""

import asyncio
from datetime import timedelta

import pytest
from layers_kit import LIN, START, Scripted, agree, fact, happened, kept
from msgspec.structs import replace

import octavo
from octavo import (
    Add,
    Conflict,
    InvalidQuery,
    NotFound,
    Query,
    Record,
    Scope,
    StoreClosed,
    open_store,
)
from octavo.config import Database, FailureQueue, Layers, Settings, Vault
from octavo.layers import LayeredMemory
from octavo.service import MemoryService


async def test_remember(memory, clock):
    """What is remembered comes back whole, and its log says that and why it was inserted."""
    made = await kept(
        memory, metadata={"from": "form", "n": [1, {"deep": None}]}, sources=["evt_1", "evt_1", "evt_2"]
    )
    assert made.id.startswith("user_lin_")
    assert (made.memory_type, made.entity_id, made.layer, made.category) == (
        "user",
        "lin",
        "profile",
        "career",
    )
    assert (made.content, made.version, made.status) == ("She is a nurse.", 1, "success")
    assert made.metadata == {"from": "form", "n": [1, {"deep": None}]}
    assert (made.is_permanent, made.expiry_date, made.sources) == (True, None, ("evt_1", "evt_2"))
    assert made.created_at == made.updated_at
    assert START < made.created_at <= clock.at
    assert await memory.get(made.id) == made
    assert await memory.profile(**LIN) == [made]
    assert await memory.events(**LIN) == []
    [entry] = await memory.logs(made.id)
    assert (entry.action, entry.memory_layer, entry.version, entry.before) == ("insert", "profile", 1, None)
    assert (entry.after.content, entry.created_at) == (made.content, made.created_at)
    assert entry.reason == "Stored directly in the profile layer as career."
    agent = await memory.remember("它擅长翻译", agent_id="bot", layer="profile", category="ability")
    assert (agent.memory_type, agent.entity_id) == ("agent", "bot")
    assert (await memory.history(agent.id))[0].reason == "直接存入画像层，类别为“能力”。"
    assert await memory.profile(agent_id="bot") == [agent]
    assert await memory.profile(user_id="bot") == []
    given = await happened(memory, reason="她自己说的")
    assert [one.reason for one in await memory.logs(given.id)] == ["她自己说的"]
    await agree(memory.store, memory.tenant)


async def test_order_and_filters(memory, clock):
    """The profile has what changed last first, events have the newest first; each can be cut and filtered."""
    jobs = [await kept(memory, f"job {n}") for n in range(4)]
    taste = await kept(memory, "likes tea", category="preference")
    await memory.revise(jobs[1].id, content="job one")
    assert [one.content for one in await memory.profile(**LIN)] == [
        "job one",
        "likes tea",
        "job 3",
        "job 2",
        "job 0",
    ]
    assert [one.content for one in await memory.profile(**LIN, category="career", limit=2)] == [
        "job one",
        "job 3",
    ]
    assert await memory.profile(**LIN, category="preference") == [taste]
    assert await memory.profile(**LIN, limit=0) == []
    times = []
    for n in range(5):
        times.append((await happened(memory, f"event {n}", category=("meeting", "action")[n % 2])).created_at)
        clock.go(hours=1)
    assert [one.content for one in await memory.events(**LIN, limit=2)] == ["event 4", "event 3"]
    assert [one.content for one in await memory.events(**LIN, category="action")] == ["event 3", "event 1"]
    within = await memory.events(**LIN, since=times[1], until=times[3])
    assert [one.content for one in within] == ["event 2", "event 1"]
    naive = times[1].astimezone().replace(tzinfo=None)  # local time, as Python takes it
    assert len(await memory.events(**LIN, since=naive)) == 4
    rows = await memory.logs(since=times[1], until=times[3])
    assert [row.memory_id for row in rows] == [one.id for one in within]


async def test_revise(memory):
    """What is given changes and the rest stays; the log has both states and says what changed."""
    made = await kept(memory, "用户是一名软件工程师", metadata={"a": 1})
    new = await memory.revise(
        made.id, **LIN, layer="profile", content="用户是一名高级软件工程师", reason="补充了具体的职级信息"
    )
    assert (new.version, new.content, new.metadata, new.category) == (
        2,
        "用户是一名高级软件工程师",
        {"a": 1},
        "career",
    )
    assert new.created_at == made.created_at < new.updated_at
    assert await memory.get(made.id) == new
    other = await memory.revise(made.id, metadata={"a": True}, category="ability", content="能编程")
    assert (other.metadata, other.category, other.version) == ({"a": True}, "ability", 3)
    cleared = await memory.revise(made.id, metadata=None)
    assert cleared.metadata == {}
    reasons = [entry.reason for entry in await memory.history(made.id)]
    assert reasons[1] == "补充了具体的职级信息"
    assert (
        reasons[2] == "内容由“用户是一名高级软件工程师”改为“能编程”；类别由“职业”改为“能力”；元数据已更改。"
    )
    second = (await memory.history(made.id))[1]
    assert (second.action, second.before.content, second.after.content) == (
        "update",
        made.content,
        new.content,
    )
    english = await kept(memory, "A")
    await memory.revise(english.id, content="B")
    assert (await memory.logs(english.id))[0].reason == 'The content changed from "A" to "B".'
    await agree(memory.store, memory.tenant)


async def test_revise_to_the_same(memory):
    """A change to what is there already changes nothing, and is logged as ignored."""
    made = await kept(memory, metadata={"n": 1})
    same = await memory.revise(made.id, content=made.content, metadata={"n": 1}, is_permanent=True)
    assert same == made
    [ignored, _] = await memory.logs(made.id)
    assert (ignored.action, ignored.version, ignored.before, ignored.after) == ("ignore", None, None, None)
    assert ignored.reason == "The memory already says so; nothing changed."
    assert (
        await memory.revise(made.id, metadata={"n": True})
    ).version == 2  # to Python 1 == True, to JSON it is not
    await agree(memory.store, memory.tenant)


async def test_forget(memory):
    """What is forgotten is gone from every read; its log stays and ends with what it was."""
    made, other = await kept(memory), await happened(memory)
    assert await memory.forget(made.id, **LIN, reason="她换了工作") == made
    assert (await memory.forget(other.id)).content == "She met Ann."
    for gone in (made, other):
        with pytest.raises(NotFound, match=gone.id):
            await memory.get(gone.id)
        with pytest.raises(NotFound):
            await memory.forget(gone.id)
        with pytest.raises(NotFound):
            await memory.revise(gone.id, content="x")
    assert await memory.profile(**LIN) == await memory.events(**LIN) == []
    [deleted, inserted] = await memory.logs(made.id)
    assert (deleted.action, deleted.reason, deleted.after) == ("delete", "她换了工作", None)
    assert deleted.before == inserted.after
    assert (await memory.logs(other.id))[0].reason == "Removed on request."
    assert await agree(memory.store, memory.tenant) == {}


async def test_logs(memory):
    """The log can be asked for by memory, owner, layer and action, newest first."""
    one, two = await kept(memory), await happened(memory)
    three = await memory.remember("idle", agent_id="bot", category="other")
    await memory.revise(one.id, content="She is a doctor.")
    await memory.forget(two.id)

    async def told(*args, **named):
        return [(entry.memory_id, entry.action) for entry in await memory.logs(*args, **named)]

    everything = [
        (two.id, "delete"),
        (one.id, "update"),
        (three.id, "insert"),
        (two.id, "insert"),
        (one.id, "insert"),
    ]
    assert await told() == everything
    assert await told(limit=2) == everything[:2]
    assert await told(limit=None) == everything
    assert await told(limit=0) == []
    assert await told(one.id) == [(one.id, "update"), (one.id, "insert")]
    assert await told(**LIN, action="insert") == [(two.id, "insert"), (one.id, "insert")]
    assert await told(memory_layer="profile") == [(one.id, "update"), (one.id, "insert")]
    assert await told(two.id, memory_layer="profile") == []
    assert await told(agent_id="bot") == [(three.id, "insert")]
    assert await told(one.id, agent_id="bot") == []
    assert await told("user_nobody_1.5") == []
    with pytest.raises(NotFound, match="user_nobody"):
        await memory.history("user_nobody_1.5")


async def test_logs_of_one_layer_among_many(memory):
    """A layer's few rows are found behind many of the other's."""
    first = await kept(memory)
    for n in range(210):
        await happened(memory, f"event {n}")
    assert [entry.memory_id for entry in await memory.logs(memory_layer="profile", limit=1)] == [first.id]


async def test_undo_each_action(memory, clock):
    """Every change can be taken back while it is the last, and taking back is logged; undoing that too."""
    made = await kept(memory, metadata={"n": 1})
    changed = await memory.revise(made.id, content="She is a doctor.", metadata={})
    undone = await memory.undo((await memory.logs(made.id))[0].id)
    assert (undone.action, undone.version, undone.metadata) == ("update", 3, {"undo_of": f"log_{made.id}_2"})
    assert undone.reason.startswith("Undid the change: ")
    back = await memory.get(made.id)
    assert (back.content, back.metadata, back.version) == (made.content, {"n": 1}, 3)
    assert back.created_at == made.created_at < changed.updated_at < back.updated_at
    await memory.undo(undone.id, "she is one after all")
    assert (await memory.get(made.id)).content == "She is a doctor."
    assert (await memory.logs(made.id))[0].reason == "she is one after all"

    await memory.forget(made.id)
    restored = await memory.undo(f"log_{made.id}_5")
    assert (restored.action, restored.version) == ("insert", 6)
    again = await memory.get(made.id)
    assert (again.content, again.created_at, again.version) == ("She is a doctor.", made.created_at, 6)
    assert await memory.profile(**LIN) == [again]

    await memory.undo(restored.id)  # what an undo put back goes again
    with pytest.raises(NotFound):
        await memory.get(made.id)
    fresh = await happened(memory)
    entry = await memory.undo(f"log_{fresh.id}_1")
    assert (entry.action, entry.after) == ("delete", None)
    await agree(memory.store, memory.tenant)


async def test_undo_of_an_expiry(memory, clock):
    """What has expired comes back without the end that has passed."""
    made = await happened(memory, "他开了会", ttl_seconds=60)
    clock.go(seconds=61)
    await memory.sweep()
    [expired, _] = await memory.logs(made.id)
    entry = await memory.undo(expired.id)
    assert entry.reason.startswith("撤销此前的过期")
    again = await memory.get(made.id)
    assert (again.expiry_date, again.is_permanent, again.content) == (None, False, "他开了会")
    await agree(memory.store, memory.tenant)


async def test_undo_refuses(memory):
    """Only the last change can be undone; the error names the newer one. An ignored one changed nothing."""
    made = await kept(memory)
    await memory.revise(made.id, content="b")
    with pytest.raises(Conflict, match=f"log_{made.id}_2.*newer"):
        await memory.undo(f"log_{made.id}_1")
    await memory.revise(made.id, content="b")
    [ignored] = await memory.logs(made.id, action="ignore")
    with pytest.raises(Conflict, match="nothing to undo"):
        await memory.undo(ignored.id)
    with pytest.raises(NotFound, match="log_x"):
        await memory.undo("log_x")
    await memory.undo(f"log_{made.id}_2")  # the ignored one is not newer
    with pytest.raises(Conflict):
        await memory.undo(f"log_{made.id}_2")
    assert len(await memory.history(made.id)) == 4


async def test_nobody_elses(memory):
    """Another owner's id, the other layer and another tenant are not found, and nothing is touched."""
    made = await kept(memory)
    stranger = memory.of(memory.tenant + "x")
    for who, where in (
        (memory, {"user_id": "ann"}),
        (memory, {"agent_id": "lin"}),
        (memory, {**LIN, "layer": "event"}),
        (stranger, {}),
        (stranger, LIN),
    ):
        with pytest.raises(NotFound):
            await who.revise(made.id, **where, content="mine")
        with pytest.raises(NotFound):
            await who.forget(made.id, **where)
    with pytest.raises(NotFound):
        await stranger.get(made.id)
    with pytest.raises(NotFound):
        await stranger.history(made.id)
    with pytest.raises(NotFound):
        await stranger.undo(f"log_{made.id}_1")
    assert await stranger.profile(**LIN) == await stranger.events(**LIN) == await stranger.logs() == []
    assert await stranger.recall("nurse", everyone=True) == []
    assert await memory.recall("nurse", user_id="ann") == []
    assert await memory.get(made.id) == made
    assert len(await memory.logs()) == 1


async def test_recall(memory):
    """Both layers are searched, or one; within an owner, or the whole tenant for who says that everyone is meant."""
    job, met = await kept(memory), await happened(memory, "She met a nurse.")
    bot = await memory.remember("The nurse called.", agent_id="bot", category="other")
    found = await memory.recall("nurse", **LIN)
    assert {one.memory.id for one in found} == {job.id, met.id}
    assert found == sorted(found, key=lambda one: -one.score)
    assert [one.memory for one in await memory.recall("nurse", **LIN, layer="profile")] == [job]
    assert [one.memory for one in await memory.recall("nurse", **LIN, layer="event")] == [met]
    assert [one.memory for one in await memory.recall("nurse", agent_id="bot")] == [bot]
    assert len(await memory.recall("nurse", everyone=True)) == 3
    assert len(await memory.recall("nurse", everyone=True, top_k=1)) == 1


async def test_a_search_belongs_to_somebody(memory):
    """Whoever names nobody is refused rather than shown everybody's memories; nor can one owner be everyone."""
    await kept(memory)
    for nobody in ({}, {"everyone": False}, {"layer": "profile"}):
        with pytest.raises(InvalidQuery, match="give user_id or agent_id, or everyone=True"):
            await memory.recall("nurse", **nobody)
    with pytest.raises(InvalidQuery, match="not both"):
        await memory.recall("nurse", **LIN, everyone=True)


async def test_closing(tmp_path):
    """What was opened here is closed, and only that."""
    url = f"sqlite:///{tmp_path}/a.db"
    store, extractor = open_store(url), Scripted({"x": [fact("a")]})
    async with LayeredMemory(store, extractor=extractor) as memory:
        await memory.extract("x", **LIN)
        other = memory.of("b")
        await other.close()
        await kept(other)
        await kept(memory)
    await memory.close()
    with pytest.raises(StoreClosed):
        await memory.profile(**LIN)
    with pytest.raises(StoreClosed):
        await other.profile(**LIN)
    assert extractor.closed == 0
    assert len(await store.find(Query(collection="profile", scope=Scope(tenant="")))) == 2
    await store.close()
    memory = octavo.LayeredMemory(url)
    await memory.__aenter__()
    opened = memory.store
    await memory.close()
    with pytest.raises(StoreClosed):
        await opened.find(Query(collection="profile"))


def settings(folder, **layers):
    return Settings(
        database=Database(dsn=f"sqlite:///{folder}/a.db"),
        vault=Vault(enabled=False),
        failure_queue=FailureQueue(directory=f"{folder}/queue"),
        layers=Layers(**layers),
    )


async def test_from_settings(tmp_path):
    """Settings say how long events last; all that was put together is closed with the memory."""
    async with LayeredMemory.from_settings(settings(tmp_path, event_ttl_days=2)) as memory:
        made = await happened(memory)
        assert made.expiry_date - made.created_at == timedelta(days=2)
        store = memory.store
    with pytest.raises(StoreClosed):
        await store.find(Query(collection="profile"))


def test_a_text_is_an_event_of_the_service(tmp_path):
    """The memory service reads what was extracted from."""

    async def say():
        async with LayeredMemory(f"sqlite:///{tmp_path}/a.db", extractor=Scripted()) as memory:
            return await memory.extract("他说他喜欢茶", **LIN, metadata={"via": "chat"})

    source = asyncio.run(say()).source_id
    with MemoryService.from_settings(settings(tmp_path)) as service:
        [event] = service.get_recent_events("memory:user:lin")
        assert (event.event_id, event.obs_type, event.payload["text"]) == (source, "message", "他说他喜欢茶")
        assert event.meta == {"via": "chat"}
        assert service.get_event(source) == event
        assert event.user_id == "lin"


async def test_lists_in_pages(memory, clock):
    """Every list ends where it would take more bytes than are given, and goes on after its cursor, until all was read."""
    for n in range(7):
        await memory.remember(f"profile {n} " + "x" * 300, **LIN, layer="profile", category="value")
        await memory.remember(f"event {n} " + "x" * 300, **LIN, category="other")
    at = clock()
    for read in (memory.profile, memory.events, memory.logs):
        for more in ({}, {"as_of": at}) if read != memory.logs else ({},):
            whole = await read(**LIN, limit=100, **more)
            assert whole.following is None
            found, page = [], await read(**LIN, limit=3, max_bytes=1500, **more)
            while page:
                assert 1 <= len(page) <= 3
                found += page
                if page.following is None:
                    break
                page = await read(**LIN, limit=3, max_bytes=1500, after=page.following, **more)
            assert found == whole
    few = await memory.recall("profile event", **LIN, max_bytes=1000)
    assert 1 <= len(few) < 10
    assert few.left_out == 10 - len(few)


async def test_the_log_of_a_rare_layer_is_looked_for_a_page_at_a_time(memory, clock, store):
    """A list of bounded size does not read the whole log for a few rows: it ends empty, and says where to go on."""
    rare = await kept(memory)
    common = await memory.remember("met Bo", **LIN, category="meeting")
    [row] = await store.find(Query(collection="log", scope=Scope(tenant=memory.tenant, session=common.id)))
    copies = [
        replace(row, id=f"copy_{n}", created_at=row.created_at + timedelta(microseconds=n + 1), seq=0)
        for n in range(1100)
    ]
    await store.apply([Add(copies)])
    asked = {"memory_layer": "profile", "limit": 10}
    for whose in ({}, LIN):
        first = await memory.logs(**whose, **asked, max_bytes=2**20)
        assert (list(first), first.following is not None) == ([], True)
        second = await memory.logs(**whose, **asked, max_bytes=2**20, after=first.following)
        assert [entry.memory_id for entry in second] == [rare.id]
        assert second.following is None
        assert await memory.logs(**whose, **asked) == second


@pytest.mark.parametrize("marks", [(), ("mine",)])
@pytest.mark.parametrize(("collection", "category"), [("profile", "preference"), ("episodes", "other")])
async def test_a_record_written_by_hand_is_a_memory_like_others(memory, collection, category, marks):
    """It says less than those that this face writes: it can be read, changed, undone, asked about at a time, and removed."""
    by_hand = Record(
        collection=collection, id="hand1", text="Likes rowing", created_at=START, seq=1, marks=marks,
        scope=Scope(tenant=memory.tenant, user="hand"),
    )  # fmt: skip
    await memory.store.apply([Add([by_hand])])
    listed = memory.profile if collection == "profile" else memory.events
    [found] = await listed(user_id="hand")
    assert (found.content, found.category, found.version) == ("Likes rowing", category, 1)
    assert await memory.get("hand1") == found
    changed = await memory.revise("hand1", content="Likes sailing")
    assert (changed.version, changed.category) == (2, category)
    back = await memory.undo((await memory.logs("hand1"))[0].id)
    assert (back.after.content, (await memory.get("hand1")).version) == ("Likes rowing", 3)
    assert [one.content for one in await listed(user_id="hand", as_of=changed.updated_at)] == [
        "Likes sailing"
    ]
    assert [one.content for one in await listed(user_id="hand", as_of=START)] == ["Likes rowing"]
    assert (await memory.forget("hand1")).content == "Likes rowing"
    assert await listed(user_id="hand") == []


async def test_two_changes_of_a_record_written_by_hand_are_one_after_the_other(memory):
    by_hand = Record(
        collection="profile", id="hand1", text="Likes rowing", scope=Scope(tenant=memory.tenant, user="hand")
    )
    await memory.store.apply([Add([by_hand])])
    await asyncio.gather(*[memory.revise("hand1", content=f"Likes {number}") for number in range(5)])
    assert (await memory.get("hand1")).version == 6
    assert [entry.version for entry in await memory.logs("hand1")] == [6, 5, 4, 3, 2]
