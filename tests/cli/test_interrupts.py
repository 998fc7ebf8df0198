"""Ctrl-C ends the command with status 130 and without a traceback, from the first line of Octavo's that runs."""

import signal
import subprocess
import sys

import pytest

#: Modules that are loaded one after the other: the moment after each is one that somebody may press Ctrl-C in.
MOMENTS = [
    "octavo.util.system",
    "click.globals",
    "click.core",
    "msgspec",
    "octavo.kernel.model",
    "octavo.cli.memory",
]


@pytest.mark.parametrize("module", ["octavo", "octavo.cli"])
@pytest.mark.parametrize("loaded", MOMENTS)
def test_while_it_loads(module, loaded, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", module, "serve", "--port", "0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr:
        if line.rpartition("|")[2].strip() == loaded:
            break
    else:
        pytest.fail(f"{loaded} is not loaded any more; name another moment")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    said = [line for line in stderr.splitlines() if not line.startswith("import time:")]
    assert (process.returncode, stdout, said) == (130, "", [])
    assert not [*tmp_path.iterdir()]


def test_python_m_octavo_is_the_command():
    for module in ("octavo", "octavo.cli"):
        done = subprocess.run(
            [sys.executable, "-m", module, "stores"], capture_output=True, text=True, timeout=60, check=True
        )
        assert "sqlite:///octavo.db" in done.stdout
    wrong = subprocess.run(
        [sys.executable, "-m", "octavo", "nonsense"], capture_output=True, text=True, timeout=60, check=False
    )
    assert wrong.returncode == 2
    assert "Usage: octavo" in wrong.stderr


def test_who_ignores_it_is_not_interrupted():
    """A shell's job in the background ignores Ctrl-C, and so does the command then."""
    code = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from octavo.cli import end_at_once, hand_over\n"
        "end_at_once(); signal.raise_signal(signal.SIGINT); hand_over(); print('goes on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "goes on\n"
