"""The console speaks English and Chinese, and nothing on its pages is left in one of them only."""

import inspect
import re
from pathlib import Path

import pytest

import octavo
from octavo.events import EventType
from octavo.keys import ACCESS
from octavo.layers.values import ACTIONS, CATEGORIES, LAYERS
from octavo.memory import SOURCES
from octavo.server.console.memories import SIGNALS
from octavo.server.console.sessions import SHOWING
from octavo.server.console.texts import CHINESE, SENTENCES, TITLES, translate
from octavo.server.problems import CODES
from octavo.server.routing import Admitted, require_names

CONSOLE = Path(octavo.__file__).parent / "server" / "console"
TEMPLATES = CONSOLE / "templates"
SAID = re.compile(r"""\b_\((?:"([^"]+)"|'([^']+)')\)""")


def test_every_text_of_a_template_is_translated():
    said = {
        one or other for page in TEMPLATES.iterdir() for one, other in SAID.findall(page.read_text("utf-8"))
    }
    values = {*ACTIONS, *LAYERS, *ACCESS, *SOURCES, *SHOWING, *SIGNALS.values(), *map(str, EventType)}
    values |= {each for layer in CATEGORIES.values() for each in layer}
    assert (said | values) - set(CHINESE) == set()


def test_every_refusal_of_the_console_is_translated():
    """Each that stands in its code or in what its pages share with routes, and what is told of every status."""
    raised = re.compile(r"""(?:HTTPException\(|problem\(|NotFound\()\s*(?:\d+,\s*)?f?"([^"]+)\"""")
    sources = [page.read_text("utf-8") for page in CONSOLE.rglob("*.py")]
    sources += map(inspect.getsource, (Admitted, require_names))
    said = {re.sub(r"\{[^}]*\}", "{}", text) for source in sources for text in raised.findall(source)}
    assert len(said) >= 10
    assert said - set(SENTENCES) == set()
    assert set(CODES) == set(TITLES)
    assert all(text.count("{}") == chinese.count("{}") for text, chinese in SENTENCES.items())


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("there is no memory 'x'", "没有记忆 'x'"),
        ("there is no memory 'x', and there was none", "没有记忆 'x'，也从未有过"),
        ("content: must say something; days: Field required", "content：内容不能为空；days：必须填写"),
        ("limit: Input should be greater than 0; got '{}'", "limit：应为 greater than 0；现在是 '{}'"),
        ("something else", "something else"),
    ],
)
def test_a_refusal_in_chinese(english, chinese):
    assert translate(english) == chinese


def test_every_form_that_changes_something_carries_a_token():
    """What is sent without one is refused: a template without it would be a form that never works."""
    for page in TEMPLATES.iterdir():
        for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", page.read_text("utf-8"), re.DOTALL):
            assert "hidden()" in form or 'name="token"' in form, (page.name, form)


def test_no_template_says_that_a_text_is_safe_or_has_a_style_of_its_own():
    for page in TEMPLATES.iterdir():
        text = page.read_text("utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|\sstyle=|<style|\son[a-z]+=|javascript:", text), (
            page.name
        )
