"""docs/reference is what the code says now, and it leaves no command, option, setting or route out."""

import importlib.util
import re
import shlex

import click
import pytest
from pages import ROOT

from octavo.cli.commands import octavo
from octavo.config.settings import every_setting, spelled

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
    monkeypatch.setattr(TOOL, "FOLDER", tmp_path / "reference")
    assert TOOL.main(["--check"]) == 1
    assert "docs/reference/openapi.json is not what the code says" in capsys.readouterr().out
    assert TOOL.main([]) == TOOL.main([]) == 0
    assert (
        capsys.readouterr().out == "docs/reference: 4 files, 4 changed\ndocs/reference: 4 files, 0 changed\n"
    )
    for path in FOLDER.iterdir():
        assert (tmp_path / "reference" / path.name).read_text() == path.read_text()


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
    row = f"| `{setting.key}`<br>`{setting.variable}` | `{spelled(setting.default)}` | "
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
