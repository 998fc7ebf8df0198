"""What prose names is there: commands with their options, make targets, settings, variables, routes, files of the tree."""

import json
import re

import click
import pytest
from pages import FENCE, ROOT

from octavo.cli.commands import import_commands
from octavo.config.settings import SECTIONS, every_setting
from octavo.server.app import mem0

octavo = import_commands()

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("README*.md"), *(ROOT / "examples").glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
SETTINGS = {setting.key for setting in every_setting()}
VARIABLES = {setting.variable for setting in every_setting()} | {"OCTAVO__SECTION__KEY"}
ROUTES = {
    (method.upper(), re.sub(r"{\w+}", "{}", path))
    for path, methods in json.loads((ROOT / "docs/reference/openapi.json").read_text())["paths"].items()
    for method in methods
} | {("GET", "/docs"), ("GET", "/metrics"), ("GET", "/openapi.json")}
ROUTES |= {  # which stand in no document: mem0's
    (method, re.sub(r"{[^}]+}", "{}", path))
    for route in mem0.router.routes
    for method, path in ((verb, route.path) for verb in route.methods)
}


def spans(page):
    """The code spans of a page's prose, and the words of its tables."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")))


def told(page, pattern):
    return [found for span in spans(page) for found in re.findall(pattern, span)]


@pytest.mark.parametrize("page", PAGES)
def test_every_command(page):
    """`octavo queue status --strict` names a command, and options that it takes."""
    for words in told(page, r"^octavo ([a-z][^`]*)$"):
        at, rest = octavo, words.split()
        while isinstance(at, click.Group) and rest and re.fullmatch(r"[a-z]+", rest[0]):
            assert rest[0] in at.commands, f"{page}: octavo {words}"
            at, rest = at.commands[rest[0]], rest[1:]
        known = {word for option in at.params for word in (*option.opts, *option.secondary_opts)} | {"--help"}
        for word in rest:
            assert not word.startswith("--") or word.rstrip("…") in known, f"{page}: octavo {words}"


@pytest.mark.parametrize("page", PAGES)
def test_every_target(page):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name in told(page, r"^make (\w+)$") if name not in targets] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_and_variable(page):
    """`failure_queue.max_retries` and OCTAVO__… are settings, wherever they are named."""
    pattern = rf"^((?:{'|'.join(SECTIONS)})\.(?!md$)\w+)(?:: .*)?$"
    assert [key for key in told(page, pattern) if key not in SETTINGS] == []
    assert [name for name in told(page, r"\b(OCTAVO__\w+)") if name not in VARIABLES] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_route(page):
    """`GET /health` is one that the server answers; names in braces or after a colon stand for any."""
    for method, path in told(page, r"^(GET|POST|PUT|DELETE) (/[^?`]*)"):
        asked = re.sub(r"{[^}]*}|<\w+>", "{}", path).strip()
        matching = [
            known
            for verb, known in ROUTES
            if verb == method and re.fullmatch(re.escape(known).replace(r"\{\}", r"[^/]+"), asked)
        ]
        assert matching or "…" in path, f"{page}: {method} {path}"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_tree(page):
    """`examples/recall.py`, `tests/torture` are there; `config/memory.yaml` is the reader's own."""
    named = told(
        page, r"^((?:examples|tests|tools|bench|src|docs)/[\w./-]+|config/(?!memory\.yaml$)[\w./-]+)$"
    )
    assert [name for name in named if not (ROOT / name).exists()] == []
