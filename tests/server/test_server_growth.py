"""A server takes no more memory for many users than for few, beyond what its caches may take together."""

import subprocess
import sys
from pathlib import Path

import pytest

from sampled import only_torture

ROOT = Path(__file__).parents[2]


@only_torture
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql", "redis"])
def test_nothing_is_held_for_each_user(kind, tmp_path, store_url):
    """Inserts, extraction, questions, events and listings of many users leave nothing behind that grows with them."""
    program = Path(__file__).with_name("growing.py")
    done = subprocess.run(
        [sys.executable, program, store_url(kind), tmp_path],
        env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
