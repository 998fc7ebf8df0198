"""`octavo serve` as a process: what it says, how it ends, and that nothing acknowledged is lost."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from octavo import open_store
from octavo.config import Settings
from octavo.errors import ConfigError
from octavo.keys import Keys
from octavo.server.running import prepare
from sampled import only_torture, sampled
from warm import programs

READY = 60  # seconds after which a test fails rather than wait


class Served:
    """A running `octavo serve`; what it said first is in `said`."""

    def __init__(self, folder, *args, forked=False, **environ):
        self.log = (folder / "stderr.txt").open("w+")
        octavo = [f"{programs()}/octavo"] if forked else [sys.executable, "-m", "octavo.cli"]
        self.process = subprocess.Popen(
            [*octavo, "serve", "--port", "0", *args],
            cwd=folder,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environ},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )
        line = self.process.stdout.readline()
        assert line, self.trouble()
        self.said = [line.rstrip(), self.process.stdout.readline().rstrip()]
        self.url = next(word for word in line.split() if word.startswith("http://"))

    def trouble(self):
        self.log.seek(0)
        return self.log.read()

    def client(self):
        return httpx.Client(base_url=self.url, timeout=READY, trust_env=False)

    def interrupt(self):
        """Ctrl-C: the terminal tells every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(READY)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(READY)


@pytest.fixture
def octavo_serve(tmp_path):
    """`octavo_serve("--sample")`: the command in a folder of its own, ended after the test; `forked=True` where not its start is tested."""
    started = []

    def serve(*args, **more):
        started.append(Served(tmp_path, *args, **more))
        return started[-1]

    yield serve
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()
        served.process.stdout.close()
        served.log.close()


@pytest.fixture
def called(tmp_path, monkeypatch):
    """The command in this process, for what it refuses before it serves."""
    from octavo.cli.commands import octavo

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OCTAVO_URL", raising=False)
    return lambda *args: CliRunner().invoke(octavo, ["serve", *args], prog_name="octavo")


def test_a_newcomer(octavo_serve, tmp_path):
    """It says where it listens, and the line to try shows something; another start adds nothing to the sample, nor what was forgotten of it."""
    served = octavo_serve("--sample")
    assert served.said[0] == (
        f"octavo listens on {served.url} · store sqlite:///octavo.db · no key needed, only this machine can call"
    )
    assert served.said[1] == f'try: curl "{served.url}/memory/user/user123/profile"'
    with served.client() as client:
        assert client.get("/memory/user/user123/profile").json()["count"] == 3
        assert client.get("/memory/user/user123/events").json()["count"] == 2
    assert served.stop() == 0
    lines = [json.loads(line) for line in served.trouble().splitlines()]
    assert [line["status"] for line in lines] == [200, 200]
    assert (tmp_path / "octavo.db").exists()
    served = octavo_serve("--sample", forked=True)
    with served.client() as client:
        for layer, path, count in (("profile", "profile", 3), ("event", "events", 2)):
            memories = client.get(f"/memory/user/user123/{path}").json()["memories"]
            assert len(memories) == count
            for memory in memories:
                client.delete(f"/memory/user/user123/{layer}/{memory['id']}")
    assert served.stop(signal.SIGINT) == 0
    with octavo_serve("--sample", forked=True).client() as client:
        assert client.get("/memory/user/user123/profile").json()["count"] == 0


@sampled(("queue", "become"), [("octavo_queue", "queued"), ("taken/queue", "refused")], share=2)
def test_a_store_that_is_away(octavo_serve, tmp_path, queue, become):
    """It says what becomes of writes, as it will be."""
    (tmp_path / "taken").write_text("a file, where a folder should be")
    away = octavo_serve(
        "--store", "sqlite:///taken/octavo.db", forked=True, OCTAVO__FAILURE_QUEUE__DIRECTORY=queue
    )
    with away.client() as client:
        written = client.post("/memory/user/lin", json={"content": "tea"})
    assert written.status_code == (200 if become == "queued" else 503)
    away.stop()
    assert f"writes are {become} until it can" in away.trouble()


