"""Recall over a store with an index of vectors beside it."""

from array import array

import pytest

from memories import KINDS, Recall, ids, inside, keep, note
from octavo import Add, Change, Indexed, ModelError, Query, Remove, open_store
from octavo.testing.embedding import HashEmbedder
from octavo.vectors import ExactIndex

CONCEPTS = (
    ("fox", "vulpine", "reynard"),
    ("car", "automobile", "vehicle"),
    ("rain", "drizzle", "downpour"),
    ("doctor", "physician", "surgeon"),
)


class Concepts:
    """A model of four ideas and English: enough to know that a vulpine is a fox."""

    name = "concepts"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.out_of_order = False

    def reads(self, text: str) -> bool:
        return text.isascii()

    async def embed(self, texts, *, asking=False):
        if self.out_of_order:
            raise ModelError("the model is out of order")
        if asking:
            self.asked += texts
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> "array[float]":
        values = [float(any(word in text for word in words)) for words in CONCEPTS] + [0.1]
        length = sum(value * value for value in values) ** 0.5
        return array("f", [value / length for value in values])

    async def close(self) -> None:
        pass


@pytest.fixture(params=KINDS)
async def alone(request, fresh_url, tmp_path):
    """A store of each kind with nothing else in it."""
    kind = request.param
    local = {
        "memory": "memory://",
        "file": f"file://{tmp_path}/records",
        "sqlite": f"sqlite:///{tmp_path}/a.db",
    }
    async with open_store(local.get(kind) or fresh_url(kind)) as opened:
        yield opened


async def test_a_life_with_vectors(alone, home):
    """Found by meaning, in the scope only; gone, changed and moved ones never, also before the index has noticed."""
    model = Concepts()
    me, you = inside(home, user="me"), inside(home, user="you")
    async with Indexed(alone, ExactIndex(alone), model, owned=False) as store:
        recall = Recall(store)
        await keep(
            store,
            note(me, "fox", "A vulpine crossed the road"),
            note(me, "car", "The automobile is at the garage"),
            note(me, "rain", "A drizzle all morning"),
            note(you, "yours", "Reynard of yours"),
        )
        await store.settle(60)
        hits = await recall.recall("fox", me, 1, explain=True)
        assert ids(hits) == ["fox"]
        assert hits[0].terms == ()
        assert hits.notes == ()
        assert ids(await recall.recall("fox", you)) == ["yours"]
        assert ids(await recall.recall("physician car", me, 1)) == ["car"]
        assert "yours" not in ids(await recall.recall("fox", me, 100))

        await store.apply(
            [
                Remove(Query(collection="messages", scope=me, ids=("rain",))),
                Change(query=Query(collection="messages", scope=me, ids=("fox",)), text="The surgeon called"),
                Remove(Query(collection="messages", scope=you, ids=("yours",))),
                Add([note(me, "yours", "Reynard of yours")]),
            ]
        )
        # Whether the index has noticed yet or not:
        assert "rain" not in ids(await recall.recall("downpour", me, 100))
        assert await recall.recall("fox", you) == []
        await store.settle(60)
        assert ids(await recall.recall("fox", me, 1)) == ["yours"]
        assert ids(await recall.recall("doctor", me, 1)) == ["fox"]

        before = list(model.asked)
        assert await recall.recall("狐狸在哪里？", me) == []
        assert model.asked == before  # it does not read Chinese, and was not asked

        model.out_of_order = True
        hits = await recall.recall("surgeon", me)
        assert ids(hits) == ["fox"]
        assert hits.notes == ("without vectors: the model is out of order",)


async def test_weak_vectors_do_not_spoil_words(alone, home):
    """Hashed vectors know nothing: with them, the best by words stays the best."""
    texts = {
        "key": "The spare key is under the blue pot by the door",
        "tax": "税务局要求三月底之前提交报表",
        "cake": "Grandma's cake needs six eggs and a cup of sugar",
        "bike": "Lena's bicycle has a flat tyre again",
        "flight": "Flight LH2417 leaves from gate B12",
        "cat": "邻居家的猫又跑到我们院子里来了",
    }
    asked = {
        "Where is the spare key?": "key",
        "报表什么时候提交": "tax",
        "how many eggs for the cake": "cake",
        "Lena's flat tyre": "bike",
        "Which gate does LH2417 leave from?": "flight",
        "猫": "cat",
    }
    async with Indexed(alone, ExactIndex(alone), HashEmbedder(), owned=False) as store:
        await keep(store, *(note(home, name, text) for name, text in texts.items()))
        await store.settle(60)
        best = {question: ids(await Recall(store).recall(question, home, 1)) for question in asked}
        assert best == {question: [name] for question, name in asked.items()}
