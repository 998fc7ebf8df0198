"""docs/vault.md: what it shows is what happens, and it has every call."""

import inspect
import os
import re
import subprocess
from pathlib import Path

from octavo.service.vault import Vault
from octavo.service.vault.documents import Reason
from warm import programs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "vault.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?")
SECONDS = re.compile(r"in \d+\.\d s")


def run(command, folder, **more):
    env = {
        **os.environ,
        "PYTHONIOENCODING": "utf-8",
        "PATH": f"{programs()}:{os.environ['PATH']}",
    }
    env = {name: value for name, value in env.items() if not name.startswith("OCTAVO_")}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120, **more
    )
    assert done.returncode == 0, done.stderr
    return SECONDS.sub("in 0.1 s", MOMENT.sub("DATE", done.stdout))


def test_every_block(tmp_path):
    printed, ran = "", 0
    for kind, text in BLOCK.findall(PAGE):
        if kind == "python":
            printed = run(["python", "-c", text], tmp_path)
        elif kind == "output":
            assert printed == text
        elif kind == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                assert run(command, tmp_path, shell=True) == expected, command
                ran += 1
        else:
            assert kind == "", f"a {kind} block that nothing runs"
    assert ran == PAGE.count("\n$ ") == 8


def test_every_call_and_reason():
    calls = {name for name, _ in inspect.getmembers(Vault, inspect.isfunction) if not name.startswith("_")}
    assert calls == set(
        re.findall(r"`(\w+)\([^`]*\)`", "".join(re.findall(r"^\| `\w+\(.*? \|", PAGE, re.MULTILINE)))
    )
    for reason in Reason.__args__:
        assert f"`{reason}`" in PAGE


def test_every_link():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
