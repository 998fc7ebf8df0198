"""Before somebody is forgotten it is told how much that is, at the same cost however much it is."""

import pytest

from octavo import Add, Record, Scope, open_store
from octavo.erasing import Subject, count_owned


@pytest.mark.parametrize("kind", ["memory", "file", "sqlite", "postgres", "mysql", "redis"])
async def test_counted_up_to_a_bound(kind, tmp_path, request):
    """Where there is a counter, all; else one more than was asked for. Others' records are not counted."""
    here = {
        "memory": "memory://",
        "file": f"file://{tmp_path}/records",
        "sqlite": f"sqlite:///{tmp_path}/octavo.db",
    }
    async with open_store(here.get(kind) or request.getfixturevalue("fresh_url")(kind)) as store:
        assert await count_owned(store, Subject.of(user_id="lin"), 3) == {}
        for user, agent, tenant in (
            ("lin", None, ""),
            ("bo", None, ""),
            (None, "lin", ""),
            ("lin", None, "x"),
        ):
            scope = Scope(tenant=tenant, user=user, agent=agent)
            made = [
                Record(collection=each, scope=scope, text=f"{n}")
                for each in ("messages", "events", "turns")
                for n in range(2 if each == "turns" else 9)
            ]
            await store.apply([Add(made)])
        assert await count_owned(store, Subject.of(user_id="lin"), 3) == {
            "events": 4,
            "messages": 9,
            "turns": 2,
        }
        assert (await count_owned(store, Subject.of(agent_id="lin"), 3))["messages"] == 4
