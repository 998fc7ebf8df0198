"""A page whose Python blocks are one program, and whose output blocks are what it prints."""

import os
import re
import subprocess

from warm import programs

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def prints_what_it_shows(page, folder, *, logs=False, **environment):
    """Run the blocks of a page, one after the other, and compare; a word on stderr is a failure, unless it logs."""
    blocks = _BLOCK.findall(page)
    assert {kind for kind, _ in blocks} == {"python", "output"}
    program = "\n".join(block for kind, block in blocks if kind == "python")
    done = subprocess.run(
        [f"{programs()}/python", "-W", "error", "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert logs or not done.stderr, done.stderr
    assert done.stdout == "".join(block for kind, block in blocks if kind == "output")
