"""mem0.md and the example: their code runs in mem0's environment, and the tables have every path."""

import os
import re
import subprocess

import pytest

from integrations.environment import ROOT, blocks_of
from octavo.config import Settings
from octavo.server import create_app
from running_server import octavo_serves

pytestmark = pytest.mark.timeout(900)
PAGE = "mem0.md"
PREFIXES = ("/v1/", "/v2/", "/v3/", "/mem0/", "/api/")


@pytest.fixture
def server(tmp_path):
    with octavo_serves(f"sqlite:///{tmp_path / 'octavo.db'}", tmp_path) as address:
        yield address


def printed(python, *arguments, server, cwd):
    env = {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": str(cwd / "mem0"), "OCTAVO_SERVER": server}
    done = subprocess.run(
        [python, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_page_runs(mem0_python, server, tmp_path):
    for code, output in blocks_of(PAGE):
        here = code.replace("http://127.0.0.1:8000", server)
        assert printed(mem0_python, "-c", here, server=server, cwd=tmp_path) == output


def test_the_example_runs(mem0_python, server, tmp_path):
    told = printed(mem0_python, ROOT / "examples" / "mem0_langgraph.py", server=server, cwd=tmp_path)
    assert told == (
        "user: I live in Berlin and I am allergic to peanuts.\n"
        "What you know of the user:\n- nothing yet\n"
        "user: Where do I live?\n"
        "What you know of the user:\n- The user lives in Berlin\n- The user is allergic to peanuts\n"
    )


def test_the_tables_have_every_path():
    text = (ROOT / "docs" / PAGE).read_text()
    told = {
        (method or None, path)
        for method, path in re.findall(r"`(?:([A-Z]+) )?(/[\w/{}]+)`", text)
        if path.startswith(PREFIXES)
    }
    routes = [route for route in create_app(Settings()).routes if route.path.startswith(PREFIXES)]
    every = {"GET", "PUT", "POST", "PATCH", "DELETE"}
    answered = set()
    for route in routes:
        methods = {*route.methods} - {"HEAD"}
        path = re.sub(":[a-z]+}", "}", route.path)
        answered |= {(None, path)} if every <= methods else {(m, path) for m in methods}
    assert told == answered
