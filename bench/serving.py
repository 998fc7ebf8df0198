"""What the server costs: the same requests to `octavo serve` and to a bare FastAPI endpoint, one after the other.

Each server and the client are processes of their own on loopback. Servers take turns, so that a busy moment of the
machine meets all of them, and the best round of each counts: a busy machine only ever takes away.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.bare_server import memory
from bench.places import Places
from octavo import Add, Record, Scope, open_store

GOAL = 0.4  # of a bare endpoint's reads
BARE, PLAIN = "bare FastAPI, msgspec", "bare FastAPI, dict"
HERE = Path(__file__).parent
BODY = {
    "content": "用户今天下午参加了技术分享会，讨论了人工智能的应用",
    "memory_layer": "event",
    "metadata": {"source": "bench"},
}


class Size(NamedTuple):
    """How long each server is asked in each round, by how many connections, and how many memories its tables hold."""

    seconds: float
    rounds: int
    connections: int
    tables: tuple[int, ...]


QUICK = Size(0.2, 1, 4, (1_000, 2_000))
FULL = Size(0.8, 3, 16, (1_000, 100_000))


class Line(NamedTuple):
    """One server at one kind of request; `ratio` is its rate to the bare endpoint's, `busy` the client's share of a core.

    `cpu_us` is what a request costs the server's process in the cheapest round: it hardly depends on who else uses the
    machine.
    """

    request: str
    server: str
    rate: float
    p50_ms: float
    p99_ms: float
    busy: float
    cpu_us: float | None
    ratio: float


class Served(NamedTuple):
    """A server that runs."""

    port: int
    pid: int


class Target(NamedTuple):
    """Where a kind of request goes."""

    server: str
    at: "Served"
    requests: list[str]


async def measured(places: Places, size: Size) -> list[Line]:
    """Profiles of 10 and of 100 memories read, and single memories written; in a small table and in a large one."""
    lines: list[Line] = []
    with ExitStack() as stack:
        bare = stack.enter_context(_process([sys.executable, str(HERE / "bare_server.py")], places))
        ours = {}
        for memories in size.tables:
            url = f"sqlite:///{places.path('.db')}"
            await fill(url, memories)
            ours[memories] = stack.enter_context(serve(url, places))
        for held in (10, 100):
            name = f"GET profile of {held}"
            requests = [f"/memory/user/u{held}-{number}/profile" for number in range(5)]
            lines += _compared(name, _targets(bare, ours, [_get(path) for path in requests]), size)
        requests = [_post(f"/memory/user/w{number}", BODY) for number in range(100)]
        lines += _compared("POST direct", _targets(bare, ours, requests), size)
    return lines


def _targets(bare: Served, ours: dict[int, Served], requests: list[str]) -> list[Target]:
    def below(prefix: str) -> list[str]:
        return [request.replace(" /", f" /{prefix}/", 1) for request in requests]

    return [
        Target(BARE, bare, below("encoded")),
        Target(PLAIN, bare, below("plain")),
        *(Target(f"octavo, {memories:,} memories", port, requests) for memories, port in ours.items()),
    ]


def _compared(name: str, targets: list[Target], size: Size) -> list[Line]:
    rounds: dict[str, list[dict[str, float]]] = {target.server: [] for target in targets}
    for _ in range(size.rounds):
        for target in targets:
            before = cpu_seconds(target.at.pid)
            found = _load(target, size)
            after, answered = cpu_seconds(target.at.pid), found.pop("answered")
            spent = {} if before is None or after is None else {"cpu_us": (after - before) / answered * 1e6}
            rounds[target.server].append({**found, **spent})
    best = {server: max(each, key=lambda found: found["rate"]) for server, each in rounds.items()}
    cheapest = {
        server: min((found["cpu_us"] for found in each if "cpu_us" in found), default=None)
        for server, each in rounds.items()
    }
    base = best[BARE]["rate"]
    return [
        Line(name, server, **{**found, "cpu_us": cheapest[server]}, ratio=found["rate"] / base)
        for server, found in best.items()
    ]


def cpu_seconds(pid: int) -> float | None:
    """The seconds of a core that a process has used; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load(target: Target, size: Size) -> dict[str, float]:
    asked = {
        "port": target.at.port,
        "requests": target.requests,
        "seconds": size.seconds,
        "connections": size.connections,
    }
    command = [sys.executable, str(HERE / "http_load.py")]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{target.server}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _get(path: str) -> str:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"


def _post(path: str, body: dict) -> str:
    content = json.dumps(body, ensure_ascii=False)
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content.encode())}\r\n\r\n{content}"
    )


def serve(url: str, places: Places) -> AbstractContextManager[Served]:
    """`octavo serve` on a store, in a process of its own."""
    command = [sys.executable, "-m", "octavo.cli", "serve", "--store", url, "--port", "0", "--json", "-q"]
    return _process(command, places)


@contextmanager
def _process(command: list[str], places: Places) -> Iterator[Served]:
    """A server in a process of its own; it prints its address in a JSON document."""
    folder = places.path()
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO")}
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log)
        try:
            told = b""
            for line in process.stdout or ():
                told += line
                if line.rstrip().endswith(b"}"):
                    break
            if not told:
                log.seek(0)
                raise RuntimeError(f"the server did not start: {log.read()}")
            yield Served(urlsplit(json.loads(told)["url"]).port or 0, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


async def fill(url: str, memories: int) -> None:
    """Half of the memories in profiles of 10, half in profiles of 100, each with its log row."""
    async with open_store(url) as store:
        for held in (10, 100):
            for first in range(0, memories // 2 // held, 50):
                users = range(first, min(first + 50, memories // 2 // held))
                records = [
                    record
                    for user in users
                    for number in range(held)
                    for record in _records(f"u{held}-{user}", number)
                ]
                await store.apply([Add(records)])


def _records(user: str, number: int) -> list[Record]:
    told = memory(user, number)
    common = {"created_at": told["created_at"], "metadata": told["metadata"]}
    kept = Record(
        collection="profile",
        id=told["id"],
        kind=told["category"],
        scope=Scope(user=user),
        text=told["content"],
        data={"is_permanent": True, "sources": [], "version": 1},
        marks=("v1",),
        **common,
    )
    row = Record(
        collection="log",
        id=f"log_{told['id']}_1",
        kind="insert",
        scope=Scope(user=user, session=told["id"]),
        text="a sample to measure",
        data={"memory_layer": "profile", "version": 1},
        **common,
    )
    return [kept, row]


def table(lines: list[Line], *, markdown: bool) -> str:
    """One row for each server and kind of request, and what the numbers are worth."""
    rows = [("request", "server", "requests/s", "p50, ms", "p99, ms", "CPU, µs", "of bare", "goal")]
    for line in lines:
        judged = ""
        if line.request.startswith("GET") and line.server not in (BARE, PLAIN):
            judged = "ok" if line.ratio >= GOAL else f"under {GOAL}"
        rows.append(
            (
                line.request,
                line.server,
                f"{line.rate:,.0f}",
                f"{line.p50_ms:.2f}",
                f"{line.p99_ms:.2f}",
                "" if line.cpu_us is None else f"{line.cpu_us:,.0f}",
                f"{line.ratio:.2f}",
                judged,
            )
        )
    most = max(line.busy for line in lines)
    note = (
        f"the client was busy for at most {most:.0%} of a core; loopback, one worker, SQLite, keep-alive, no keys and "
        "no log of requests; reads are of five users in turn, and p99 is that of the best round"
    )
    if markdown:
        shown = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([shown[0], "|" + "---|" * len(rows[0]), *shown[1:], "", note])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    aligned = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*aligned, note])
