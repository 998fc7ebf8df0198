"""`make run` installs what it runs and no more: requirements-run.lock, a part of requirements.lock that is enough to serve."""

import os
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(name):
    lines = (ROOT / name).read_text().split()
    return {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}


def needed(requirement, found):
    """All that a package needs to be installed here, whatever brings it."""
    asked = Requirement(requirement)
    name = canonicalize_name(asked.name)
    if name == "octavo":
        wanted = [each for extra in asked.extras for each in PROJECT["optional-dependencies"][extra]]
    elif name in found:
        return
    else:
        found.add(name)
        wanted = metadata.requires(name) or []
    for each in wanted:
        below = Requirement(each)
        extras = ["", *asked.extras] if name != "octavo" else [""]
        if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in extras):
            needed(each, found)


def test_it_is_a_part_of_the_lock():
    run, everything = locked("requirements-run.lock"), locked("requirements.lock")
    assert run.items() <= everything.items()


def test_it_is_enough_to_serve_and_no_more():
    found = set()
    for each in (*PROJECT["dependencies"], "octavo[server]"):
        needed(each, found)
    assert found == {*locked("requirements-run.lock")}


@pytest.mark.parametrize(
    ("environment", "arguments", "asked"),
    [
        ({}, [], "octavo serve --sample"),
        ({"PORT": "9000"}, [], "octavo serve --sample --port 9000"),
        ({}, ["PORT=9001"], "octavo serve --sample --port 9001"),
    ],
)
def test_make_run_takes_a_port(environment, arguments, asked, tmp_path):
    """`PORT=9000 make run`, and `make run PORT=9000`."""
    program = tmp_path / ".venv/bin/octavo"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho octavo "$@"\n')
    program.chmod(0o755)
    for name in ("Makefile", "requirements-run.lock", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv/.run-ready").touch()
    own = {
        name: value for name, value in os.environ.items() if name != "PORT" and not name.startswith("MAKE")
    }
    done = subprocess.run(
        ["make", "run", *arguments], cwd=tmp_path, env={**own, **environment}, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == (f"{asked}\n", "", 0)
