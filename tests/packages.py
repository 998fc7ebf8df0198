"""Packages that some tests need and the environment should not have: installed once in a folder beside it, and kept."""

import fcntl
import subprocess
import sys
from pathlib import Path

from servers.errors import Unavailable

FOLDER = Path(__file__).parents[1] / ".venv-packages"


def folder_with(requirement: str) -> Path:
    """A folder with the package in it, without what it depends on; Unavailable when there is no registry."""
    folder = FOLDER / requirement.replace("==", "-")
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            asked = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            where = ["--no-deps", "--only-binary=:all:", "--upgrade", "--target", str(folder), requirement]
            done = subprocess.run([*asked, *where], capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                raise Unavailable(f"{requirement}: {(done.stderr.splitlines() or ['?'])[-1]}")
            (folder / "complete").touch()
    return folder
