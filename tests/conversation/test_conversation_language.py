"""Language models as callers have them: every way to ask one, and what becomes of a failure."""

import threading

import pytest

from octavo import ModelError
from octavo.conversation import SUMMARY_PROMPT, AIMessage, PromptTemplate
from octavo.conversation.language import as_model, ask, language_of


class Invokes:
    def invoke(self, prompt):
        return AIMessage(f"invoked {prompt}")

    def predict(self, prompt):
        raise AssertionError("invoke comes first")


class Predicts:
    def predict(self, prompt):
        return f"predicted {prompt}"


class InvokesLater:
    async def invoke(self, prompt):
        return AIMessage([{"type": "text", "text": "in "}, {"type": "image"}, "blocks"])


class Called:
    def __call__(self, prompt):
        return f"  called {prompt}\n"


async def awaited(prompt):
    return f"awaited {prompt}"


def later(prompt):
    """Not a coroutine function, and yet its answer must be awaited."""
    return awaited(prompt)


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (Invokes(), "invoked hi"),
        (Predicts(), "predicted hi"),
        (InvokesLater(), "in blocks"),
        (Called(), "called hi"),
        (awaited, "awaited hi"),
        (later, "awaited hi"),
        (lambda prompt: prompt.upper(), "HI"),
    ],
)
async def test_every_way_to_ask(model, answer):
    assert await ask(as_model(model), "hi") == answer


async def test_a_model_that_blocks_is_asked_on_another_thread():
    names = []
    await ask(lambda _: names.append(threading.current_thread()) or "ok", "hi")
    assert names != [threading.current_thread()]


@pytest.mark.parametrize("answer", ["", "  ", None, 3, [], {"text": "x"}])
async def test_an_answer_that_is_no_text(answer):
    with pytest.raises(ModelError, match="instead of a text"):
        await ask(lambda _: answer, "hi")


async def test_a_failure_is_told_with_its_cause():
    def broken(_):
        raise KeyError("quota")

    with pytest.raises(ModelError, match=r"the language model failed: KeyError: 'quota'") as raised:
        await ask(broken, "hi")
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(ModelError, match="no language model"):
        await ask(None, "hi")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我用 Python 和 PostgreSQL 写服务", "zh"),
        ("What does 你好 mean in English, please?", "en"),
        ("Human: 你好\nAI: 您好！", "zh"),
        ("これは日本語の文章です", "en"),
        ("", "en"),
        ("12345 !!", "en"),
    ],
)
def test_the_language_of_a_text(text, language):
    assert language_of(text) == language


def test_prompts():
    assert SUMMARY_PROMPT.input_variables == ["summary", "new_lines"]
    assert SUMMARY_PROMPT.format(summary="{x}", new_lines="{y}").count("{") == 2
    with pytest.raises(ValueError, match="needs 'b'; given: a"):
        PromptTemplate("{a} {b}").format(a=1)
