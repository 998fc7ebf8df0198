"""Runs programs, each in a process forked from this one, where all that they and those before them import is imported already.

A program is a line of JSON on stdin; the status that it ended with is a line on stdout.
"""

import ast
import contextlib
import importlib
import json
import os
import sys
import types
from pathlib import Path


def import_ahead(names):
    """Import these; what cannot be imported is the program's own business."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def imports_of(source):
    """What stands at the top of a program."""
    for line in ast.parse(source).body:
        if isinstance(line, ast.Import):
            yield from (each.name for each in line.names)
        elif isinstance(line, ast.ImportFrom):
            yield line.module


def run(order, source):
    """Be that program, from now on."""
    os.chdir(order["folder"])
    for number, path in enumerate((os.devnull, order["stdout"], order["stderr"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = order["arguments"]
    sys.path[0] = "" if sys.argv[0] == "-c" else str(Path(sys.argv[0]).parent)
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    if sys.argv[0] == "-c":
        del sys.argv[1]
    else:
        program.__file__ = sys.argv[0]
    exec(compile(source, getattr(program, "__file__", "<string>"), "exec"), vars(program))
    Path(order["imported"]).write_text("\n".join(sys.modules))


def main():
    for line in sys.stdin:
        order = json.loads(line)
        first, *others = order["arguments"]
        source = others[0] if first == "-c" else Path(first).read_text()
        import_ahead(imports_of(source))
        child = os.fork()
        if child == 0:
            return run(order, source)  # and end as it ends
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:  # most of what frameworks import, they import when it is used
            import_ahead(Path(order["imported"]).read_text().split("\n"))
        print(status, flush=True)
    return None


if __name__ == "__main__":
    main()
