"""Everything docs/moving-data.md shows is run, and what it prints is compared."""

import os
import re
import subprocess
from pathlib import Path

from warm import programs

PAGE = Path(__file__).parents[2] / "docs" / "moving-data.md"
POSTGRES = "postgresql://octavo:secret@localhost/octavo"
LINE = '{"collection":"log","id":"%s","created_at":"2026-03-01T12:00:00Z","seq":1}\n'


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def steady(printed: str) -> list[str]:
    """The lines with their times taken out; sorted, since the two ends of a pipe speak when they like."""
    return sorted(
        re.sub(r"in \d+\.\d s$|(?<=\"seconds\": )[\d.]+", "T", line) for line in printed.splitlines()
    )


def test_the_page(fresh_postgres):
    """From top to bottom, in one folder, as a reader would."""
    Path("damaged.jsonl").write_text(LINE % "a" + "hello\n" + LINE % "b")
    env = {**os.environ, "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}"}

    def run(what, **more) -> str:
        done = subprocess.run(
            what,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
            **more,
        )
        return done.stdout

    ran = printed = 0
    output = ""
    for kind, text in blocks():
        if kind == "python":
            output = run(["python", "-c", text])
            ran += 1
        elif kind == "output":
            assert output == text
            printed += 1
        elif kind == "json":
            Path("shown.jsonl").write_text(text)
            assert run("octavo import shown.jsonl memory:// --quiet", shell=True) == ""
        elif kind == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                said = run(command.replace(POSTGRES, fresh_postgres), shell=True)
                if "  …\n" in expected:
                    head, tail = expected.split("  …\n")
                    assert said.startswith(head)
                    assert said.endswith(tail)
                else:
                    assert steady(said) == steady(expected), command
                ran += 1
    assert ran == len(re.findall(r"^\$ |^```python", PAGE.read_text(), re.MULTILINE))
    assert printed == 1
    assert Path("damaged.jsonl.bad").read_text() == "hello\n"
