"""A large ChatGPT export: quick, and in no more memory than a small one."""

import re
import subprocess
import sys

import pytest
from made import write_large_chatgpt

MEASURED = """
import resource, sys
from octavo.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
SECONDS = 60
MOST_MORE_KIB = 40 * 1024  # that a file of many times the size may take


def imported(folder, conversations, messages):
    """How long it took, and the most memory in KiB."""
    source = folder / f"conversations-{conversations}.json"
    write_large_chatgpt(source, conversations, messages)
    arguments = ["import", source, "--from", "chatgpt", "--store", f"sqlite:///{folder}/{conversations}.db"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], cwd=folder, env=None, capture_output=True, text=True, check=False, timeout=280
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [count, seconds] = re.findall(r"imported ([\d,]+) records in ([\d.]+) s", done.stdout)[0]
    assert count == f"{conversations * messages:,}"
    return float(seconds), int(done.stderr.split()[-1])


@pytest.mark.torture
def test_memory_stays_flat(tmp_path, size):
    small, large = size(40, 100), size(200, 1000)
    _, first = imported(tmp_path, small, 100)
    seconds, most = imported(tmp_path, large, 100)
    assert most - first < MOST_MORE_KIB
    assert seconds < SECONDS
