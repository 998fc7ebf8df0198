"""The console speaks English and Chinese, and nothing on its pages is left in one of them only."""

import re
from pathlib import Path

import octavo
from octavo.events import EventType
from octavo.keys import ACCESS
from octavo.layers.values import ACTIONS, CATEGORIES, LAYERS
from octavo.memory import SOURCES
from octavo.server.console.texts import CHINESE
from octavo.server.console.views.asking import SIGNALS
from octavo.server.console.views.sessions import SHOWING

TEMPLATES = Path(octavo.__file__).parent / "server" / "console" / "templates"
SAID = re.compile(r"""\b_\((?:"([^"]+)"|'([^']+)')\)""")


def test_every_text_of_a_template_is_translated():
    said = {
        one or other for page in TEMPLATES.iterdir() for one, other in SAID.findall(page.read_text("utf-8"))
    }
    values = {*ACTIONS, *LAYERS, *ACCESS, *SOURCES, *SHOWING, *SIGNALS.values(), *map(str, EventType)}
    values |= {each for layer in CATEGORIES.values() for each in layer}
    assert (said | values) - set(CHINESE) == set()


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
