"""The suite, and the server, do not depend on how they were started: a shell's background jobs ignore Ctrl-C."""

import os
import subprocess
import sys
from pathlib import Path

from sampled import sampled

ROOT = Path(__file__).parents[2]


#: What `command &` does in a script.
IGNORING = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


@sampled(
    "test",
    [
        "tests/cli/test_commands.py::test_an_interrupted_copy_says_how_to_continue",
        "tests/cli/test_events_command.py::test_follow",
    ],
    share=2,
)
def test_a_test_of_interruption_passes_in_the_background(test):
    """One interrupts itself, the other a process that it started."""
    words = ["-m", "pytest", "-q", "-p", "no:xdist", "--timeout", "60", test]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*IGNORING, sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True,
        check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_in_the_background_stops_when_told(tmp_path):
    """`octavo serve &` and later `kill`."""
    with subprocess.Popen(
        [*IGNORING, sys.executable, "-m", "octavo.cli", "serve", "--port", "0"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout.readline().startswith("octavo listens")
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()  # nothing to do when it has ended
