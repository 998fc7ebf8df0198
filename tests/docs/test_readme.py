"""What README.md shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block(tmp_path):
    """Python blocks print the output shown under them; `make run` prints what a newcomer sees, from an empty folder."""
    printed, ran = "", []
    for kind, block in BLOCK.findall((ROOT / "README.md").read_text()):
        ran.append(kind)
        if kind == "python":
            printed = run([sys.executable, "-c", block], tmp_path)
        elif kind == "output":
            assert printed == block
        elif kind == "console":
            command, _, shown = block.partition("\n")
            assert command == "$ make run"
            recipe = re.search(
                r"^run: .*\n\t@\$\(BIN\)/python (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE
            )
            assert run([sys.executable, ROOT / recipe[1]], tmp_path) == shown
        else:
            raise AssertionError(f"a {kind} block that nothing runs: {block}")
    assert ran == ["console", *["python", "output"] * 3]


def test_every_link():
    """Every page README.md links to is there."""
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def run(command, folder):
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
