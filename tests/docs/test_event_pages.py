"""docs/events.md and the page of each event store: every block runs and prints what is shown under it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from octavo.events import store as stores
from servers import Unavailable
from warm import programs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["events.md", *(f"event-stores/{path.name}" for path in sorted((DOCS / "event-stores").iterdir()))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEYS = {
    "memory": stores.MemoryKeys,
    "file": stores.FileKeys,
    "sqlite": stores.SQLiteKeys,
    "mysql": stores.MySQLKeys,
    "postgresql": stores.PostgreSQLKeys,
    "redis": stores.RedisKeys,
}


def addressed(block: str, url: str) -> str:
    """The block with the address of the test's own server in its config."""
    parts = urlsplit(url)
    path = parts.path.strip("/")
    given = {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": path,
        "db": int(path) if path.isdigit() else 0,
    }
    for key, value in given.items():
        block = re.sub(rf'"{key}": [^,]+,', f'"{key}": {value!r},', block)
    return block


@pytest.mark.parametrize("page", PAGES)
def test_every_block(page, tmp_path, fresh_url):
    """From top to bottom, in one folder, as a reader would."""
    if "jq " in (DOCS / page).read_text() and not shutil.which("jq"):
        raise Unavailable("jq is not installed")
    path = [programs(), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(path), "XDG_STATE_HOME": str(tmp_path / "state")}
    server = {"mysql": "mysql", "postgresql": "postgres", "redis": "redis"}.get(Path(page).stem)
    url = fresh_url(server) if server else ""

    def run(command, **more) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False, **more
        )
        assert done.stderr == ""
        return done.stdout

    printed, ran = "", 0
    for kind, block in BLOCK.findall((DOCS / page).read_text()):
        ran += 1
        if kind == "python" and block.startswith("# "):
            name, _, text = block.removeprefix("# ").partition("\n")
            (tmp_path / name).write_text(text)
            assert run(["octavo", "events", "list", "--quiet", "--store", "chalk:ChalkMemoryStore"]) == ""
            assert run(
                ["octavo", "events", "migrate", "sqlite:///agent_memory.db", "chalk:ChalkMemoryStore"]
            ) == ("moved 3 events\n")
        elif kind == "python":
            printed = run(["python", "-c", addressed(block, url) if server else block])
        elif kind == "output":
            assert printed == block
        elif kind == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                pattern = ".*".join(re.escape(part) for part in shown.split("…"))
                assert re.fullmatch(pattern, run(command, shell=True)), command
        else:
            raise AssertionError(f"a {kind} block that nothing runs: {block}")
    assert ran > 1


@pytest.mark.parametrize("kind", KEYS)
def test_every_key(kind):
    """The table of each store names every key there is, with its default."""
    page = (DOCS / "event-stores" / f"{kind}.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*)\|", page, re.MULTILINE)
    told = {}
    for names, defaults in rows:
        listed = re.findall(r"\w+", names)
        values = [value.strip(" `") for value in defaults.split(",")]
        told.update(zip(listed, values * len(listed) if len(values) == 1 else values, strict=False))
    fresh = KEYS[kind]()
    spelled = {None: "", "": "none", True: "true"}
    assert told == {
        name: spelled.get(getattr(fresh, name), str(getattr(fresh, name)))
        for name in KEYS[kind].__struct_fields__
    }


def test_every_store_has_its_page():
    page = (DOCS / "events.md").read_text()
    assert {f"event-stores/{kind}.md" for kind in KEYS} == set(
        re.findall(r"\]\((event-stores/[^)]+)\)", page)
    )
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (DOCS / target).exists(), target
