"""How long one request holds up everybody else: a heartbeat in the server, and requests of every hostile shape.

    python -m bench.heartbeat [--size 1048576] [--store URL]

The application runs in this process, without a socket: bodies are made before, so that nothing but the server's own work is
measured. Printed is the longest pause of the event loop for each kind of request and each shape, in ms by the clock / of work
in the loop's own thread; the goal is 100 ms by the clock on a machine that does nothing else.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Self, TypeAlias

from octavo.config import Database, FailureQueue, Server, Settings
from octavo.server.requests import MAX_QUESTION_BYTES
from octavo.server.running import WorkerApp

GOAL_SECONDS = 0.1
Pause: TypeAlias = tuple[float, float, int]
#: What a text is made of, again and again.
SHAPES = {
    "letter": "a", "spaces": "a        ", "punctuation": ".,;:!?-()", "sentences": "a. ", "joined sentences": "a.",
    "digits": "1", "dates": "2024-05-07 ", "English dates": "May 7, 2024 ", "Chinese dates": "昨天2024年5月7日我",
    "no punctuation": "中文字符没有标点", "I am, Chinese": "我是", "I like, Chinese": "我喜欢茶。", "clauses": "我是老师，",
    "quotes": "\"'“”‘’「", "nested": "「『([", "long words": "supercalifragilistic" * 50 + " ", "newlines": "\n", "lines": "a\n",
    "I am": "I am ", "I like": "I like tea. ", "URLs": "http://a.b/c?d=e&f=g/ ", "emails": "a@b.co,", "hyphens": "a-",
    "camels": "aB", "emoji": "😀", "ligatures": "\ufdfa", "accents": "e\u0301", "marks": "\u0315\u0300\u0327", "speakers": "user: I am\n", "code": "```",
    "JSON": '{"a":[1,2,{"b":"c"}]},', "thousands": "1,000,", "spaced Chinese": "中 ",
}  # fmt: skip


class Heartbeat:
    """The longest pause of the running event loop while this is open: by the clock, and in work of the loop's own thread.

    What the loop waited for a processor that other programs, or other machines on the same hardware, had is left out of
    the first, where the system tells it; but never what this process itself worked meanwhile. The second one hardly grows
    when others use the machine, but neither does it show a thread that holds the interpreter.
    """

    longest_seconds = longest_work_seconds = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._beat())
        await asyncio.sleep(0.01)
        self.longest_seconds = self.longest_work_seconds = 0.0
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.sleep(0)
        self._task.cancel()

    async def _beat(self) -> None:
        before = _clocks()
        while True:
            await asyncio.sleep(0.001)
            now = _clocks()
            passed, waited, work, process_work = (new - old for new, old in zip(now, before, strict=True))
            pause = max(passed - waited, min(passed, process_work)) - 0.001
            self.longest_seconds = max(self.longest_seconds, pause)
            self.longest_work_seconds = max(self.longest_work_seconds, work)
            before = now


def _clocks() -> tuple[float, float, float, float]:
    """Seconds by the clock, those waited for a processor, those of work in this thread, and in the whole process."""
    return time.perf_counter(), _waited(), time.thread_time(), time.process_time()


def _waited() -> float:
    """The seconds that this thread was ready, or this machine, and had no processor; 0 where the system does not tell."""
    try:
        ready = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
        stolen = int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
    return ready + stolen


def shaped(piece: str, size: int) -> str:
    """The piece again and again, as many bytes of UTF-8 as that; it begins with a word, since a text must say something."""
    text = piece * (size // len(piece.encode()) + 1)
    return ("So " + text).encode()[:size].decode("utf-8", "ignore")


async def asked(app: Any, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """What the application answers, called as a server would."""
    path, _, query = path.partition("?")
    sent: list[dict[str, Any]] = [{"type": "http.request", "body": body or b"", "more_body": False}]
    status, said = 0, b""

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else await asyncio.sleep(3600, {})

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, said
        status = message.get("status", status)
        said += message.get("body", b"")

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers += [(b"content-length", str(len(body)).encode())] if body else []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await app(scope, receive, send)
    return status, said


def requests(text: str, user: str) -> dict[str, tuple[str, str, bytes | None]]:
    """The kinds of request, each with this text."""
    question = text.encode()[:MAX_QUESTION_BYTES].decode("utf-8", "ignore")
    spelled = lambda **body: json.dumps(body, ensure_ascii=False).encode()  # noqa: E731
    return {
        "event": ("POST", f"/memory/user/{user}", spelled(content=text)),
        "profile": ("POST", f"/memory/user/{user}", spelled(content=text, memory_layer="profile")),
        "extract": ("POST", f"/memory/user/{user}", spelled(content=text, auto_extract=True)),
        "extract beside it": (
            "POST",
            f"/memory/user/{user}",
            spelled(content="I like tea.", auto_extract=True),
        ),
        "query": ("POST", "/memory/query", spelled(query=question, user_id=user)),
        "query for it": ("POST", "/memory/query", spelled(query="So what?", user_id=user)),
        "append": ("POST", "/events", spelled(session_key=user, payload={"text": text})),
        "list": ("GET", f"/memory/user/{user}/profile", None),
    }


def bodies(size: int) -> dict[str, bytes]:
    """Bodies that are much work for their bytes: escapes, many values, many names, and what is no JSON after all."""
    many = 19_900  # values; a body with more than 20,000 is refused
    spelled = {
        "escaped": b'{"content":"So %b"}' % (b"\\u0001" * (size - 3)),
        "escaped pairs": b'{"content":"So %b"}' % (b"\\ud83d\\ude00" * (size // 4 - 1)),
        "escaped quotes": b'{"content":"So %b"}' % (b'\\"' * (size - 3)),
        "backslashes": b'{"content":"So %b"}' % (b"\\\\" * (size - 3)),
        "commas": b'{"content":"So %b"}' % (b"," * (size - 3)),
        "not closed": b'{"content":"So %b' % (b"\\u0001" * size),
        "wrong kind": b'{"content":[%b]}' % b",".join([b"[]"] * (many // 2)),
        "a long number": b'{"content":"So","metadata":{"a":0.%b}}' % (b"7" * (size * 6)),
        "a long whole number": b'{"content":"So","metadata":{"a":%b}}' % (b"7" * (size * 6)),
        "too many lists": b'{"content":"So","metadata":{"a":[%b]}}' % b",".join([b"[]"] * (2 * size)),
        "too many texts": b'{"content":"So","metadata":{"a":[%b]}}' % b",".join([b'""'] * (2 * size)),
        "unknown names": b'{"content":"So",%b}' % b",".join(b'"%x":1' % n for n in range(many)),
    }
    values = {
        "numbers": b'{"a":[%b]}' % b",".join([b"1"] * many),
        "lists": b'{"a":[%b]}' % b",".join([b"[]"] * (many // 2)),
        "objects": b'{"a":[%b]}' % b",".join([b'{"a":1}'] * (many // 2)),
        "names": b"{%b}" % b",".join(b'"%x":1' % n for n in range(many)),
        "texts": b'{"a":[%b]}' % b",".join([b'"%b"' % (b"a" * (size * 6 // many))] * many),
        "nested": b'{"a":[%b]}' % b",".join([b"[" * 60 + b"]" * 60] * (many // 60)),
        "a long text": b'{"text":"%b"}' % (b"a. " * (size * 2)),
        "a long text of ligatures": b'{"text":"%b"}' % ("\ufdfa" * (size * 2)).encode(),
    }
    return spelled | {
        f"{kind} of {name}": b'{"content":"So","metadata":%b}' % given if kind == "metadata" else b'{"session_key":"%b","payload":%b}' % (name.encode(), given)
        for name, given in values.items()
        for kind in ("metadata", "payload")
    }  # fmt: skip


async def measured(app: Any, method: str, path: str, body: bytes | None, times: int = 1) -> Pause:
    """The longest pause of one request by the clock and in work, and the status; of several times the least.

    What else the machine does makes a pause longer and never shorter.
    """
    found = []
    for _ in range(times):
        async with Heartbeat() as heart:
            status, _ = await asked(app, method, path, body)
        found.append((heart.longest_seconds, heart.longest_work_seconds, status))
    return min(found)


async def longest(app: Any, text: str, user: str, times: int = 1) -> dict[str, Pause]:
    """The pauses of each kind of request with this text."""
    return {kind: await measured(app, *asks, times) for kind, asks in requests(text, user).items()}


async def of_bodies(app: Any, size: int, times: int = 1) -> dict[str, Pause]:
    """The pauses of each body, and of reading what was kept of them."""
    found = {}
    for number, (name, body) in enumerate(bodies(size).items()):
        path = "/events" if body.startswith(b'{"session_key"') else f"/memory/user/body{number}"
        found[name] = await measured(app, "POST", path, body, times)
        reading = f"/sessions/{name.partition(' of ')[2]}/events" if path == "/events" else f"{path}/events"
        found[f"reading {name}"] = await measured(app, "GET", reading.replace(" ", "%20"), None, times)
        if path != "/events":
            found[f"log of {name}"] = await measured(app, "GET", f"{path}/logs", None, times)
    return found


async def of_pages(app: Any, size: int, times: int = 1) -> dict[str, Pause]:
    """The pauses of listings whose pages are as large as they may be: of many small records, and of few with many values."""
    kept = {
        "small": (500, {"content": "So " + "我喜欢茶。" * 60}),
        "plain": (500, {"content": "So " + "a. " * 1400}),
        "values": (150, {"content": "So", "metadata": {"a": [[]] * 9_900}}),
    }
    found = {}
    for name, (number, body) in kept.items():
        spelled = json.dumps({**body, "memory_layer": "profile"}, ensure_ascii=False).encode()
        for _ in range(max(1, number * size // 2**20 // 10)):
            await asyncio.gather(*(asked(app, "POST", f"/memory/user/{name}", spelled) for _ in range(10)))
        for listing in ("profile", "profile?limit=10000", "events?limit=1000", "logs?limit=1000"):
            path = f"/memory/user/{name}/{listing}"
            found[f"{name}: {listing}"] = await measured(app, "GET", path, None, times)
        question = json.dumps({"query": "So what?", "user_id": name, "top_k": 100}).encode()
        found[f"{name}: query"] = await measured(app, "POST", "/memory/query", question, times)
        more = json.dumps({"content": "I like tea.", "auto_extract": True}).encode()
        found[f"{name}: extract"] = await measured(app, "POST", f"/memory/user/{name}", more, times)
    for path in (
        "/health",
        "/stats",
        "/queue",
        "/config",
        "/sessions",
        "/events?limit=1000",
        "/docs",
        "/openapi.json",
    ):
        found[path] = await measured(app, "GET", path, None)
    return found


def settings_in(folder: Path, url: str = "") -> Settings:
    """A server's settings with all its files in that folder."""
    return Settings(
        database=Database(dsn=url or f"sqlite:///{folder}/heartbeat.db"),
        failure_queue=FailureQueue(directory=str(folder / "queue")),
        server=Server(auth="off", max_body_bytes=16 * 2**20),
    )