@only_torture
def test_in_memory_for_a_moment(octavo_serve):
    served = octavo_serve("--store", "memory://", "--sample", OCTAVO__SERVER__PORT="1")
    with served.client() as client:
        assert client.get("/memory/user/user123/profile").json()["count"] == 3
    assert served.stop() == 0


def test_settings_of_every_kind(octavo_serve, new_key, tmp_path):
    """A file, the environment and the command line, the later ones winning."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.yaml").write_text(
        "database:\n  dsn: sqlite:///file.db\nserver:\n  auth: 'on'\n"
    )
    served = octavo_serve(OCTAVO_URL="sqlite:///other.db", OCTAVO__SERVER__MAX_BODY_BYTES="2048")
    assert "store sqlite:///other.db" in served.said[0]
    assert served.said[0].endswith(
        "an API key is needed, and there is none: octavo keys create NAME makes one"
    )
    assert "$OCTAVO_API_KEY" in served.said[1]
    with served.client() as client:
        assert client.get("/stats").status_code == 401
        key = new_key(f"sqlite:///{tmp_path}/other.db").key
        shown = client.get("/config", headers={"Authorization": f"Bearer {key}"}).json()["sections"]
        assert shown["server"]["max_body_bytes"] == 2048
    assert served.stop() == 0
    assert key not in served.trouble()
    again = octavo_serve(forked=True, OCTAVO_URL="sqlite:///other.db")
    assert again.said[0].endswith("an API key is needed")
    last = octavo_serve("--store", "sqlite:///option.db", forked=True, OCTAVO_URL="sqlite:///other.db")
    assert "store sqlite:///option.db" in last.said[0]


def test_keys_that_ended_do_not_count(store_url, settings_of, new_key):
    """Or a server whose last key ran out would not say what to do about it."""
    url = store_url("sqlite")
    revoked = new_key(url, "read")
    new_key(url, "read", expires=timedelta(microseconds=1))
    settings = settings_of(url, auth="on")

    async def counted():
        async with open_store(url) as store:
            await Keys(store).revoke(revoked.info.id)
        first = await prepare(settings, sample=False)
        async with open_store(url) as store:
            await Keys(store).create("works")
        return first.keys, (await prepare(settings, sample=False)).keys

    assert asyncio.run(counted()) == (0, 1)


def test_a_document_for_programs(tmp_path):
    command = [
        sys.executable,
        "-m",
        "octavo.cli",
        "serve",
        "--port",
        "0",
        "--json",
        "--store",
        "sqlite:///a.db",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        text = b""
        while not text.endswith(b"}\n"):
            text += process.stdout.readline()
        process.terminate()
        process.stdout.read()
    told = json.loads(text)
    assert (told["ok"], told["store"], told["needs_key"]) == (True, "sqlite:///a.db", False)
    assert told["url"].startswith("http://127.0.0.1:")
    assert process.returncode == 0


def test_a_port_that_is_taken(called):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = called("--port", str(port))
    assert refused.exit_code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in refused.stderr
    assert "is a server running there already? --port" in refused.stderr


@pytest.mark.parametrize("host", ["nosuch.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_of_this_machine(called, host):
    refused = called("--host", host, "--port", "0")
    assert refused.exit_code == 1
    assert f"cannot listen on {host}" in refused.stderr
    assert "--host names an address of this machine" in refused.stderr
    assert "running there" not in refused.stderr


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--store", "memory://", "--workers", "2"), "server.workers is 2"),
        (("--store", "sqlite:///:memory:", "--workers", "2"), "server.workers is 2"),
        (("--store", "memory://", "--host", "0.0.0.0"), "cannot keep them in memory"),
        (("--store", "what://x"), "what"),
        (("--config", "missing.yaml"), "missing.yaml"),
    ],
)
def test_what_cannot_be_served(called, args, named):
    refused = called("--port", "0", *args)
    assert refused.exit_code == 2, refused.output
    assert named in refused.stderr


def test_without_the_extra(called, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "fastapi" else find(name, *more)
    )
    refused = called()
    assert refused.exit_code == 2
    assert "pip install 'octavo[server]'" in refused.stderr
    from octavo.server import create_app

    with pytest.raises(ConfigError, match=r"octavo\[server\]"):
        create_app(Settings())


def test_it_helps_with_an_example(called):
    told = called("--help").stdout
    assert "Example: octavo serve" in told
    for option in (
        "--config",
        "--store",
        "--host",
        "--port",
        "--workers",
        "--sample",
        "--json",
        "--quiet",
        "--debug",
    ):
        assert option in told


class Writers:
    """Clients that write one memory after the other until nobody answers, and keep what was acknowledged."""

    def __init__(self, url, count):
        self.kept, self.odd = [], []
        self._url = url
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _write(self, number):
        with httpx.Client(base_url=self._url, timeout=READY, trust_env=False) as client:
            for n in range(100_000):
                body = {"content": f"{number}: {n}", "category": "other"}
                try:
                    answered = client.post(f"/memory/user/u{number}", json=body)
                except httpx.TransportError:
                    return
                if answered.status_code != 200:
                    self.odd.append((answered.status_code, answered.text))
                    return
                self.kept.append(answered.json()["id"])

    def join(self):
        for thread in self._threads:
            thread.join(READY)


@sampled(("kind", "workers"), [("postgres", 2), ("sqlite", 1)], share=2)
def test_a_stop_under_load_loses_nothing(octavo_serve, store_url, kind, workers):
    """SIGTERM while many write: what was acknowledged is there, nobody got an error of the server, and the status is 0."""
    store = store_url(kind)
    served = octavo_serve("--store", store, "--workers", str(workers))
    writers = Writers(served.url, 6)
    while len(writers.kept) < 60:
        time.sleep(0.05)
        assert served.process.poll() is None, served.trouble()
    assert served.stop() == 0
    writers.join()
    assert writers.odd == [], served.trouble()
    after = octavo_serve("--store", store, forked=True)
    with after.client() as client:
        there = [
            memory["id"]
            for number in range(6)
            for memory in client.get(f"/memory/user/u{number}/events?limit=1000").json()["memories"]
        ]
        logged = client.get("/stats").json()["logs"]["total"]
    assert set(writers.kept) <= set(there)
    assert len(there) == len(set(there)) == logged


@sampled("workers", [1, 2], share=2)
def test_an_interrupt_from_the_keyboard(octavo_serve, workers):
    """It ends like any other stop: what is there is kept, nothing is said, and the status is 0."""
    served = octavo_serve("--workers", str(workers))
    assert served.interrupt() == 0
    assert served.trouble() == ""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="which workers there are is read from /proc")
def test_an_interrupt_while_workers_start_says_nothing(tmp_path):
    command = [sys.executable, "-m", "octavo.cli", "serve", "--port", "0", "--workers", "2"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as served:
        children = Path(f"/proc/{served.pid}/task/{served.pid}/children")
        while len(children.read_text().split()) < 3:  # one of them is multiprocessing's own
            assert served.poll() is None
            time.sleep(0.01)
        time.sleep(0.3)  # they import now
        os.killpg(served.pid, signal.SIGINT)
        told = served.communicate(timeout=60)[0].decode()
    assert (served.returncode, "Traceback" in told) == (0, False), told


def test_two_workers_over_one_postgres(octavo_serve, store_url, new_key):
    """Both answer, and each sees at once what the other wrote; no setting is in any command line, and Ctrl-C ends them without a word."""
    store = store_url("postgres")
    key = new_key(store, "write").key
    served = octavo_serve("--store", store, "--workers", "2", OCTAVO__SERVER__AUTH="on")
    headers = {"Authorization": f"Bearer {key}"}
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(served.client()) for _ in range(8)]
        for n, client in enumerate(clients):
            made = client.post(
                "/memory/user/lin", json={"content": f"n {n}", "category": "other"}, headers=headers
            )
            assert made.status_code == 200, made.text
            for other in clients:
                assert other.get("/memory/user/lin/events", headers=headers).json()["count"] == n + 1
    children = subprocess.run(
        ["ps", "-ww", "-o", "args=", "--ppid", str(served.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert children.count("--multiprocessing-fork") == 2
    assert "postgresql" not in children
    assert served.interrupt() == 0
    lines = [json.loads(line) for line in served.trouble().splitlines()]
    assert len([line for line in lines if line.get("status") == 200]) == 72
