"""Everything docs/queue.md shows is run, and what it prints is compared."""

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from octavo import Add, Record
from octavo.wraps.journal import DeadLetter, Spool
from warm import programs

PAGE = Path(__file__).parents[2] / "docs" / "queue.md"
TEXT = PAGE.read_text()
URL = "postgresql://octavo:secret@localhost/octavo"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEAD = "q_0655f5e8a1b2c3d4e5f60718293a4b5c"


def steady(printed: str) -> str:
    """What differs from run to run taken out: the time and the id of a write that was really queued, and its size."""
    printed = re.sub(r"\d+ bytes", "N bytes", printed)
    queued = re.sub(r"q_[0-9a-f]{32}(?=.*add 1 to messages$)", "q_…", printed, flags=re.MULTILINE)
    return re.sub(r"(?:(?<=since )|(?<=q_…  ))[-\d]+ [:+\d]+", "TIME", queued)


def a_letter_dies() -> None:
    record = Record(collection="messages", id="m1", text="消息", created_at=NOON, seq=1)
    letter = DeadLetter(
        id=DEAD,
        queued_at=NOON,
        ops=[Add([record])],
        attempts=5,
        error="no such table: messages",
        died_at=NOON.replace(second=5),
    )
    Spool("octavo_queue").dead.add([letter])


def test_the_page(fresh_postgres):
    """From top to bottom, in one folder, as a reader would; the database is down at first."""
    env = {**os.environ, "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}"}

    def run(what, **more) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            what, env=env, capture_output=True, text=True, timeout=120, check=False, **more
        )  # fmt: skip

    ran = 0
    output = ""
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        if kind == "python":
            program = text.replace(URL, "postgresql://octavo@127.0.0.1:1/octavo")
            done = run(["python", "-c", program])
            output = done.stdout
            assert "writes are queued in octavo_queue" in done.stderr  # the warning in the log
            ran += 1
        elif kind == "output":
            assert output == text
        else:
            assert kind == "console", f"a {kind} block that nothing runs: {text}"
            if f"\n{DEAD}" in text:
                a_letter_dies()
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                done = run(command.replace(URL, fresh_postgres), shell=True)
                assert steady(done.stdout) == steady(expected), command
                assert (done.returncode, done.stderr) == (0, "")
                ran += 1
    assert ran == len(re.findall(r"^\$ |^```python", TEXT, re.MULTILINE)) == 8
    assert sorted(path.name for path in Path("octavo_queue").iterdir() if ".jsonl" in path.name) == []


def test_every_file():
    """The table names the files that there are."""
    names = Spool("folder")._names
    assert f"`{names.active(1).name}`" in TEXT
    assert f"`{names.active(2).name}`" in TEXT
    assert f"`{names.next_part(1).name}`" in TEXT
    assert f"`{names.next_part(1).name}.bak`" in TEXT
    assert f"`{names.dead.name}`" in TEXT
    assert f"`{names.bad.name}`" in TEXT
    assert f"`{names.store.name}`" in TEXT


def test_every_link():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), target
