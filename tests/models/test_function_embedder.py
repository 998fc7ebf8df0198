"""FunctionEmbedder: whatever a caller's function answers becomes vectors, or an error that says what was wrong."""

import array
import asyncio
import threading

import numpy as np
import pytest

from octavo import ConfigError, ModelError
from octavo.models import FunctionEmbedder, open_embedder

NAN = float("nan")


@pytest.mark.parametrize(
    "answer",
    [
        [[3, 4], [0, 2]],
        ((3.0, 4.0), (0.0, 2.0)),
        [array.array("d", [3, 4]), np.array([0, 2], dtype="float16")],
        np.array([[3, 4], [0, 2]], dtype="float32"),
        ([3, 4], array.array("f", [0, 2])),
    ],
)
async def test_every_spelling_of_vectors(answer):
    """Lists, tuples, arrays and numpy arrays become 32-bit vectors of unit length."""
    made = FunctionEmbedder(lambda texts: answer, "mine")
    one, other = await made.embed(["a", "b"])
    assert (one.typecode, list(one)) == ("f", pytest.approx([0.6, 0.8]))
    assert list(other) == [0, 1]


async def test_generators_and_awaitables():
    """An async function, an object with an async __call__ and a lambda around one are awaited; a generator is read."""

    async def function(texts):
        assert threading.current_thread() is threading.main_thread()
        return [[1.0, len(text)] for text in texts]

    class Caller:
        async def __call__(self, texts):
            return await function(texts)

    def generator(texts):
        yield from ([1.0, len(text)] for text in texts)

    found = [
        await FunctionEmbedder(each, "mine").embed(["a", "bb"])
        for each in (function, Caller(), lambda texts, inner=function: inner(texts), generator)
    ]
    assert found == [found[0]] * 4


async def test_sync_functions_run_in_a_thread():
    """The event loop goes on meanwhile, and the function gets a list of strings."""
    entered, leave = threading.Event(), threading.Event()
    given = []

    def function(texts):
        given.append((texts, threading.current_thread()))
        entered.set()
        leave.wait(30)
        return [[1.0]] * len(texts)

    call = asyncio.create_task(FunctionEmbedder(function, "mine").embed(("a", "b\ud800")))
    while not entered.is_set():
        await asyncio.sleep(0.001)
    leave.set()
    await call
    ((texts, thread),) = given
    assert texts == ["a", "b?"]
    assert thread is not threading.main_thread()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([[1, 2], [0, 0]], "text 2 of 2: .*zeros"),
        ([[NAN, 2], [1, 0]], "text 1 of 2: .*NaN"),
        ([[1, 2], [float("inf"), 0]], "text 2 of 2: .*infinity"),
        ([[1, 2]], "given 2 texts and answered 1 vector"),
        ([], "answered 0 vectors"),
        (None, "answered no list"),
        ("ab", "answered no list"),
        (7, "answered no list"),
        ([[1, 2], [1, 2, 3]], "text 2 of 2: .* 3 dimensions instead of 2"),
        ([[1, 2], None], "text 2 of 2: .* NoneType, not a list of numbers"),
        ([[1, 2], ["x"]], "text 2 of 2: .* not a list of numbers"),
        ([1, 2], "text 1 of 2: .* int, not a list of numbers"),
        ([[], []], "text 1 of 2: .*zeros"),
    ],
)
async def test_answers_that_are_no_vectors(answer, said):
    """Each is a ModelError that says what was wrong, and with which text."""
    with pytest.raises(ModelError, match=said):
        await FunctionEmbedder(lambda texts: answer, "mine").embed(["a", "b"])


async def test_another_dimension_than_before():
    """One name, one space: its vectors have one length."""
    made = FunctionEmbedder(lambda texts: [[1.0] * len(texts[0])], "mine")
    await made.embed(["abc"])
    with pytest.raises(ModelError, match="4 dimensions instead of 3"):
        await made.embed(["abcd"])


async def test_the_functions_own_error():
    """It is the cause of a ModelError that names the embedder."""

    def function(texts):
        raise LookupError("no such model")

    with pytest.raises(ModelError, match="'mine' failed: LookupError: no such model") as caught:
        await FunctionEmbedder(function, "mine").embed(["a"])
    assert isinstance(caught.value.__cause__, LookupError)


async def test_no_texts():
    """The function is not called for nothing."""
    made = FunctionEmbedder(lambda texts: 1 / 0, "mine")
    assert await made.embed([]) == []
    with pytest.raises(TypeError):
        await made.embed("one string")
    await made.close()


def test_opened_with_a_name():
    """The name may be the function's; without any, the error says why it needs one."""

    def function(texts):
        return [[1.0]] * len(texts)

    made = open_embedder(function, name="mine", languages=["en"])
    assert made.name == "mine"
    assert repr(made) == "FunctionEmbedder('mine')"
    assert made.reads("cats")
    assert not made.reads("我喜欢猫")
    assert open_embedder(function, name="mine").reads("我喜欢猫")
    with pytest.raises(ConfigError, match="needs a name"):
        open_embedder(function)
    function.name = "its own"
    assert open_embedder(function).name == "its own"
    for name in ("", " ", "a\nb", "x" * 201, None):
        with pytest.raises(ConfigError, match="name"):
            FunctionEmbedder(function, name)
