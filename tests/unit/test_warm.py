"""The `octavo` and `python` that tests share are like those of their own: they end, read, print and are stopped alike."""

import marshal
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sampled import FULL
from warm import programs


@pytest.fixture(params=["warm", "own"])
def environ(request):
    """An environment with these programs, and one with those that are installed."""
    folder = programs() if request.param == "warm" else str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONIOENCODING": "utf-8"}


@pytest.mark.parametrize(
    ("line", "status", "printed", "error"),
    [
        ("octavo fly", 2, "", "No such command 'fly'"),
        ("OCTAVO_URL=file://x octavo list", 2, "", "there is no store at x"),
        ("python -c 'import sys; print(sys.argv); sys.exit(3)' a", 3, "['-c', 'a']\n", ""),
        ("echo 林 | python -c 'print(input())'", 0, "林\n", ""),
        ("python -c 'import os; print(os.getcwd())'", 0, "{folder}\n", ""),
        ("umask 027; python -c 'import os; print(oct(os.umask(0)))'", 0, "0o27\n", ""),
        ("python -c '1/0'", 1, "", "ZeroDivisionError"),
        ("python -W error -c 'import warnings; warnings.warn(1)'", 1, "", "UserWarning"),
        ("python -c 'import sys; sys.exit(\"no\")'", 1, "", "no\n"),
        ("octavo --help | head -c 6", 0, "Usage:", ""),
        ("echo 'print(__name__)' > p.py; python p.py", 0, "__main__\n", ""),
    ],
)
def test_a_program_ends_and_prints_alike(line, status, printed, error, environ, tmp_path):
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (status, printed.replace("{folder}", str(tmp_path))), done.stderr
    assert error in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_is_stopped_alike(number, environ):
    # A signal that arrives just before a sleep is noticed at its end.
    code = "import os, time; print(os.getpid(), flush=True)\nwhile True: time.sleep(0.1)"
    program = subprocess.Popen(["python", "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    with program:
        child = int(program.stdout.readline())
        program.send_signal(number)
        assert program.wait(timeout=60) != 0
    with pytest.raises(ProcessLookupError):
        while True:
            os.kill(child, 0)


@pytest.mark.skipif(FULL, reason="every program starts by itself")
def test_a_program_ends_with_one_who_was_killed_before_hearing_of_it(tmp_path):
    """Or it would run on for ever: nobody else knows of it."""
    order = marshal.dumps((["python", "-c", "while True: input()"], str(tmp_path), {}, 0o077))
    held, keyboard = os.pipe()
    printed, out = os.pipe()
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(f"{programs()}/socket")
        socket.send_fds(asked, [len(order).to_bytes(4, "big")], [held, out, out])
        asked.sendall(order)
    os.close(held)
    os.close(out)
    while os.read(printed, 1000):  # to the end, which is the program's
        pass
    os.close(keyboard)
    os.close(printed)
