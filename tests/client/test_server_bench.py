"""`python -m bench --server` runs and prints its table; what it measures is not judged here."""

import subprocess
import sys
from pathlib import Path

from sampled import only_torture

ROOT = Path(__file__).parents[2]


@only_torture
def test_it_prints_a_line_for_each_server(tmp_path):
    """Every kind of request, to the bare endpoints and to a small and a larger table, and nothing is left behind."""
    command = [sys.executable, "-W", "error", "-m", "bench", "--server", "--quick", "--markdown", "--results", str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    told, _, note = done.stdout.partition("\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in told.splitlines()]
    assert rows[0] == ["request", "server", "requests/s", "p50, ms", "p99, ms", "CPU, µs", "of bare", "goal"]
    servers = [
        "bare FastAPI, msgspec",
        "bare FastAPI, dict",
        "octavo, 1,000 memories",
        "octavo, 2,000 memories",
    ]
    requests = ["GET profile of 10", "GET profile of 100", "POST direct"]
    assert [row[:2] for row in rows[2:]] == [[request, server] for request in requests for server in servers]
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[2:])
    assert [row[6] for row in rows[2::4]] == ["1.00"] * 3
    assert note.startswith("the client was busy for at most ")
    assert list(tmp_path.iterdir()) == []


def test_the_answers_compared_are_alike(tmp_path):
    """The bare endpoint sends what the server would: the same fields, for the same number of memories."""
    import asyncio

    import msgspec

    sys.path.insert(0, str(ROOT))
    from bench.bare_server import _profile
    from bench.serving import fill

    from octavo.layers import LayeredMemory

    async def ours():
        url = f"sqlite:///{tmp_path}/filled.db"
        await fill(url, 1000)
        async with LayeredMemory(url) as memory:
            return await memory.profile(user_id="u10-1"), await memory.profile(user_id="u100-4")

    for held, size in zip(asyncio.run(ours()), (10, 100), strict=True):
        bare = msgspec.json.decode(msgspec.json.encode(_profile(f"u{size}-1", 1000)["memories"]))
        real = msgspec.json.decode(msgspec.json.encode(held))
        assert len(bare) == len(real) == size
        assert list(bare[0]) == list(real[0])
        assert sorted(each["content"] for each in bare) == sorted(each["content"] for each in real)
