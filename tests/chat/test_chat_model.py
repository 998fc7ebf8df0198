"""Any sequence of calls leaves what a plain list of messages and marks would hold."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.chat import ChatMemory, InMemoryMemory, Msg
from sampled import examples

IDS = st.sampled_from(["x", "X", "\x1f"])
MARKS = st.sampled_from(["a", "b", "\x1f="])
MAYBE = st.none() | MARKS
CALLS = st.one_of(
    st.tuples(st.just("add"), st.lists(IDS, max_size=3), st.lists(MARKS, max_size=2), st.booleans()),
    st.tuples(st.just("delete"), st.lists(IDS, max_size=2)),
    st.tuples(st.just("delete_by_mark"), MARKS | st.lists(MARKS, max_size=2)),
    st.tuples(st.just("update_messages_mark"), MAYBE, MAYBE, st.none() | st.lists(IDS, max_size=2)),
    st.tuples(st.just("clear")),
    st.tuples(st.just("reload")),
)


def said(id_, text):
    message = Msg("a", text, "user")
    message.id = id_
    return message


class Model:
    """What the documentation says, as a list of [id, text, marks, whether it holds the id]."""

    def __init__(self):
        self.rows = []

    def add(self, messages, marks, allow_duplicates):
        for message in messages:
            taken = any(row[0] == message.id and row[3] for row in self.rows)
            if allow_duplicates or not taken:
                self.rows.append([message.id, message.content, list(dict.fromkeys(marks)), not taken])

    def delete(self, ids):
        return self._drop(lambda row: row[0] in ids)

    def delete_by_mark(self, mark):
        marks = [mark] if isinstance(mark, str) else mark
        return self._drop(lambda row: any(one in row[2] for one in marks))

    def _drop(self, doomed):
        before = len(self.rows)
        self.rows = [row for row in self.rows if not doomed(row)]
        return before - len(self.rows)

    def update_messages_mark(self, new, old, ids):
        changed = 0
        for row in self.rows:
            if (ids is not None and row[0] not in ids) or (old is not None and old not in row[2]):
                continue
            if new is None and old is None:
                after = []
            elif new == old:
                after = row[2]
            else:
                kept = [mark for mark in row[2] if mark != old]
                after = [*kept, *([new] if new is not None and new not in kept else [])]
            changed += after != row[2]
            row[2] = after
        return changed

    def clear(self):
        self.rows = []

    def reload(self):
        """Of several copies that a state tells, the first holds the id."""
        for at, row in enumerate(self.rows):
            row[3] = row[0] not in [before[0] for before in self.rows[:at]]


@pytest.mark.parametrize("kind", ["InMemoryMemory", "sqlite"])
@settings(max_examples=examples(40, 100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(CALLS, max_size=12))
def test_any_calls(kind, calls):
    async def play():
        made = InMemoryMemory() if kind == "InMemoryMemory" else ChatMemory.open("sqlite:///:memory:")
        model = Model()
        async with made as memory:
            for turn, (name, *args) in enumerate(calls):
                if name == "add":
                    args[0] = [said(id_, f"{turn}.{n}") for n, id_ in enumerate(args[0])]
                if name == "reload":
                    await memory.load_state_dict(await memory.state_dict())
                    model.reload()
                else:
                    answer = await getattr(memory, name)(*args)
                    assert answer == getattr(model, name)(*args), (turn, name, args)
                state = (await memory.state_dict())["content"]
                assert [[told["id"], told["content"], marks] for told, marks in state] == [
                    row[:3] for row in model.rows
                ]
                assert await memory.size() == len(model.rows)
                for mark in ("a", "b", "\x1f="):
                    found = [message.content for message in await memory.get_memory(mark=mark)]
                    assert found == [text for _, text, marks, _ in model.rows if mark in marks]
                    found = [message.content for message in await memory.get_memory(exclude_mark=mark)]
                    assert found == [text for _, text, marks, _ in model.rows if mark not in marks]

    asyncio.run(play())
