"""How much memory a server takes over time: mixed requests of three tenants and 15,000 users, and its size every minute.

    python -m bench.soak --minutes 30 --texts ordinary
    python -m bench.soak --minutes 30 --texts hostile

The server is a process of its own over a new SQLite file; the client sends as fast as it is answered, over four
connections of loopback. The memory is flat if the second half adds less than a twentieth, or 8 MiB if that is more.

The server has 8 MiB for its caches (`cache.max_bytes`), which are full after some 30,000 requests of ordinary texts: what
grows from then on is no cache. The usual 64 MiB take far longer to fill with such texts; `--cache-mib 64` runs with them.
"""

import argparse
import asyncio
import http.client
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.heartbeat import SHAPES
from octavo import open_store
from octavo.keys import Keys

TENANTS, USERS, CONNECTIONS = 3, 15_000, 4
WORDS = [
    "tea",
    "coffee",
    "Oslo",
    "Berlin",
    "nurse",
    "teacher",
    "guitar",
    "chess",
    "red",
    "garden",
    "train",
    "river",
    "北京",
    "医生",
    "喜欢",
    "咖啡",
    "昨天",
    "会议",
    "项目",
    "数据库",
]
SAID = ("I like {0}.", "I am a {0} and I live in {1}.", "我喜欢{0}。", "Yesterday we talked about {0} and {1}.", "我是{0}，住在{1}。")  # fmt: skip


def main() -> int:
    """Run it, print a line a minute, and answer 0 if the memory stayed flat."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--texts", choices=("ordinary", "hostile"), default="ordinary")
    parser.add_argument("--store", default="", help="a store's URL; a new SQLite file unless it is given")
    parser.add_argument("--cache-mib", type=int, default=8, help="what the server's caches may take together")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes, answered = _soak(Path(folder), given.minutes, given.texts, given.store, given.cache_mib)
    half = len(sizes) // 2
    grown = max(sizes[-3:]) - sizes[half]
    flat = grown <= max(sizes[half] / 20, 8)
    print(f"{answered} answered; second half {grown:+.1f} MiB: {'flat' if flat else 'growing'}")
    return 0 if flat else 1


def _soak(folder: Path, minutes: float, texts: str, store: str, cache_mib: int) -> tuple[list[float], int]:
    url = store or f"sqlite:///{folder}/soak.db"
    keys = asyncio.run(_keys(url))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO")}
    own = {
        "OCTAVO__SERVER__AUTH": "on",
        "OCTAVO__SERVER__REQUESTS_PER_MINUTE": "1000000",
        "OCTAVO__CACHE__MAX_BYTES": str(cache_mib * 2**20),
    }
    command = [sys.executable, "-m", "octavo.cli", "serve", "--store", url, "--port", "0", "--json"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env={**clean, **own}, stdout=subprocess.PIPE, stderr=log
        )
        try:
            document = b""
            for line in server.stdout or ():
                document += line
                if line.rstrip() == b"}":
                    break
            port = urlsplit(json.loads(document)["url"]).port
            return _load(server.pid, port or 0, keys, minutes, texts)
        finally:
            server.terminate()
            server.wait(60)


async def _keys(url: str) -> list[str]:
    async with open_store(url) as store:
        return [
            (await Keys(store).create(f"soak {n}", access="write", tenant=f"t{n}")).key
            for n in range(TENANTS)
        ]


def _load(pid: int, port: int, keys: list[str], minutes: float, texts: str) -> tuple[list[float], int]:
    end = time.monotonic() + minutes * 60
    counts = [0] * CONNECTIONS
    trouble: list[str] = []
    callers = [
        threading.Thread(target=_call, args=(port, keys, end, texts, counts, n, trouble))
        for n in range(CONNECTIONS)
    ]
    for caller in callers:
        caller.start()
    sizes = [_resident(pid)]
    print(f"minute  0.0: {sizes[0]:7.1f} MiB", flush=True)
    step = min(60.0, minutes * 6)
    for number in itertools.count(1):
        time.sleep(max(0.0, min(step, end - time.monotonic())))
        sizes.append(_resident(pid))
        told = f"; {trouble[0]}" if trouble else ""
        print(
            f"minute {number * step / 60:4.1f}: {sizes[-1]:7.1f} MiB, {sum(counts)} answered{told}",
            flush=True,
        )
        if time.monotonic() >= end:
            break
    for caller in callers:
        caller.join()
    return sizes, sum(counts)


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _call(
    port: int, keys: list[str], end: float, texts: str, counts: list[int], number: int, trouble: list[str]
) -> None:
    rng = random.Random(number)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while time.monotonic() < end:
        method, path, body = _request(rng, texts)
        headers = {"Authorization": f"Bearer {rng.choice(keys)}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
        except OSError as error:
            trouble.append(f"{type(error).__name__}: {error}")
            connection.close()
            continue
        counts[number] += 1
        if answer.status >= 400:
            trouble.append(
                f"{method} {path.partition('?')[0]}: {answer.status} {said[:120].decode(errors='replace')}"
            )


def _request(rng: random.Random, texts: str) -> tuple[str, str, dict | None]:
    who = f"user{rng.randrange(USERS)}"
    text = _text(rng, texts)
    kind = rng.randrange(10)
    if kind < 3:
        return (
            "POST",
            f"/memory/user/{who}",
            {"content": text, "memory_layer": rng.choice(("profile", "event"))},
        )
    if kind < 5:
        return "POST", f"/memory/user/{who}", {"content": text, "auto_extract": True}
    if kind < 6:
        return "POST", "/memory/query", {"query": text[:2000], "user_id": who}
    if kind < 8:
        return "POST", "/events", {"session_key": f"dm:{who}", "payload": {"text": text}}
    if kind < 9:
        return "GET", f"/memory/user/{who}/profile", None
    return "GET", f"/memory/user/{who}/events?limit=20", None


def _text(rng: random.Random, texts: str) -> str:
    if texts == "hostile":
        piece = rng.choice(list(SHAPES.values()))
        # Another one each time, or the caches would hold a few texts only.
        return f"{rng.random()} {(piece * 20_000)[: rng.choice((500, 5_000, 20_000))]}"
    return " ".join(rng.choice(SAID).format(*rng.sample(WORDS, 2)) for _ in range(rng.randrange(1, 4)))


if __name__ == "__main__":
    raise SystemExit(main())
