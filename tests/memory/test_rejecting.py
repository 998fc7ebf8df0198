"""What was rejected is not learnt again, until it is allowed; what is noted of it tells nobody what it was."""

import stat

import pytest

from octavo import AsyncMemory, NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Scope
from octavo.layers import Decision, LayeredMemory
from octavo.layers.changes import signatures

LIN = {"user_id": "lin"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Model:
    """Finds one fact in every text, and inserts it whatever is known."""

    def __init__(self, content):
        self.content = content

    async def decide(self, text, known, *, owner_type, at):
        del text, known, owner_type, at
        said = {"layer": "profile", "category": "preference", "content": self.content, "reason": "it says so"}
        return [Decision(action="insert", **said)]

    async def close(self):
        """Nothing to close."""


async def _home(memory):
    [home] = [fact for fact in await memory.get_all(**LIN) if "Berlin" in fact.content]
    return home


async def test_is_not_learnt_again(memory, store, tenant):
    """From the same text or another, by the rules in both languages and by a model; the log says so without the fact."""
    await memory.add("I live in Berlin.", **LIN)
    home = await _home(memory)
    gone = await memory.reject(home.id, reason="nobody's business")
    assert gone.content == home.content
    for said in ("I live in Berlin.", "Remember: my home is in Berlin, I live in Berlin!", "我住在Berlin。"):
        added = await memory.add(said, **LIN)
        assert not [each for each in added.memories if each.action != "ignore"], said
        assert any("reject" in each.reason or "拒绝" in each.reason for each in added.memories), said
    model = AsyncMemory(store, tenant=tenant, model=Model("The user lives in Berlin."))
    [told] = (await model.add("He told me where he lives.", **LIN)).memories
    assert (told.action, told.id) == ("ignore", "")
    assert await memory.get_all(**LIN) == []
    rows = await memory.layers.logs(**LIN, action="ignore")
    assert len(rows) >= 4
    assert all(row.metadata["rejected"] for row in rows)
    assert "Berlin" not in str(rows)
    other = await memory.add("I live in Potsdam.", **LIN)
    assert [each.action for each in other.memories] == ["insert"]
    back = await memory.add("I live in Berlin again.", **LIN)  # nor does it take another's place
    assert "update" not in [each.action for each in back.memories] or "again" in back.memories[0].content
    ann = await memory.add("I live in Berlin.", user_id="ann")
    assert [each.action for each in ann.memories] == ["insert"]


async def test_allowed_again(memory):
    await memory.add("I live in Berlin.", **LIN)
    home = await _home(memory)
    await memory.delete(home.id, forever=True)
    with pytest.raises(NotFound, match="nothing was rejected"):
        await memory.allow(home.id, user_id="ann")
    await memory.allow(home.id)
    assert [each.action for each in (await memory.add("I live in Berlin.", **LIN)).memories] == ["insert"]
    with pytest.raises(NotFound, match="nothing was rejected"):
        await memory.allow(home.id)
    with pytest.raises(NotFound, match="there was none"):
        await memory.allow("nothing")


async def test_undo_lifts_it(memory):
    await memory.add("I live in Berlin.", **LIN)
    home = await _home(memory)
    before = now()
    await memory.reject(home.id)
    *_, last = await memory.history(home.id)
    await memory.undo(last)
    assert (await memory.add("I live in Berlin.", **LIN)).memories[0].id == home.id
    await memory.reject(home.id)
    await memory.undo_all(since=before, **LIN)
    await memory.delete(home.id)
    assert [each.action for each in (await memory.add("I live in Berlin.", **LIN)).memories] == ["insert"]


async def test_what_is_noted_tells_nothing(memory, store, tenant, tmp_path):
    """The key is in a file that its owner alone reads; with another key nothing is known, and nothing fails."""
    await memory.add("I live in Berlin.", **LIN)
    await memory.reject((await _home(memory)).id)
    [noted] = await store.find(Query(collection="owners", scope=Scope(tenant=tenant, user="lin")))
    assert "berlin" not in str(noted).casefold()
    key = tmp_path / "octavo_queue" / "digest.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().strip() not in str(noted)
    stranger = LayeredMemory(store, tenant=tenant, digest_key="another key")
    assert (await stranger.extract("I live in Berlin.", **LIN)).inserted == 1


def test_what_is_the_same():
    """A denial is another fact, and so is the same happening of another day."""

    def same(one, other, *days):
        told = [
            set(signatures(text, "user", day))
            for text, day in zip((one, other), days or ("", ""), strict=True)
        ]
        return bool(told[0] & told[1])

    assert same("The user lives in Berlin", "用户住在Berlin")
    assert same("The user likes coffee", "The user likes coffee.")
    assert not same("The user likes coffee", "The user does not like coffee")
    assert not same("The user lives in Berlin", "The user lives in Potsdam")
    assert same("The user met Ann", "The user met Ann", "2026-01-01", "2026-01-01")
    assert not same("The user met Ann", "The user met Ann", "2026-01-01", "2026-01-02")
