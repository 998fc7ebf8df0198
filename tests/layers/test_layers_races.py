"""Many change one memory at once: its log is one chain without a gap, and ends with what is in the table."""

import asyncio
import contextlib
import itertools
import subprocess
from pathlib import Path

import pytest
from extracting_child import FACTS
from layers_kit import agree

from octavo import Conflict, NotFound
from octavo.layers import LayeredMemory
from octavo.wraps import Wrap
from sampled import sampled
from serving import LASTING, url_of
from warm import programs

pytestmark = pytest.mark.every_store

CHILD = Path(__file__).with_name("layers_child.py")
LIN = {"user_id": "lin"}


async def test_many_revise(store, tenant):
    """Nobody's revision is lost, through one memory or through several that know nothing of each other."""
    memories = [LayeredMemory(store, tenant=tenant) for _ in range(3)]
    made = await memories[0].remember("0", **LIN, category="other", metadata={"n": 0})
    names = [f"{n}" for n in range(1, 31)]
    await asyncio.gather(*(memories[int(name) % 3].revise(made.id, content=name) for name in names))
    history = await memories[0].history(made.id)
    assert [entry.version for entry in history] == list(range(1, 32))
    assert sorted(entry.after.content for entry in history) == sorted(["0", *names])
    for earlier, later in itertools.pairwise(history):
        assert earlier.after == later.before
    assert (await memories[1].get(made.id)).content == history[-1].after.content
    await agree(store, tenant)


async def test_many_forget(store, tenant):
    """One of many forgets it, the others are told that there is none; one of many brings it back."""
    memories = [LayeredMemory(store, tenant=tenant) for _ in range(4)]
    made = await memories[0].remember("0", **LIN, category="other")
    told = await asyncio.gather(*(one.forget(made.id) for one in memories * 3), return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in told) == 1
    assert sum(isinstance(one, NotFound) for one in told) == 11
    told = await asyncio.gather(
        *(one.undo(f"log_{made.id}_2") for one in memories * 3), return_exceptions=True
    )
    assert sum(not isinstance(one, BaseException) for one in told) == 1
    assert sum(isinstance(one, Conflict) for one in told) == 11
    assert len(await memories[0].history(made.id)) == 3
    assert len(await agree(store, tenant)) == 1


class Interrupted(Wrap):
    """A store that lets somebody else in just before the memory itself is read."""

    meddle = None

    async def find(self, query):
        if query.collection == "episodes" and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            await meddle()
        return await self.inner.find(query)


class Late(Wrap):
    """A store that lets somebody else in just before a write."""

    before = None

    async def apply(self, ops):
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await self.inner.apply(ops)


async def test_brought_back_too_late(store, tenant):
    """Somebody brings a memory back and forgets it again while another is about to bring it back: it stays forgotten."""
    late = Late(store, owned=False)
    here, there = LayeredMemory(late, tenant=tenant), LayeredMemory(store, tenant=tenant)
    made = await there.remember("0", **LIN, category="other")
    await there.forget(made.id)

    async def back_and_forth():
        await there.undo(f"log_{made.id}_2")
        await there.forget(made.id)

    late.before = back_and_forth
    with pytest.raises(Conflict, match=f"log_{made.id}_4"):
        await here.undo(f"log_{made.id}_2")
    with pytest.raises(NotFound):
        await here.get(made.id)
    assert len(await here.history(made.id)) == 4
    assert await agree(store, tenant) == {}


@pytest.mark.parametrize("change", ["update", "insert"])
async def test_undo_of_what_is_not_the_last_any_more(store, tenant, change):
    """Somebody revises between the look at the log and the look at the memory: their revision stays."""
    interrupted = Interrupted(store, owned=False)
    here, there = LayeredMemory(interrupted, tenant=tenant), LayeredMemory(store, tenant=tenant)
    made = await there.remember("0", **LIN, category="other")
    if change == "update":
        await there.revise(made.id, content="1")
    [last] = await there.logs(made.id, limit=1)
    interrupted.meddle = lambda: there.revise(made.id, content="theirs")
    with pytest.raises(Conflict, match="is newer"):
        await here.undo(last.id)
    assert (await here.get(made.id)).content == "theirs"
    await agree(store, tenant)


