"""docs/server.md, its Chinese page and docs/behind-a-proxy.md: what they show is what happens."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from octavo.config import Settings, load_settings
from octavo.server import create_app
from octavo.server.problems import CODES
from sampled import sampled
from warm import programs

DOCS = Path(__file__).parents[2] / "docs"
PROXY = (DOCS / "behind-a-proxy.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, kind):
    return [text for name, text in BLOCK.findall(page) if name == kind]


PAGES = ("server.md", "zh/server.md")


@pytest.fixture(params=PAGES)
def page(request):
    return (DOCS / request.param).read_text(encoding="utf-8")


@pytest.fixture
def octavo_path():
    """An environment in which `octavo` is the command of this tree."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return {**kept, "PATH": f"{programs()}:{os.environ['PATH']}", "PYTHONIOENCODING": "utf-8"}


@sampled("page", PAGES, share=2, indirect=True)
def test_the_hour_with_curl(page, sqlite_server, octavo_path, tmp_path):
    """Every curl line is answered with 200 by a server on SQLite."""
    server = sqlite_server()
    lines = [block for block in blocks(page, "bash") if "curl" in block]
    assert len(lines) == 6
    answers = []
    for block in lines:
        script = block.replace("http://127.0.0.1:8000", server.url).replace(
            "curl ", "curl -sS --fail-with-body "
        )
        done = subprocess.run(
            ["sh", "-ec", script], env=octavo_path, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        answers.append(done.stdout)
    career, event, extracted, looked, logs, observed = answers
    assert json.loads(career)["layer"] == "profile"
    assert json.loads(event)["layer"] == "event"
    assert json.loads(extracted)["mode"] == "auto_extract"
    assert looked.count('"count"') == 3
    assert "北京大学" in looked
    assert '"count":0' in logs  # nobody was known then
    assert "我对花生过敏" in observed


@sampled("page", PAGES, share=2, indirect=True)
def test_what_it_says_when_it_starts(page, octavo_path, tmp_path):
    [shown] = blocks(page, "console")
    command, *said = shown.splitlines()
    with subprocess.Popen(
        ["sh", "-c", f"exec {command.removeprefix('$ ')} --port 0"],
        env=octavo_path, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        got = [process.stdout.readline().rstrip() for _ in said]
        process.terminate()
    assert [re.sub(r":\d+", ":8000", line) for line in got] == said


@sampled("page", PAGES, share=2, indirect=True)
def test_the_keys(page, octavo_path, tmp_path):
    for each in (page, PROXY):
        shown = [block for block in blocks(each, "bash") if "octavo keys" in block]
        assert shown
        for block in shown:
            script = block.replace("octavo serve\n", "")
            env = {**octavo_path, "OCTAVO_URL": "sqlite:///octavo.db"}
            subprocess.run(["sh", "-ec", script], env=env, cwd=tmp_path, capture_output=True, check=True)


@sampled("page", PAGES, share=2, indirect=True)
def test_the_program(page, tmp_path):
    [program], [shown] = blocks(page, "python"), blocks(page, "output")
    done = subprocess.run(
        [f"{programs()}/python", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


def test_the_line_of_the_log(page):
    [line] = blocks(page, "json")
    assert list(json.loads(line)) == [
        "time",
        "method",
        "route",
        "status",
        "ms",
        "key",
        "tenant",
        "request_id",
    ]


def test_every_route_is_in_the_table(page):
    told = {
        (verb, re.sub(r"\{[^}]*\}", "{}", path))
        for verb, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`]*)`", page)
    }
    document = create_app(Settings()).openapi()
    there = {
        (verb.upper(), re.sub(r"\{[^}]*\}", "{}", path))
        for path, verbs in document["paths"].items()
        for verb in verbs
    }
    assert told == there | {("GET", "/docs"), ("GET", "/openapi.json")}
    statuses = {
        status
        for verbs in document["paths"].values()
        for each in verbs.values()
        for status in each["responses"]
    }
    assert {int(status) for status in statuses} <= {200, *CODES}


def test_the_settings_behind_a_proxy(tmp_path):
    [yaml] = blocks(PROXY, "yaml")
    path = tmp_path / "memory.yaml"
    path.write_text(yaml)
    settings = load_settings(path, environ={"DB_PASSWORD": "p@ss"})
    assert settings.server.needs_key
    assert settings.server.workers == 4
    assert settings.server.request_seconds < 75
    assert settings.server.max_body_bytes <= 7 * 2**20
    assert settings.server.stop_seconds < 30


def test_the_page_names_the_code_of_every_status(page):
    """Programs are told by one word; the word of each status is in the table, and no other."""
    rows = re.findall(r"^\| ([\d, ]+) \| `(\w+)` \|", page, re.MULTILINE)
    told = {int(status): code for statuses, code in rows for status in statuses.split(", ")}
    assert told == CODES
