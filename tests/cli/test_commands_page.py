"""Everything docs/commands.md shows is run, and what it prints is compared."""

import os
import re
import subprocess
from pathlib import Path

from octavo.cli.commands import import_commands
from warm import programs

root = import_commands()

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
TEXT = PAGE.read_text(encoding="utf-8")
ID = re.compile(r"(?:user|agent)_\w+?_\d+\.\d+|\b[0-9a-f]{32}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?(?:[+-]\d\d:\d\d)?)?")


def _with(own: dict[str, str], text: str) -> str:
    return ID.sub(lambda found: own[found[0]], text)


def test_the_page():
    """From top to bottom, in one folder, as a reader would; the ids are those that the reader gets."""
    env = {**os.environ, "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}"}
    own: dict[str, str] = {}  # the reader's id for each of the page's
    ran = 0
    for _, kind, text in re.findall(r"^(`{3,})(\w+)\n(.*?)^\1$", TEXT, re.MULTILINE | re.DOTALL):
        assert kind == "console", f"a {kind} block that nothing runs: {text}"
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            ran += 1
            typed = _with(own, command)
            done = subprocess.run(typed, shell=True, env=env, capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
            assert (done.returncode, done.stderr) == (0, ""), command
            own.update(zip(ID.findall(shown), ID.findall(done.stdout), strict=True))
            assert TIME.sub("TIME", done.stdout) == TIME.sub("TIME", _with(own, shown)), command
    assert ran == TEXT.count("\n$ ") == 16


def test_every_command_and_option():
    """The table has the commands of a memory, which come first of all, with every option that is not everybody's."""
    everybody = {
        "--user",
        "--agent",
        "--tenant",
        "--config",
        "--store",
        "--verbose",
        "--json",
        "--quiet",
        "--debug",
    }
    rows = dict(re.findall(r"^\| `(\w+)[^|]*\|[^|]*\|([^|]*)\|$", TEXT, re.MULTILINE))
    assert list(rows) == list(root.commands)[: len(rows)]
    for name, told in rows.items():
        options = {part.opts[0] for part in root.commands[name].params if part.opts[0].startswith("--")}
        assert set(re.findall(r"`(--[\w-]+)`", told)) == options - everybody, name
    assert all(f"`{option}`" in TEXT for option in everybody)


def test_every_link():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), target
