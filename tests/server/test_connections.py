"""Connections of a real `octavo serve`: none is held for ever, and there is always one for a caller with a key."""

import asyncio
import contextlib
import http.client
import json
import os
import select
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import pytest
from uvicorn.server import ServerState

from octavo.config import Server
from octavo.server.running import Config, most_connections
from sampled import sampled
from warm import programs

PATIENCE = 30  # seconds after which a test fails rather than wait
HALF = b"GET /stats HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def octavo_serve(tmp_path):
    """`octavo_serve(files=128, header_seconds=1)`: the address of the command with these settings, and few open files."""
    with contextlib.ExitStack() as stack:

        def serve(*args, files=None, **server):
            environ = {f"OCTAVO__SERVER__{name.upper()}": str(value) for name, value in server.items()}
            start = [f"{programs()}/octavo"]
            if files is not None:
                limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
                start = [*limited, sys.executable, "-m", "octavo.cli"]
            command = [*start, "serve", "--port", "0", "--json", "--quiet", *args]
            log = stack.enter_context((tmp_path / "log").open("w+"))
            process = stack.enter_context(
                subprocess.Popen(
                    command, cwd=tmp_path, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=log
                )
            )
            stack.callback(process.kill)
            told = b""
            while not told.endswith(b"}\n"):
                line = process.stdout.readline()
                assert line, (tmp_path / "log").read_text()
                told += line
            return urlsplit(json.loads(told)["url"])

        yield serve


@contextlib.contextmanager
def connected(at):
    with socket.create_connection((at.hostname, at.port), timeout=PATIENCE) as sock:
        yield sock


