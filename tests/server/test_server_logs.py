"""One line of JSON for each request, and no secret in any of them."""

import io
import json
import logging
import re
import time

import pytest

from octavo.config import Database, Extraction, Rerank, Settings, Vector
from octavo.server.problems import JsonLines, Lines, Secrets, access_log, mask_keys, write_logs

NAMES = ("octavo", "uvicorn.error", "fastapi", access_log.name)
KEY = "oct_0123456789abcdef_" + "5ec4e7" * 10 + "beef"


@pytest.fixture
def lines():
    """What is logged, line by line; the loggers are left as they were."""
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [logger.level for logger in loggers]
    stream = io.StringIO()

    def read():
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    read.stream = stream
    yield read
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each.formatter, Lines)]:
        root.removeHandler(handler)


def test_one_line_for_each_request(lines, store_url, settings_of, serving, new_key):
    url = store_url("sqlite")
    made = new_key(url, "write", "acme")
    settings = settings_of(url, auth="on")
    write_logs(Secrets(settings), stream=lines.stream)
    with serving(settings).client(made.key) as client:
        client.post("/memory/user/李雷", json={"content": "我的秘密 mysecret", "category": "other"})
        client.get("/memory/user/李雷/events?since=2020-01-01", headers={"X-Request-ID": "r-1"})
        client.get("/memory/query-of-mine/logs?limit=x")
        client.get("/health")
        client.get(f"/stats?key={made.key}", headers={"Authorization": "Bearer wrong"})
        client.get(f"/{made.key}")
        client.get("/events", headers={"X-Request-ID": made.key})
    while len(lines()) < 7:  # the last line is written after its answer
        time.sleep(0.01)
    told = lines()
    assert [(line["method"], line["route"], line["status"]) for line in told] == [
        ("POST", "/memory/{memory_type}/{entity_id}", 200),
        ("GET", "/memory/{memory_type}/{entity_id}/events", 200),
        ("GET", "/memory/{memory_id}/logs", 422),
        ("GET", "/health", 200),
        ("GET", None, 401),
        ("GET", None, 404),
        ("GET", "/events", 200),
    ]
    assert {line["key"] for line in told} == {made.info.id, None}
    assert told[0]["tenant"] == "acme"
    assert told[1]["request_id"] == "r-1"
    for line in told:
        assert set(line) == {"time", "method", "route", "status", "ms", "key", "tenant", "request_id"}
        assert line["time"].endswith("Z")
    text = lines.stream.getvalue()
    for private in (made.key, made.key[-20:], "李雷", "mysecret", "秘密", "2020-01-01"):
        assert private not in text


def test_what_goes_wrong_is_logged_without_secrets(lines):
    settings = Settings(
        database=Database(dsn="postgresql://ann:pa55word@db/octavo"),
        vector=Vector(api_key="sk-vector-1"),
        extraction=Extraction(api_key="sk-model-2"),
    )
    write_logs(Secrets(settings), stream=lines.stream)
    log = logging.getLogger("octavo.store")
    try:
        raise ConnectionError("cannot reach postgresql://ann:pa55word@db/octavo with sk-vector-1")
    except ConnectionError:
        log.exception("lost, with %s and %s", KEY, "sk-model-2")
    [line] = lines()
    assert (line["level"], line["logger"]) == ("error", "octavo.store")
    assert "ConnectionError" in line["error"]
    for secret in ("pa55word", "sk-vector-1", "sk-model-2", KEY, "5ec4e7"):
        assert secret not in lines.stream.getvalue()
    assert "oct_0123456789abcdef_…" in line["message"]


@pytest.mark.parametrize("name", ["octavo.store", "asyncio", "some.driver"])
def test_a_password_that_json_spells_in_another_way(lines, name):
    """Whoever logs it: a library's own words are lines of JSON too."""
    settings = Settings(database=Database(dsn='postgresql://ann:pa"ss\\word@db/octavo'))
    for _ in range(2):  # a second call changes the place, it does not add one
        write_logs(Secrets(settings), stream=lines.stream)
    logging.getLogger(name).error("cannot reach %s", settings.database.dsn)
    [line] = lines()
    assert line["message"] == "cannot reach postgresql://ann:…@db/octavo"


