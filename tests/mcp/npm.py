"""Programs of the npm registry: installed once into a folder of their own, and kept."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from servers import Unavailable

ROOT = Path(__file__).parents[2]


def node_version():
    """The first number of Node's version."""
    if shutil.which("node") is None:
        raise Unavailable("Node is not installed")
    told = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    return int(re.match(r"v(\d+)", told)[1])


def installed(package, version):
    """The folder of a package in this version."""
    node_version()
    home = ROOT / f".venv-npm-{package.rpartition('/')[2]}"  # `make clean` removes it
    stamp = home / ".ready"
    lock = Path(tempfile.gettempdir()) / f"octavo-npm-{os.getuid()}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # workers of one run, and runs side by side, install it once
        if not (stamp.exists() and stamp.read_text() == version):
            home.mkdir(exist_ok=True)
            install = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--ignore-scripts"]
            try:
                done = subprocess.run(
                    [*install, f"{package}@{version}"],
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"{package} could not be installed: {error}") from error
            if done.returncode:
                raise Unavailable(f"{package} could not be installed: {done.stderr[-200:]}")
            stamp.write_text(version)
    return home / "node_modules" / package
