"""Everything docs/import.md shows is run, and what it prints is compared; its tables have every format and option."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from made import chatgpt_conversations

from octavo.cli.commands import import_commands
from octavo.importers import FORMATS
from warm import programs

root = import_commands()

PAGE = Path(__file__).parents[2] / "docs" / "import.md"
TEXT = PAGE.read_text(encoding="utf-8")


def steady(printed):
    """Without times, and in no order: stdout and stderr have none between them."""
    told = re.sub(r"in \d+\.\d s$|'timestamp': '[^']*'", "T", printed, flags=re.MULTILINE)
    return sorted(re.sub(r"(T, 'content'.*?'thinking').*", r"\1", line) for line in told.splitlines())


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("conversations.json").write_text(json.dumps(chatgpt_conversations()))
    Path("talk.jsonl").write_text('{"role": "user", "content": "Hello"}\n{"content": "?"}\n')
    Path("notes.md").write_text("- I like green tea\n- I prefer trains to planes\n")
    env = {**os.environ, "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}"}
    env |= {"XDG_STATE_HOME": str(tmp_path / "state"), "OCTAVO_URL": "sqlite:///octavo.db"}
    ran = 0
    for block in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            done = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
            assert done.returncode == int("could not be read" in shown), done.stderr
            if shown == "…\n":
                assert "Berlin" in done.stdout
            else:
                assert steady(done.stdout + done.stderr) == steady(shown), command
            ran += 1
    assert ran == TEXT.count("\n$ ") > 8


def test_the_tables():
    assert set(re.findall(r"^\| `(\w[\w-]+)` \| .* \| .* \|$", TEXT, re.MULTILINE)) == set(FORMATS)
    options = {part.opts[0] for part in root.commands["import"].params}
    told = set(re.findall(r"^\| `(--[\w-]+)` \|", TEXT, re.MULTILINE)) - {"--from"}
    assert told <= options
    assert {"--user", "--session", "--tenant", "--dry-run"} <= told


@pytest.mark.parametrize("page", ["import.md"])
def test_it_is_linked(page):
    assert page in (PAGE.parent / "README.md").read_text()
