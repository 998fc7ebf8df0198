"""`octavo` and `python` for tests of what programs print: each runs in a process forked from one that has imported it all already.

Half a second of every such program is Octavo's imports and patterns, and several where it imports a framework. Where it is the
start of a process that is tested, its signals or its environment, a test starts one of its own; `make torture` does so everywhere.
"""

import ast
import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

#: What stands in the folder as `octavo` and `python`: it hands its streams, words, environment and umask over, passes signals on,
#: and ends as they end.
_PROGRAM = """#!{python} -IS
import _signal, _socket, marshal, os, sys
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
if "-m" in words[1:4] or "--workers" in words:  # a module is run as it is; workers are imported anew anyway
    os.execv({beside!r} + words[0], [{beside!r} + words[0], *words[1:]])
asked = _socket.socket(_socket.AF_UNIX)
asked.connect({address!r})
streams = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
order = marshal.dumps((words, os.getcwd(), dict(os.environ), os.umask(0o077)))
asked.sendmsg([len(order).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
asked.sendall(order)
child = int.from_bytes(asked.recv(4), "big")
for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda number, _: os.kill(child, number))
told = asked.recv(1)
os._exit(told[0] if told else 70)
"""


@cache
def programs(python: Path | None = None, **environment: str) -> str:
    """The folder to put first in a PATH; of another environment's Python, what one program imports is there for the next."""
    from sampled import FULL  # with pytest, which the process that is forked has no use for

    beside = (python or Path(sys.executable)).parent
    if FULL:
        return str(beside)
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    address = folder / "socket"
    for name in ("octavo", "python"):
        program = folder / name
        program.write_text(
            _PROGRAM.format(python=beside / "python", beside=f"{beside}{os.sep}", address=str(address))
        )
        program.chmod(0o755)
    ready, told = os.pipe()
    process = subprocess.Popen(
        [beside / "python", __file__, str(address), str(told), *(["learns"] if python else [])],
        env={name: value for name, value in os.environ.items() if not name.startswith("OCTAVO")} | environment,
        pass_fds=[told], start_new_session=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(told)

    @atexit.register
    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    assert os.read(ready, 1), "the process that is to be forked did not start"
    os.close(ready)
    return str(folder)


def _import_ahead() -> None:
    """All that programs import, and the patterns that they compile; no thread may be started, since none outlives a fork."""
    from octavo.cli.commands import import_commands
    from octavo.layers.changes import signatures
    from octavo.search import subject

    import_commands()
    for name in (
        *("apsw", "yaml", "octavo.erasing.forgetting", "octavo.stores.sql.drivers.sqlite"),
        *("octavo.server.running", "octavo.server.app", "octavo.server.console.site"),
    ):
        importlib.import_module(name)
    subject._compile()
    for text in ("I live in Berlin and I am allergic to peanuts.", "我住在北京，对花生过敏。"):
        list(signatures(text, "user"))


def _imports_of(words: list[str], folder: str) -> Iterator[str]:
    """What stands at the top of a program."""
    with contextlib.suppress(OSError, SyntaxError):
        for line in ast.parse(words[2] if words[1] == "-c" else Path(folder, words[1]).read_bytes()).body:
            if isinstance(line, ast.Import):
                yield from (each.name for each in line.names)
            elif isinstance(line, ast.ImportFrom):
                yield line.module or ""


def _run(words: list[str], folder: str, environment: dict[str, str], umask: int) -> None:
    """Be that program, from now on."""
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    for stream, (name, mode, lines) in enumerate(
        (("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1))
    ):
        setattr(sys, name, open(stream, mode, lines, encoding=encoding, closefd=False))  # noqa: SIM115 - to the end of the process
    name, *words = words
    if words[:2] == ["-W", "error"]:
        del words[:2]
        warnings.simplefilter("error")
    if environment.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    if name == "octavo":
        from octavo.cli import main

        sys.argv = ["octavo", *words]
        main()
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[0] = ""
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(program))
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def _status_of(
    words: list[str], folder: str, environment: dict[str, str], umask: int, imported: Path | None
) -> int:
    """Be that program to its end, but for taking every module apart, which takes longer than most programs."""
    status = 0
    try:
        _run(words, folder, environment, umask)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = 120
    sys.stderr.flush()
    if imported and status == 0:  # most of what frameworks import, they import when it is used
        with imported.open("a") as file:
            file.write("".join(f"{name}\n" for name in list(sys.modules)))
    return status


def _serve(address: str, told: int, *, learns: bool) -> None:
    imported = Path(f"{address}.imported") if learns else None
    known: set[str] = set()
    if not learns:
        _import_ahead()
    gc.freeze()  # or the first collection of each child would copy all of it
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    listening.settimeout(1)
    owner = os.getppid()
    os.write(told, b" ")
    os.close(told)
    while os.getppid() == owner:  # a run that is killed cannot end it
        try:
            asked, _ = listening.accept()
        except TimeoutError:
            continue
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        length, streams, _, _ = socket.recv_fds(asked, 4, 3)
        order = asked.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
        if order:  # or whoever asked was killed before it did
            words, folder, environment, umask = marshal.loads(order)
            if words[:2] == ["octavo", "mcp"]:
                importlib.import_module(
                    "octavo.mcp.server"
                )  # only then: the SDK takes longer than all the rest
            if imported:
                _import_new(known, words, folder, imported)
            if os.fork() == 0:
                listening.close()
                _answer(asked, streams, partial(_status_of, words, folder, environment, umask, imported))
        asked.close()
        for each in streams:
            os.close(each)


def _import_new(known: set[str], words: list[str], folder: str, imported: Path) -> None:
    """What this program imports, and what those before it did, as far as it is not known yet."""
    others = imported.read_text().split() if imported.exists() else []
    for name in (*_imports_of(words, folder), *others):
        if name not in known:
            known.add(name)
            with contextlib.suppress(Exception):  # that it cannot be imported is the program's own business
                importlib.import_module(name)
    gc.freeze()


def _answer(asked: socket.socket, streams: list[int], program: Callable[[], int]) -> NoReturn:
    """Run one program and tell how it ended; it ends with whoever asked."""
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        asked.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os._exit(program())  # its end of the pipe is closed then
    for each in (*streams, end):
        os.close(each)
    with contextlib.suppress(OSError):  # it may be gone already: nobody is told then, and this ends too
        asked.sendall(child.to_bytes(4, "big"))
    if asked in select.select([asked, ended], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        asked.sendall(bytes([status if status >= 0 else 128 - status]))
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), learns="learns" in sys.argv)
