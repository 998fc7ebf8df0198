"""Environments of their own for frameworks that Octavo works inside of: made the first time, then kept."""

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from servers import Unavailable

ROOT = Path(__file__).parents[2]
_QUIETLY = ("--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20")


def as_here(*names):
    """Requirements for these packages in the versions that are installed here."""
    return tuple(f"{name}=={metadata.version(name)}" for name in names)


def prepared(framework, requirements):
    """The Python of an environment with these packages, made the first time, which takes a minute or two."""
    home = ROOT / f".venv-{framework.lower()}"  # `make clean` removes it
    python, stamp = home / "bin" / "python", home / ".ready"
    wanted = "\n".join((sys.version, *requirements))
    lock = Path(tempfile.gettempdir()) / f"octavo-{framework.lower()}-{os.getuid()}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # workers of one run, and runs side by side, make it once
        if not (stamp.exists() and stamp.read_text() == wanted):
            _run(framework, [sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)])
            # What nobody imports need not be compiled: that is most of what is installed, and most of the time.
            install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-compile"]
            _run(framework, [*install, *_QUIETLY, *requirements])
            stamp.write_text(wanted)
    return python


def _run(framework, command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{framework} could not be installed: {error}") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-200:]]
        raise Unavailable(f"{framework} could not be installed: {said[-1]}")


def ran(python, *arguments, cwd=None):
    """What a program printed in that environment, with this tree's Octavo."""
    done = subprocess.run(
        [python, "-X", "utf8", *map(str, arguments)], cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def blocks_of(page):
    """The Python blocks of a page, each with the output that stands under it."""
    text = (ROOT / "docs" / page).read_text()
    shown = re.findall(r"^```python\n(.*?)^```\n\n```output\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == text.count("```python") > 0
    return shown