def test_a_key_of_the_environment_is_a_secret_too(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-outside")
    assert Secrets(Settings()).hide("refused: sk-from-outside") == "refused: …"


def test_the_key_of_a_reranker_is_a_secret_too():
    settings = Settings(rerank=Rerank(base_url="http://ann:pa55word@host/v1", api_key="rk-judge-3"))
    assert Secrets(settings).hide("refused: rk-judge-3 by ann:pa55word@host") == "refused: … by ann:…@host"


def test_quiet_logs_no_requests(lines, settings_of, serving):
    settings = settings_of("memory://")
    write_logs(Secrets(settings), requests=False, stream=lines.stream)
    with serving(settings).client() as client:
        client.get("/stats")
    logging.getLogger("octavo.x").warning("a warning")
    assert [line["message"] for line in lines()] == ["a warning"]


def test_what_a_caller_sent_does_not_steer_the_terminal_that_shows_the_log(lines):
    write_logs(Secrets(Settings()), stream=lines.stream)
    access_log.info("", {"path": "/\x1b[2J\x9b2J\x7f"})
    assert lines.stream.getvalue().rstrip("\n").isprintable()
    assert lines()[0]["path"] == "/\x1b[2J\x9b2J\x7f"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_lines_for_people(lines, settings_of, serving):
    """When, status, how long, method and route, one under the other."""
    lines.stream = Terminal()
    settings = settings_of("memory://")
    write_logs(Secrets(settings), stream=lines.stream)
    with serving(settings).client() as client:
        client.post("/memory/user/李雷", json={"content": "mysecret", "category": "other"})
        client.get("/memory/nobody")
        client.get(f"/{KEY}")
    while len(lines.stream.getvalue().splitlines()) < 3:
        time.sleep(0.01)
    text = lines.stream.getvalue()
    found = [
        re.fullmatch(r"(\d\d:\d\d:\d\d)  (\d{3})  ( *\d+\.\d) ms  (\w+ *) (\S+)", line).groups()
        for line in text.splitlines()
    ]
    assert [(status, method.strip(), route) for _, status, _, method, route in found] == [
        ("200", "POST", "/memory/{memory_type}/{entity_id}"),
        ("404", "GET", "/memory/{memory_id}"),
        ("404", "GET", "-"),
    ]
    assert {(len(ms), len(method)) for _, _, ms, method, _ in found} == {(8, 6)}
    assert not any(private in text for private in ("李雷", "mysecret", "nobody", "oct_0123"))


def test_nothing_steers_the_terminal(lines):
    """What others wrote is spelled out, line by line; secrets are masked there too."""
    lines.stream = Terminal()
    write_logs(Secrets(Settings(database=Database(dsn="redis://:pa55word@db"))), stream=lines.stream)
    access_log.info("", {"method": "G\x1b[2J", "route": "/\x9b2J\n08:30:00  200", "status": 0, "ms": 1})
    try:
        raise ConnectionError("redis://:pa55word@db says \x1b]0;owned\x07")
    except ConnectionError:
        logging.getLogger("octavo.store").exception("lost \x1b[31m%s", KEY)
    first, second, *trace = lines.stream.getvalue().splitlines()
    assert "\\x1b[2J" in first
    assert "\\n08:30:00" in first
    assert "error  octavo.store: lost" in second
    assert trace[-1].startswith("  ConnectionError: redis://:…@db says")
    assert all(line.isprintable() for line in (first, second, *trace))
    assert "5ec4e7" not in second


def test_half_a_character_can_be_said():
    record = logging.makeLogRecord({"name": "octavo.x", "msg": "half a character: %s", "args": ("\ud800",)})
    assert json.loads(JsonLines(Secrets(Settings())).format(record))["message"] == "half a character: ?"


def test_a_failure_of_the_server_tells_the_caller_nothing(lines, settings_of, serving, monkeypatch):
    settings = settings_of("memory://")
    write_logs(Secrets(settings), stream=lines.stream)

    async def broken(self):
        raise ZeroDivisionError(f"with {KEY}")

    server = serving(settings)
    monkeypatch.setattr("octavo.server.app.TenantMemories.health", broken)
    with server.client() as client:
        failed = client.get("/health", headers={"X-Request-ID": "r-9"})
    assert failed.status_code == 500
    assert failed.headers["x-request-id"] == "r-9"
    told = "the server failed; its log says why at request_id r-9"
    assert failed.json() == {"detail": told, "code": "failed"}
    while len(lines()) < 2:  # uvicorn logs it after the answer
        time.sleep(0.01)
    request, trouble = lines()
    assert (request["status"], request["request_id"]) == (500, "r-9")
    assert "ZeroDivisionError: with oct_0123456789abcdef_…" in trouble["error"]


def test_masking():
    assert mask_keys(f"a {KEY} b") == "a oct_0123456789abcdef_… b"
    assert mask_keys("october") == "october"
