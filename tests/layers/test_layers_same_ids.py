"""Ids that came with an import are unique only within their owner: whoever names no owner is told whose there are."""

import pytest

from octavo import Add, Scope
from octavo.errors import InvalidQuery, NotFound
from octavo.layers.records import Owner, State, log_record, record_of

OWNERS = {"m0": {"user_id": "m0"}, "m1": {"user_id": "m1"}, "bot": {"agent_id": "bot"}}
NAMED = "'1' belongs to agent 'bot' and user 'm0' and user 'm1'"


async def bring(memory, clock, name, whose):
    """A memory as an import writes it, under the id that it had elsewhere."""
    [(kind, _)] = whose.items()
    owner, at = Owner(kind.removesuffix("_id"), name), clock()
    state = State(
        category="preference", content=f"{name} likes sewing", metadata={}, data={"is_permanent": True},
        created_at=at, updated_at=at, expires_at=None,
    )  # fmt: skip
    record = record_of("1", owner, memory.tenant, "profile", state, 1)
    scope = Scope(tenant=memory.tenant, **{owner.type: name})
    row = log_record(scope, "1", "profile", "insert", "imported", at, 1, None, record)
    await memory.store.apply([Add([record]), Add([row])])


@pytest.fixture
async def shared(memory, clock):
    """A memory in which three owners have something under the same id."""
    for name, whose in OWNERS.items():
        await bring(memory, clock, name, whose)
    return memory


async def test_nobody_is_acted_on_who_was_not_named(shared):
    for call in (
        shared.get("1"),
        shared.history("1"),
        shared.logs("1"),
        shared.forget("1"),
        shared.revise("1", content="x"),
        shared.undo("log_1_1"),
        shared.allow("1"),
    ):
        with pytest.raises(InvalidQuery, match="give the user or agent") as told:
            await call
        assert NAMED.removeprefix("'1'") in str(told.value)
    for name, whose in OWNERS.items():
        assert (await shared.get("1", **whose)).content == f"{name} likes sewing"
        assert [row.version for row in await shared.history("1", **whose)] == [1]


async def test_each_owners_changes_are_undone_as_theirs(shared):
    """Though the changes of all of them have the same log ids."""
    for whose in OWNERS.values():
        await shared.forget("1", **whose)
    with pytest.raises(NotFound):
        await shared.get("1")
    with pytest.raises(InvalidQuery, match="bot"):
        await shared.undo("log_1_2")
    await shared.undo("log_1_2", user_id="m0")
    assert (await shared.get("1")).entity_id == "m0"  # the only one there is now
    await shared.undo("log_1_2", agent_id="bot")
    assert [len(await shared.logs("1", **whose)) for whose in OWNERS.values()] == [3, 2, 3]


async def test_many_changes_of_one_owner_are_undone_as_theirs(shared):
    await shared.forget("1", user_id="m1")
    await shared.forget("1", user_id="m0")
    rows = await shared.logs("1", user_id="m1", limit=1)
    with pytest.raises(InvalidQuery, match="m0"):
        await shared.undo_together(rows, "undo_1")
    await shared.undo_together(rows, "undo_1", user_id="m1")
    assert (await shared.get("1", user_id="m1")).content == "m1 likes sewing"
