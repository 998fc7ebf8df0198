"""A page of Markdown, read as its reader would: every block run from top to bottom in one folder, and its output compared."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from servers import Unavailable
from warm import programs

ROOT = Path(__file__).parents[2]
PORT = "8000"  # the one that pages show; tests have one of their own
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<kind>[\w-]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
# What differs from run to run, and is compared as if it did not.
UNSTEADY = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d+\.\d+ (s|ms|seconds)\b"), r"N \1"),
    (re.compile(r"\b(user|agent)_(\w+?)_\d{6,}\.\d+"), r"\1_\2_N"),
    (re.compile(r"\b(q|evt|obs|event|turn|msg|log)_[0-9a-f]{12,}\b"), r"\1_ID"),
    (re.compile(r"\b\d+ bytes"), "N bytes"),
)


class Block(NamedTuple):
    """A fenced block and the line its fence stands in."""

    kind: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["text"], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def commands(block: Block) -> list[tuple[str, str]]:
    """Each command of a console block with what is shown under it."""
    return COMMAND.findall(block.text)


def steady(printed: str) -> str:
    for pattern, instead in UNSTEADY:
        printed = pattern.sub(instead, printed)
    return printed


def agrees(printed: str, shown: str) -> bool:
    """Whether this is what the page shows; … in the page is anything, also several lines of it."""
    pattern = ".*".join(re.escape(part) for part in steady(shown).rstrip("\n").split("…"))
    return re.fullmatch(pattern, steady(printed).rstrip("\n"), re.DOTALL) is not None


def targets(page: Path) -> list[str]:
    """The files a page links to."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in links if "://" not in link]


class Reader:
    """Somebody with an empty folder, who does what a page says; `own` gives the test's address for one on the page."""

    def __init__(self, folder: Path, own: Mapping[str, str] | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = str(taken.getsockname()[1])
        self.folder = folder
        self.own = {**(own or {}), f"127.0.0.1:{PORT}": f"127.0.0.1:{self.port}"}
        path = [programs(), os.environ["PATH"]]
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO_")} | {
            "PATH": os.pathsep.join(path),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONWARNINGS": "error",
            "XDG_STATE_HOME": str(folder / ".state"),
            "NO_PROXY": "127.0.0.1",
            "OCTAVO__SERVER__PORT": self.port,
            "CURL_HOME": str(folder / ".state"),
        }
        # Into a terminal curl writes no progress; into a pipe it would.
        (folder / ".state").mkdir(exist_ok=True)
        (folder / ".state" / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
        self.ran: list[str] = []
        self._printed = ""
        self._serving: list[Serving] = []

    def read(self, page: Path) -> None:
        """Run the page from top to bottom."""
        for block in blocks(page):
            where = f"{page.name}, line {block.line}"
            if block.kind == "python":
                self._printed = self._run(["python", "-c", self._addressed(block.text)], where)
            elif block.kind == "output":
                assert agrees(self._shown(self._printed), block.text), f"{where}: {self._printed}"
            elif block.kind == "console":
                for command, shown in commands(block):
                    self._do(command, shown, f"{where}: {command}")
            elif block.kind in ("yaml", "toml", "ini"):
                name = re.match(r"# (\S+)\n", block.text)
                assert name, f"{where}: a file needs its name in its first line"
                (self.folder / name[1]).write_text(self._addressed(block.text), encoding="utf-8")
            else:
                assert block.kind in ("text", "mermaid"), f"{where}: nothing runs a block of {block.kind!r}"
                continue
            self.ran.append(block.kind)

    def _do(self, command: str, shown: str, where: str) -> None:
        command = re.sub(r"^make run$", made("run"), command)
        if command.startswith("curl ") and not shutil.which("curl"):
            raise Unavailable("curl is not installed")
        if command.startswith("octavo serve"):
            self._serving.append(Serving(command, self))
            printed = self._serving[-1].began(shown.count("\n"))
        else:
            printed = self._run(self._addressed(command), where, shell=True)
        assert agrees(self._shown(printed), shown), f"{where}:\n{printed}"

    def _addressed(self, text: str) -> str:
        for shown, own in self.own.items():
            text = text.replace(shown, own)
        return text

    def _shown(self, text: str) -> str:
        for shown, own in self.own.items():
            text = text.replace(own, shown)
        return text

    def _run(self, command: str | list[str], where: str, *, shell: bool = False) -> str:
        """What it prints; of a program only what it prints itself, not what it logs."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if shell else subprocess.PIPE,
            text=True, check=False, timeout=120, shell=shell,
        )  # fmt: skip
        assert done.returncode == 0, f"{where}: {done.stdout}{done.stderr or ''}"
        return done.stdout

    def close(self) -> list[tuple[int, str]]:
        """Stop what the page started; how each ended, and all it said."""
        return [serving.stop() for serving in self._serving]


class Serving:
    """A command that goes on while the page does, on a port of the test's own."""

    def __init__(self, command: str, reader: Reader) -> None:
        self._log = reader.folder / ".state" / "requests.log"
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                shlex.split(command), cwd=reader.folder, env=reader.env, stdout=subprocess.PIPE, stderr=log, text=True
            )  # fmt: skip
        self._lines: list[str] = []
        self._came = threading.Condition()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            with self._came:
                self._lines.append(line)
                self._came.notify_all()
        with self._came:
            self._came.notify_all()

    def began(self, lines: int) -> str:
        """The first lines it prints, as soon as they are there or it has ended."""
        with self._came:
            self._came.wait_for(
                lambda: len(self._lines) >= lines or self._process.poll() is not None, timeout=60
            )
            return "".join(self._lines[:lines])

    def stop(self) -> tuple[int, str]:
        """Ask it to end, as Ctrl-C does; its status, and all it said."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        code = self._process.wait(timeout=60)
        self._listening.join(timeout=10)
        if self._process.stdout:
            self._process.stdout.close()
        return code, "".join(self._lines) + self._log.read_text(encoding="utf-8")


def made(target: str) -> str:
    """The command that `make` runs for a target, without what sets it up, what it tells meanwhile and what variables add."""
    recipe = re.search(
        rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert recipe, f"the Makefile has no {target}"
    lines = [
        line.lstrip("\t@").replace("$(BIN)/", "").partition(" $${")[0] for line in recipe[1].splitlines()
    ]
    return next(line for line in lines if line.startswith(("octavo ", "python ")))


@contextmanager
def reader(folder: Path, own: Mapping[str, str] | None = None) -> Iterator[Reader]:
    """A reader whose servers are stopped in the end, and must have stopped well."""
    somebody = Reader(folder, own)
    try:
        yield somebody
    except BaseException:
        somebody.close()  # what went wrong on the page is the news
        raise
    ends = somebody.close()
    assert [code for code, _ in ends if code != 0] == [], ends