def all_of(sock):
    """What is sent until the end of the connection."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(65_536):
            got += piece
    return got


def test_half_a_header_is_let_go(octavo_serve):
    """With a sentence; also one that comes byte by byte."""
    at = octavo_serve(header_seconds=0.5)
    with connected(at) as sock:
        sock.sendall(HALF)
        told = all_of(sock)
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b"0.5 s (server.header_seconds)" in told
    with connected(at) as sock:
        sock.sendall(HALF)
        ends = time.monotonic() + PATIENCE
        with pytest.raises(ConnectionError):
            while time.monotonic() < ends:
                sock.sendall(b"x")
                time.sleep(0.05)
    with connected(at) as sock:
        sock.sendall(WHOLE)
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_asks_nothing_is_let_go(octavo_serve):
    """Before its first request, and after an answer; half a header after an answer is no excuse."""
    at = octavo_serve(header_seconds=0.5, idle_seconds=0.5)
    with connected(at) as sock:
        assert all_of(sock) == b""
    for more in (b"", HALF):
        with connected(at) as sock:
            sock.sendall(WHOLE + more)
            assert all_of(sock).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/memory/user/lin", "/mcp", "/console/sign-in"])
def test_a_caller_who_goes_away_while_sending_is_no_fault_of_the_server(octavo_serve, tmp_path, path):
    at = octavo_serve()
    form = path.startswith("/console")
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 99\r\n\r\n"
    with connected(at) as sock:
        sock.sendall(head.encode() + b'{"content": "x')
    with httpx.Client(base_url=at.geturl(), trust_env=False) as client:
        ends = time.monotonic() + PATIENCE
        while 'status="4' not in (page := client.get("/metrics").text) and time.monotonic() < ends:
            time.sleep(0.05)
    assert 'status="499"' in page
    assert 'status="500"' not in page
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_an_idle_connection_is_kept_for_a_while(octavo_serve):
    at = octavo_serve(idle_seconds=60, header_seconds=60)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    for _ in range(3):
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        before = connection.sock.getsockname()
        time.sleep(0.3)
        assert connection.sock.getsockname() == before
    connection.close()


@sampled("server", [{"files": 150}, {"max_connections": 20}, {"files": 150, "header_seconds": 3600}], share=3)
def test_half_headers_do_not_shut_out_a_caller_with_a_key(octavo_serve, new_key, tmp_path, server):
    """306 of them stay; the oldest make room for who asks, whatever else the process may open."""
    key = new_key(f"sqlite:///{tmp_path}/octavo.db", "read").key
    at = octavo_serve("--store", f"sqlite:///{tmp_path}/octavo.db", auth="on", **server)
    with contextlib.ExitStack() as stack:
        for _ in range(306):
            stack.enter_context(connected(at)).sendall(HALF)
        with httpx.Client(base_url=at.geturl(), timeout=PATIENCE, trust_env=False) as client:
            for _ in range(3):
                assert client.get("/stats", headers={"X-API-Key": key}).status_code == 200
            stack.enter_context(connected(at)).sendall(HALF)
            assert client.get("/stats", headers={"X-API-Key": key}).status_code == 200


def test_a_request_under_way_is_not_closed_for_a_newcomer(octavo_serve):
    """It is the idle ones that make room."""
    at = octavo_serve(max_connections=10)
    with contextlib.ExitStack() as stack:
        working = stack.enter_context(connected(at))
        body = json.dumps({"session_key": "s", "payload": {"text": "hello"}}).encode()
        working.sendall(
            b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body[:5])
        )
        with connected(at) as other:  # the request above was seen before this one was
            other.sendall(WHOLE)
            assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        for _ in range(30):
            stack.enter_context(connected(at)).sendall(HALF)
        with connected(at) as other:
            other.sendall(WHOLE)
            assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        working.sendall(body[5:])
        assert working.recv(100).startswith(b"HTTP/1.1 200 ")


def test_bodies_that_nobody_reads_do_not_hold_connections(octavo_serve, new_key, tmp_path):
    """A refused caller may go on sending for a moment; many such callers may not fill the server."""
    key = new_key(f"sqlite:///{tmp_path}/octavo.db", "read").key
    at = octavo_serve("--store", f"sqlite:///{tmp_path}/octavo.db", auth="on", max_connections=100)
    refused = b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connected(at)).sendall(refused)
        began = time.monotonic()
        with httpx.Client(base_url=at.geturl(), timeout=PATIENCE, trust_env=False) as client:
            assert client.get("/stats", headers={"X-API-Key": key}).status_code == 200
        assert time.monotonic() - began < PATIENCE


async def test_a_caller_who_reads_nothing_is_dropped():
    """Its connection could never be closed in peace: what it was answered is still to be sent."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 50_000_000})

    server = Server(idle_seconds=1, header_seconds=1, request_seconds=1)
    config = Config(server, app, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    serving = await loop.create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with serving:
        address = serving.sockets[0].getsockname()
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
        await loop.sock_sendall(sock, WHOLE)
        async with asyncio.timeout(PATIENCE):
            while not state.connections:
                await asyncio.sleep(0.01)
            while state.connections:
                await asyncio.sleep(0.01)
        assert state.waiting == {}
        sock.close()
        reader, writer = await asyncio.open_connection(*address, limit=2**20)  # one who reads slowly
        writer.write(WHOLE)
        got = 0
        async with asyncio.timeout(PATIENCE):
            while piece := await reader.read(5_000_000):
                got += len(piece)
                await asyncio.sleep(0.05)  # two deadlines and more in all
        assert got > 50_000_000
        writer.close()


def test_open_files_leave_room_for_the_store():
    """In a process of its own, since a limit that was lowered stays so."""
    program = (
        "import resource, sys; from octavo.server.running import most_connections as most;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard})); print(most(1000))"
    )
    for hard, expected in ((5000, 1000), (600, 344), (300, 150)):
        ran = subprocess.run(
            [f"{programs()}/python", "-c", program.format(hard=hard)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert (int(ran.stdout), "ulimit -n" in ran.stderr) == (expected, expected < 1000)
    assert most_connections(10) == 10


def slow(at, key, number):
    """Requests with a body that does not come, all under one key; the connections, once their headers were read."""
    head = (
        f"POST /events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n"
    )
    socks = []
    for _ in range(number):
        sock = socket.create_connection((at.hostname, at.port), timeout=PATIENCE)
        sock.sendall(f"{head}Content-Length: 100\r\n\r\n".encode())
        socks.append(sock)
    return socks


def test_one_slow_caller_does_not_shut_out_the_rest(octavo_serve, new_key, tmp_path):
    """A key that holds all it can get leaves places for others, and gets its own back when it is done."""
    url = f"sqlite:///{tmp_path}/octavo.db"
    keys = [new_key(url, "write").key for _ in range(4)]
    at = octavo_serve("--store", url, auth="on", max_concurrent=8)
    held = []
    try:
        with httpx.Client(base_url=at.geturl(), timeout=PATIENCE, trust_env=False) as client:

            def ask(key):
                return client.get("/stats", headers={"X-API-Key": key})

            for key in keys[:3]:
                ends = time.monotonic() + PATIENCE
                while (refused := ask(key)).status_code == 200:
                    assert time.monotonic() < ends
                    held += slow(at, key, 1)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                for _ in range(3):
                    assert ask(keys[-1]).status_code == 200
            for sock in held:
                sock.close()
            ends = time.monotonic() + PATIENCE
            while ask(keys[0]).status_code != 200:
                assert time.monotonic() < ends
                time.sleep(0.05)
    finally:
        for sock in held:
            sock.close()


def test_without_keys_callers_are_told_apart_by_address(octavo_serve):
    at = octavo_serve(max_concurrent=4)
    held = slow(at, "none", 10)
    try:

        def ask(source):
            connection = http.client.HTTPConnection(
                at.hostname, at.port, timeout=PATIENCE, source_address=(source, 0)
            )
            try:
                connection.request("GET", "/stats")
                return connection.getresponse().status
            finally:
                connection.close()

        ends = time.monotonic() + PATIENCE
        while ask("127.0.0.1") == 200:
            assert time.monotonic() < ends
            held += slow(at, "none", 1)
        assert [ask("127.0.0.2") for _ in range(5)] == [200] * 5
    finally:
        for sock in held:
            sock.close()


def test_large_bodies_are_held_within_bounds(sqlite_server, monkeypatch):
    """However many are sent at once: beyond that, callers are told to come back, and the small ones pass."""
    monkeypatch.setattr("octavo.server.gate._BODIES_BYTES", 1_000_000)
    server = sqlite_server(max_body_bytes=200_000, request_seconds=PATIENCE)
    at = urlsplit(server.url)
    head = b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 190000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connected(at)) for _ in range(8)]
        for sock in socks:
            sock.sendall(head + b'{"session_key": "s", "payload": {"text": "' + b"x" * 150_000)
        answered, _, _ = select.select(socks, [], [], PATIENCE)
        assert {sock.recv(13) for sock in answered} == {b"HTTP/1.1 503 "}
        with server.client() as client:
            assert client.get("/stats").status_code == 200
