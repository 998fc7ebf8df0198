"""How long one request holds up everybody else: a heartbeat in the server, and requests of every hostile shape.

    python -m bench.heartbeat [--size 1048576] [--store URL]

The application runs in this process, without a socket: bodies are made before, so that nothing but the server's own work is
measured. Printed is the longest pause of the event loop for each kind of request and each shape, in ms by the clock / of work
in the loop's own thread; the goal is 100 ms by the clock on a machine that does nothing else.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from octavo.config import Database, FailureQueue, Server, Settings
from octavo.server import create_app

GOAL_SECONDS = 0.1
#: What a text is made of, again and again.
SHAPES = {
    "letter": "a", "spaces": "a        ", "punctuation": ".,;:!?-()", "sentences": "a. ", "joined sentences": "a.",
    "digits": "1", "dates": "2024-05-07 ", "English dates": "May 7, 2024 ", "Chinese dates": "昨天2024年5月7日我",
    "no punctuation": "中文字符没有标点", "I am, Chinese": "我是", "I like, Chinese": "我喜欢茶。", "clauses": "我是老师，",
    "quotes": "\"'“”‘’「", "nested": "「『([", "long words": "supercalifragilistic" * 50 + " ", "newlines": "\n", "lines": "a\n",
    "I am": "I am ", "I like": "I like tea. ", "URLs": "http://a.b/c?d=e&f=g/ ", "emails": "a@b.co,", "hyphens": "a-",
    "camels": "aB", "emoji": "😀", "ligatures": "\ufdfa", "accents": "e\u0301", "speakers": "user: I am\n", "code": "```",
    "JSON": '{"a":[1,2,{"b":"c"}]},', "thousands": "1,000,", "spaced Chinese": "中 ",
}  # fmt: skip


class Heartbeat:
    """The longest pause of the running event loop while this is open: by the clock, and in work of the loop's own thread.

    The second one does not grow when others use the machine, but neither does it show a thread that holds the interpreter.
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
        before, worked = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now, work = time.perf_counter(), time.thread_time()
            self.longest_seconds = max(self.longest_seconds, now - before - 0.001)
            self.longest_work_seconds = max(self.longest_work_seconds, work - worked)
            before, worked = now, work


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
        "query": ("POST", "/memory/query", spelled(query=text, user_id=user)),
        "query for it": ("POST", "/memory/query", spelled(query="So what?", user_id=user)),
        "append": ("POST", "/events", spelled(session_key=user, payload={"text": text})),
        "list": ("GET", f"/memory/user/{user}/profile", None),
    }


async def longest(app: Any, text: str, user: str) -> dict[str, tuple[float, float, int]]:
    """Of each kind of request, the longest pause by the clock and in work, and the status of its answer."""
    found = {}
    for kind, (method, path, body) in requests(text, user).items():
        async with Heartbeat() as heart:
            status, _ = await asked(app, method, path, body)
        found[kind] = (heart.longest_seconds, heart.longest_work_seconds, status)
    return found


def settings_in(folder: Path, url: str = "") -> Settings:
    """A server's settings with all its files in that folder."""
    return Settings(
        database=Database(dsn=url or f"sqlite:///{folder}/heartbeat.db"),
        failure_queue=FailureQueue(directory=str(folder / "queue")),
        server=Server(auth="off", max_body_bytes=16 * 2**20),
    )


async def _main(size: int, url: str, only: str) -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(settings_in(Path(folder), url))
        async with app.router.lifespan_context(app):
            await asked(app, "POST", "/memory/query", b'{"query": "warm", "user_id": "w"}')
            await longest(app, "I like tea. 我是老师。", "warm")
            for number, (name, piece) in enumerate(SHAPES.items()):
                if only and only != name:
                    continue
                found = await longest(app, shaped(piece, size), f"user{number}")
                worst = max(worst, *(pause for pause, _, _ in found.values()))
                told = ", ".join(
                    f"{kind} {pause * 1000:.0f}/{work * 1000:.0f}" + (f" ({status})" if status != 200 else "")
                    for kind, (pause, work, status) in found.items()
                    if pause > GOAL_SECONDS / 4 or status != 200
                )
                print(f"{name:18} {told}", flush=True)
    print(f"longest pause: {worst * 1000:.0f} ms; the goal is {GOAL_SECONDS * 1000:.0f} ms")
    return 0 if worst <= GOAL_SECONDS else 1


def main() -> int:
    """Ask for everything, and answer 0 if nobody waited longer than the goal."""
    parser = argparse.ArgumentParser(prog="python -m bench.heartbeat", description=__doc__)
    parser.add_argument("--size", type=int, default=2**20, help="bytes of each text")
    parser.add_argument("--store", default="", help="a store's URL; a new SQLite file unless it is given")
    parser.add_argument("--only", default="", help="only this shape")
    given = parser.parse_args()
    return asyncio.run(_main(given.size, given.store, given.only))


if __name__ == "__main__":
    raise SystemExit(main())