async def _main(size: int, url: str, only: str, times: int) -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        app = WorkerApp(settings_in(Path(folder), url), False, False)()  # as `octavo serve` makes it
        async with app.router.lifespan_context(app):
            worst = _told("the first ones", await longest(app, "I like tea. 我是老师。", "warm"))
            for number, (name, piece) in enumerate(SHAPES.items()):
                if only in ("", name):
                    found = await longest(app, shaped(piece, size), f"user{number}", times)
                    worst = max(worst, _told(name, found))
            if only in ("", "bodies"):
                worst = max(worst, _told("bodies", await of_bodies(app, size, times)))
            if only in ("", "pages"):
                worst = max(worst, _told("pages", await of_pages(app, size, times)))
    print(f"longest pause: {worst * 1000:.0f} ms; the goal is {GOAL_SECONDS * 1000:.0f} ms")
    return 0 if worst <= GOAL_SECONDS else 1


def _told(name: str, found: dict[str, Pause]) -> float:
    """The longest of these pauses; those worth knowing are printed."""
    told = ", ".join(
        f"{kind} {pause * 1000:.0f}/{work * 1000:.0f}" + (f" ({status})" if status != 200 else "")
        for kind, (pause, work, status) in found.items()
        if pause > GOAL_SECONDS / 4
    )
    worst = max(pause for pause, _, _ in found.values())
    print(f"{name:18} {worst * 1000:4.0f}: {told}", flush=True)
    return worst


def main() -> int:
    """Ask for everything, and answer 0 if nobody waited longer than the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.heartbeat", description=__doc__)
    parser.add_argument("--size", type=int, default=2**20, help="bytes of each text")
    parser.add_argument("--store", default="", help="a store's URL; a new SQLite file unless it is given")
    parser.add_argument("--only", default="", help="only this shape; or bodies, or pages")
    parser.add_argument(
        "--times", type=int, default=1, help="how often each is asked; the least pause counts"
    )
    given = parser.parse_args()
    return asyncio.run(_main(given.size, given.store, given.only, given.times))


if __name__ == "__main__":
    raise SystemExit(main())
