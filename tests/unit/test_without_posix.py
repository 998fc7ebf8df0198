"""Everybody's machine: Octavo starts and works without the modules and calls that only POSIX has. It is not run on Windows."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import mypy

STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("without_posix.py")
#: Whose POSIX names are hidden.
OWNERS = ("os", "signal", "socket", "time")
#: What Python's own event loop of this system was built with, and the one for Windows does without.
LOOP = {"socket": {"AF_UNIX"}, "signal": {"siginterrupt", "pthread_sigmask"}}


def defined(body, platform):
    """The names that a stub defines on a platform."""
    names = set()
    for node in body:
        if isinstance(node, ast.If):
            names |= defined(node.body if holds(node.test, platform) else node.orelse, platform)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
    return {name for name in names if not name.startswith("_")}


def holds(test, platform):
    """Whether a condition of a stub is true on a platform and this Python."""
    code = compile(ast.Expression(test), "stub", "eval")
    fake = type("Sys", (), {"platform": platform, "version_info": sys.version_info})
    return eval(code, {"sys": fake, "TYPE_CHECKING": True})


def posix_only():
    """Modules, and names of others, that typeshed knows on Linux and not on Windows."""
    modules = []
    for stub in sorted(STUBS.glob("[a-z]*.pyi")):
        body = ast.parse(stub.read_text()).body
        if defined(body, "linux") and not defined(body, "win32"):
            modules.append(stub.stem)
    names = {}
    for owner in OWNERS:
        stub = STUBS / f"{owner}.pyi"
        stub = stub if stub.exists() else STUBS / owner / "__init__.pyi"
        body = ast.parse(stub.read_text()).body
        lacking = defined(body, "linux") - defined(body, "win32") - LOOP.get(owner, set())
        names[owner] = sorted(lacking)
    return {"modules": modules, "names": names}


def test_everything_works_without_posix(tmp_path):
    """Each module is imported; stores, queue, layers, service, vault and server are used."""
    hidden = posix_only()
    assert {"fcntl", "pwd", "grp", "resource", "termios"} <= {*hidden["modules"]}
    assert {"register_at_fork", "fork", "fchown", "pread", "getuid", "O_DIRECTORY"} <= {
        *hidden["names"]["os"]
    }
    assert {"SIGKILL", "SIGHUP"} <= {*hidden["names"]["signal"]}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", CHILD, json.dumps(hidden)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["modules"] > 150
    assert told["stores"] == [["hello 0", "hello 1*", "hello 2"]] * 3
    assert told["layers"] == [["The user lives in Berlin"]] * 2
    assert told["service"] == {
        "state": "down", "waiting": 1, "kept": True, "recovered": True, "prompt": "be kind", "file": True,
    }  # fmt: skip
    assert told["locks"] == [True, False, True, True, False, True]
    assert told["history"] == ["hello"]
    assert told["exported"] == 3
    assert told["server"] == {"posted": "success", "listed": ["likes tea"], "status": 0}


def test_lint_knows_of_windows():
    """The whole source is checked as for Windows: nothing it names is missing there."""
    lint = (ROOT / "Makefile").read_text()
    assert re.search(r"^\t@\$\(BIN\)/mypy .*--platform win32", lint, re.MULTILINE)