async def test_everything_at_once(store, tenant):
    """Revising, forgetting, undoing and reading the same memories at once; each answer that was given is in the log."""
    memories = [LayeredMemory(store, tenant=tenant) for _ in range(2)]
    made = [await memories[0].remember(f"m{n}", **LIN, layer="profile", category="value") for n in range(3)]

    async def work(memory, one, n):
        if n % 5 == 0:
            return await memory.forget(one.id)
        if n % 5 < 3:
            return await memory.revise(one.id, content=f"{one.content} {n}")
        [last] = await memory.logs(one.id, limit=1)
        return await memory.undo(last.id) if last.version > 1 else None

    calls = [(memories[n % 2], made[n % 3], n) for n in range(60)]
    told = await asyncio.gather(*(work(*call) for call in calls), return_exceptions=True)
    assert {type(one) for one in told if isinstance(one, BaseException)} <= {NotFound, Conflict}
    done = sum(one is not None and not isinstance(one, BaseException) for one in told)
    assert len(await memories[0].logs(limit=None)) == 3 + done
    await agree(store, tenant)


def run_together(child, *arguments):
    """Start a program twice, let both begin at the same moment, and answer what each of them told."""
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [f"{programs()}/python", str(child), *named],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for named in arguments
        ]
        for one in children:
            assert one.stdout.readline() == "ready\n", one.stderr.read()
        for one in children:
            one.stdin.write("go\n")
            one.stdin.flush()
        answers = [one.communicate(timeout=200) for one in children]
    assert [one.returncode for one in children] == [0, 0], answers
    assert not any(errors for _, errors in answers), answers
    return [int(told) for told, _ in answers]


@sampled("kind", LASTING[::-1], share=2)
async def test_two_processes(kind, tmp_path, fresh_url, size):
    """Two processes revise, forget and undo one memory; every change that one of them made is one row."""
    url = url_of(kind, tmp_path, fresh_url)
    count = size(40, 400)
    async with LayeredMemory(url) as memory:
        made = await memory.remember("0", **LIN, layer="profile", category="value")
        changes = run_together(CHILD, *([url, made.id, name, str(count)] for name in ("ann", "bob")))
        assert min(changes) > 0
        assert len(await memory.history(made.id)) == 1 + sum(changes)
        await agree(memory.store, "")


@sampled("kind", LASTING, share=2)
async def test_two_processes_find_the_same_facts(kind, tmp_path, fresh_url):
    """Each new fact is kept once, whichever of the two adds it."""
    url = url_of(kind, tmp_path, fresh_url)
    added = run_together(CHILD.with_name("extracting_child.py"), [url], [url])
    assert sum(added) == len(FACTS)
    async with LayeredMemory(url) as memory:
        known = [fact.content for fact in await memory.profile(**LIN)]
        assert len(known) == len(set(known)) == len(FACTS)
        await agree(memory.store, "")


async def test_the_same_fact_just_before(store, tenant):
    """Somebody adds the fact between the look at what is known and the write: it is ignored, and was added once."""
    late = Late(store, owned=False)
    here, there = LayeredMemory(late, tenant=tenant), LayeredMemory(store, tenant=tenant)
    await here.extract("I like opera.", **LIN)

    async def add_it():
        late.before = lambda: there.extract("I like tea.", **LIN)

    late.before = add_it  # at the first write, which keeps the text; at the second the fact would be added
    told = await here.extract("I like tea.", **LIN)
    assert [one.action for one in told.memories] == ["ignore"]
    assert len(await here.profile(**LIN)) == 2
    await agree(store, tenant)
