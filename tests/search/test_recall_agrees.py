"""One ranking on every store."""

import pytest
from generated import memory, questions

from memories import Recall, ids, keep
from octavo import Scope, open_store
from octavo.kernel.ports import Searches
from sampled import FULL

pytestmark = pytest.mark.every_store


def told(hits) -> list[tuple]:
    """Everything an explained answer says that does not depend on the machine's speed."""
    return [(h.collection, h.record.id, h.score, h.terms, h.signals) for h in hits]


@pytest.fixture(scope="module")
def whole() -> Scope:
    return Scope(tenant="agreement")


@pytest.mark.torture
async def test_the_same_answers_everywhere(store, whole):
    """600 records, 30 questions, and 100 with `make torture`: the ten best, their order, scores and reasons are those of the memory store."""
    records = memory(whole)
    await keep(store, *records)
    async with open_store("memory://") as reference:
        await keep(reference, *records)
        mine, right = Recall(store), Recall(reference)
        answered, asked = 0, questions(100 if FULL else 30)
        for question in asked:
            answer = await mine.recall(question, whole, explain=True)
            expected = await right.recall(question, whole, explain=True)
            assert told(answer) == told(expected), question
            assert answer.presence == expected.presence
            answered += len(answer) == 10
        assert answered > 0.8 * len(asked)  # or the questions were about nothing


async def test_the_same_sessions_and_filters_everywhere(store, home):
    """Whole sessions, filtered questions and prompts agree too."""
    records = memory(home, 200, 8)
    await keep(store, *records)
    async with open_store("memory://") as reference:
        await keep(reference, *records)
        mine, right = Recall(store), Recall(reference)
        user = Scope(tenant=home.tenant, user="u1")
        for question in questions(12):
            for filters in ({}, {"kinds": ["user"]}, {"layer": "event"}, {"where": {"importance": 8}}):
                answer, expected = [await r.recall(question, user, 5, **filters) for r in (mine, right)]
                assert ids(answer) == ids(expected), (question, filters)
            one, other = [await r.sessions(question, home, 5) for r in (mine, right)]
            assert [(s.session, s.score, ids(s.hits)) for s in one] == [
                (s.session, s.score, ids(s.hits)) for s in other
            ]
            assert await mine.context(question, home, 300) == await right.context(question, home, 300)


class Plain:
    """A store that can do no more than it must: it has no index of terms."""

    def __init__(self, store) -> None:
        self.apply, self.find, self.tally, self.close = store.apply, store.find, store.tally, store.close


async def test_a_store_without_an_index_answers_alike(in_memory, home):
    """Where a store is not `Searches`, its records are read, and the answers are the same."""
    plain = Plain(in_memory)
    assert isinstance(in_memory, Searches)
    assert not isinstance(plain, Searches)
    await keep(in_memory, *memory(home, 200, 8))
    for question in questions(20):
        answer, expected = [await Recall(s).recall(question, home, explain=True) for s in (plain, in_memory)]
        assert told(answer) == told(expected)
