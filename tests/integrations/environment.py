"""Environments of their own for frameworks that Octavo works inside of: made the first time, then kept."""

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from packages import folder_with
from servers import Unavailable
from warm import programs

ROOT = Path(__file__).parents[2]
WITH_OCTAVO = {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
_MOST_SECONDS = 300  # that a program may take
UV = "uv==0.13.8"
_QUIETLY = ("--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20")


def as_here(*names):
    """Requirements for these packages in the versions that are installed here."""
    return tuple(f"{name}=={metadata.version(name)}" for name in names)


def prepared(framework, requirements, *options):
    """The Python of an environment with these packages, made the first time, which takes a minute or two.

    `--no-deps` where all of them are named: what each needs is not worked out again.
    """
    home = ROOT / f".venv-{framework.lower()}"  # `make clean` removes it
    python, stamp = home / "bin" / "python", home / ".ready"
    wanted = "\n".join((sys.version, *requirements))
    lock = Path(tempfile.gettempdir()) / f"octavo-{framework.lower()}-{os.getuid()}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # workers of one run, and runs side by side, make it once
        if not (stamp.exists() and stamp.read_text() == wanted):
            _run(framework, [sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)])
            _install(framework, python, (*options, *requirements))
            stamp.write_text(wanted)
    return python


def _install(framework, python, wanted):
    """By uv, which takes far less of a processor; by pip where uv cannot be had, or does not reach what pip is set up for."""
    links = {
        "PIP_FIND_LINKS": "UV_FIND_LINKS",
        "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
        "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    }
    env = {**os.environ, **{links[name]: value for name, value in os.environ.items() if name in links}}
    try:
        uv = folder_with(UV) / "bin" / "uv"
        _run(framework, [uv, "pip", "install", "--quiet", "--system-certs", "--python", python, *wanted], env)
    except Unavailable:
        # What nobody imports need not be compiled: that is most of what is installed, and most of the time.
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile"]
        _run(framework, [*pip, *_QUIETLY, *wanted])


def _run(framework, command, env=None):
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{framework} could not be installed: {error}") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-200:]]
        raise Unavailable(f"{framework} could not be installed: {said[-1]}")


def ran(python, *arguments, cwd=None):
    """What a program printed in that environment, with this tree's Octavo."""
    done = subprocess.run(
        [python, *map(str, arguments)], cwd=cwd, env={**os.environ, **WITH_OCTAVO},
        capture_output=True, text=True, check=False, timeout=_MOST_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def ran_warm(python, *arguments, cwd=None):
    """The same, in a process that need not import a framework which was imported for a program before: that takes longest."""
    return ran(f"{programs(python, **WITH_OCTAVO)}/python", *arguments, cwd=cwd)


def blocks_of(page):
    """The Python blocks of a page, each with the output that stands under it."""
    text = (ROOT / "docs" / page).read_text()
    shown = re.findall(r"^```python\n(.*?)^```\n\n```output\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == text.count("```python") > 0
    return shown
