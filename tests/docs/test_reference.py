"""docs/reference is what the code says now, and it leaves no command, option, setting or route out."""

import importlib
import importlib.util
import inspect
import re
import shlex

import click
import pytest
from pages import ROOT, targets

from octavo.cli.commands import import_commands
from octavo.config.settings import every_setting, spell_yaml

octavo = import_commands()

FOLDER = ROOT / "docs" / "reference"


def tool():
    """tools/reference.py as a module."""
    spec = importlib.util.spec_from_file_location("reference_tool", ROOT / "tools" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = tool()
COMMANDS = [
    (name, command)
    for name, command, _ in TOOL.tree(octavo, octavo.make_context("octavo", [], resilient_parsing=True))
]


def test_it_is_current(capsys):
    """Else: run `make docs` and look at what changed."""
    assert TOOL.main(["--check"]) == 0, capsys.readouterr().out


def test_make_docs_writes_it(tmp_path, monkeypatch, capsys):
    """Into an empty folder, the very files that are checked in; a second run changes nothing; --check tells what differs."""
    made = tmp_path / "docs" / "reference"
    monkeypatch.setattr(TOOL, "FOLDER", made)
    assert TOOL.main(["--check"]) == 1
    told = capsys.readouterr().out
    for name in ("docs/reference/openapi.json", "docs/reference/python/octavo.md", "llms.txt"):
        assert f"{name} is not what the code says; run `make docs`\n" in told
    assert TOOL.main([]) == TOOL.main([]) == 0
    pages = [path for path in FOLDER.rglob("*.*") if path.is_file()]
    count = len(pages) + 1
    assert (
        capsys.readouterr().out
        == f"docs/reference: {count} files, {count} changed\ndocs/reference: {count} files, 0 changed\n"
    )
    for path in pages:
        assert (made / path.relative_to(FOLDER)).read_text() == path.read_text()
    assert (tmp_path / "llms.txt").read_text() == (ROOT / "llms.txt").read_text()


def test_the_makefile_has_it():
    recipe = re.search(r"^docs:.*\n\t@\$\(BIN\)/python (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    assert recipe[1] == "tools/reference.py"


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_command_and_option(name, command):
    """Each command has its heading, and each option stands under it or among those that all commands take."""
    page = (FOLDER / "commands.md").read_text()
    shared, _, rest = page.partition("\n## ")
    [section] = [part for part in f"\n## {rest}".split("\n#") if part.lstrip("# ").startswith(f"{name}\n")]
    for option in command.params:
        for word in (*option.opts, *option.secondary_opts):
            if isinstance(option, click.Option):
                assert f"`{word}`" in section or f"`{word}`" in shared, (name, word)


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_example_is_understood(name, command, tmp_path, monkeypatch):
    """Each example in a command's help is taken by the parser: its words, options and choices are real."""
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"Example: (.*)", command.help or "")
    assert examples or isinstance(command, click.Group)
    for example in examples:
        words = shlex.split(example, comments=True)
        for word in words:
            if re.fullmatch(r"[\w.]+\.(gz|jsonl|json|yaml)", word):
                (tmp_path / word).touch()
        assert words[: len(name.split())] == name.split() or words[0] == "octavo", example
        context, at = octavo.make_context("octavo", [], resilient_parsing=True), octavo
        rest = words[1:]
        while isinstance(at, click.Group):
            at, rest = at.commands[rest[0]], rest[1:]
        at.make_context(at.name, rest, parent=context)


@pytest.mark.parametrize("setting", every_setting(), ids=lambda setting: setting.key)
def test_every_setting(setting):
    """Its key, its variable and its default stand in one row."""
    page = (FOLDER / "settings.md").read_text()
    row = f"| `{setting.key}`<br>`{setting.variable}` | `{spell_yaml(setting.default)}` | "
    assert row in page


def test_every_route():
    """Each route that the app answers, found by asking its router and not its document."""
    from fastapi.routing import APIRoute

    from octavo.config import Settings
    from octavo.server import create_app

    page = (FOLDER / "endpoints.md").read_text()
    told = set(re.findall(r"^## ([A-Z]+ /\S*)$", page, re.MULTILINE))
    routes = {
        f"{method} {route.path_format}"
        for route in create_app(Settings()).routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods
    }
    assert told == routes
    assert len(told) >= 15


PYTHON = {name: importlib.util.find_spec(name) for name in TOOL.python_reference.MODULES}


@pytest.mark.parametrize("module", [name for name, found in PYTHON.items() if found])
def test_every_public_name(module):
    """Each name of a module's `__all__` has its heading, and under it what its docstring says first."""
    page = (FOLDER / "python" / f"{module}.md").read_text()
    told = dict(part.partition("\n")[::2] for part in page.split("\n## ")[1:])
    public = getattr(importlib.import_module(module), "__all__", None)
    assert [*told] == public or public is None
    assert told
    for name, value in TOOL.python_reference._names(importlib.import_module(module)):
        if inspect.isclass(value) or inspect.isroutine(value):
            first = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
            assert first in " ".join(told[name].split()), name
    assert f"[{module}]({module}.md)" in (FOLDER / "python" / "README.md").read_text()


def test_llms_txt_leads_to_every_page():
    """Each page of the map, with a title and a sentence."""
    listed = dict(re.findall(r"^- \[.+\]\((\S+)\): (.+)$", (ROOT / "llms.txt").read_text(), re.MULTILINE))
    mapped = {
        (ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix()
        for target in targets(ROOT / "docs" / "README.md")
        if target.endswith(".md")
    }
    assert {*listed} == mapped
    assert min(map(len, listed.values())) > 10
