"""docs/behind-a-proxy.md: its nginx, its Caddy and its unit are run as shown; tests/clusters its HAProxy, tests/server its other settings and commands."""

import configparser
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from pages import ROOT, blocks

from octavo.config import load_settings
from running_server import octavo_serves
from sampled import only_torture
from servers import Unavailable, binaries, debian, fresh
from servers.proxies import PROXIES, Nginx

PAGE = ROOT / "docs" / "behind-a-proxy.md"
OCTAVO = Path(sys.executable).with_name("octavo")
STARTED = 60  # seconds, after which a test fails rather than hang


def shown(kind):
    [found] = [block.text for block in blocks(PAGE) if block.kind == kind]
    return found


def swapped(text, own):
    """The text with each word of the page replaced by the test's own; each must stand there once."""
    for word, instead in own.items():
        assert text.count(word) == 1, f"{word!r} stands {text.count(word)} times in\n{text}"
        text = text.replace(word, str(instead))
    return text


def settings(folder):
    """The page's section `server`."""
    path = folder / "shown.yaml"
    path.write_text(shown("yaml"))
    return load_settings(path, environ={"DB_PASSWORD": "p"}).server


def address_shown():
    """Where the page's server listens, which both its proxies must lead to."""
    return ":".join(re.search(r"host: (\S+)\n  port: (\d+)\n", shown("yaml")).groups())


def read(unit):
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str
    found.read_string(unit)
    return found


def line_with(word, log):
    """The one line of a log that has this word; it may be written after the answer that it is about."""
    ends = time.monotonic() + STARTED
    while True:
        lines = log.read_text().splitlines(keepends=True)
        found = [line for line in lines if word in line and line.endswith("\n")]
        if found:
            [line] = found
            return line.rstrip("\n")
        assert time.monotonic() < ends, f"{word} is not in {log.name}"
        time.sleep(0.01)


class Installed:
    """The page followed up to its proxy: settings, a key, and the unit's process; in one folder, on one database."""

    def __init__(self, folder, database):
        self.folder = folder
        there = urlsplit(database)
        self.settings = folder / re.match(r"# (\S+)\n", shown("yaml"))[1]
        self.settings.parent.mkdir()
        self.settings.write_text(
            swapped(
                shown("yaml"),
                {
                    "octavo:<DB_PASSWORD>@db.internal/octavo": (
                        f"{there.username}:<DB_PASSWORD>@{there.hostname}:{there.port}{there.path}"
                    ),
                    "port: 8000": "port: 0",
                    "workers: 4": "workers: 2",  # which is several, too
                },
            )
        )
        (folder / "secrets").write_text(f"DB_PASSWORD={unquote(there.password)}\n")
        (folder / "state").mkdir()
        self.log = folder / "log"
        self.unit = read(
            swapped(
                shown("ini"),
                {
                    "/opt/octavo/bin/octavo": OCTAVO,
                    "/etc/octavo/memory.yaml": self.settings,
                    "/etc/octavo/secrets": folder / "secrets",
                    "/var/lib/octavo": folder / "state",
                },
            )
        )

    def environment(self):
        """What systemd passes on."""
        secrets = Path(self.unit["Service"]["EnvironmentFile"]).read_text().splitlines()
        return {"PATH": os.environ["PATH"], **dict(line.split("=", 1) for line in secrets)}

    def key(self):
        """What the page's command prints."""
        [command] = [line for line in shown("bash").splitlines() if line.startswith("octavo keys")]
        done = subprocess.run(
            [OCTAVO, *shlex.split(command)[1:], "--json"],
            cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["key"]

    @contextmanager
    def running(self):
        """The address of the unit's process, which must end by itself in the time that systemd would give it."""
        service = self.unit["Service"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                shlex.split(service["ExecStart"]), cwd=service["WorkingDirectory"], env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        late = threading.Timer(STARTED, process.kill)
        late.start()
        try:
            said = process.stdout.readline()
            late.cancel()
            assert said.startswith("octavo listens on http://127.0.0.1:"), said + self.log.read_text()
            yield said.split()[3].removeprefix("http://")
            os.killpg(process.pid, signal.SIGTERM)  # systemd tells every process of a unit
            assert process.wait(float(service["TimeoutStopSec"])) == 0, self.log.read_text()
        finally:
            late.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def logged(self, request_id):
        """The server's line about a request."""
        return json.loads(line_with(request_id, self.log))


@contextmanager
def proxying(kind, upstream, *, behind=""):
    """The page's nginx or Caddy, started, before a server at this address; `behind` is put behind the address."""
    proxy = PROXIES[kind]()
    try:
        if isinstance(proxy, Nginx):
            own = {
                "listen 443 ssl": f"listen 127.0.0.1:{proxy.port} ssl",
                f"http://{address_shown()};": f"http://{upstream}{behind};",
                "/etc/ssl/memory.example.com.pem": proxy.authority,
                "/etc/ssl/private/memory.example.com.pem": proxy.private_key,
                "/var/log/nginx/octavo.log": proxy.folder / "octavo.log",
            }
            proxy.site = swapped(shown("nginx"), own)
        else:
            proxy.site = swapped(shown("caddyfile"), {address_shown(): upstream})
        proxy.start()
        yield proxy
    finally:
        proxy.close()


def calling(proxy, key=None):
    """A client of the proxy, which takes nobody else's certificate for it."""

    def named(request):
        request.headers["Host"] = proxy.name
        request.extensions["sni_hostname"] = proxy.name

    return httpx.Client(
        base_url=proxy.url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        verify=ssl.create_default_context(cafile=proxy.authority),
        event_hooks={"request": [named]},
        timeout=STARTED,
        trust_env=False,
    )


@pytest.fixture(scope="module")
def database(server_url):
    with fresh("postgres", server_url("postgres")) as url:
        yield url


@pytest.fixture(scope="module")
def installed(tmp_path_factory, database):
    return Installed(tmp_path_factory.mktemp("installed"), database)


@pytest.fixture(scope="module")
def key(installed):
    return installed.key()


@pytest.fixture(scope="module")
def upstream(installed):
    with installed.running() as address:
        yield address


@pytest.fixture(scope="module", params=sorted(PROXIES))
def proxy(request, upstream):
    with proxying(request.param, upstream) as proxy:
        yield proxy


@pytest.fixture
def client(proxy, key):
    with calling(proxy, key) as client:
        yield client


def test_a_memory_through_the_proxy(client):
    """Written and read back with the page's key."""
    made = client.post("/memory/user/lin", json={"content": "Likes tea", "memory_layer": "profile"})
    assert made.status_code == 200, made.text
    got = client.get(f"/memory/{made.json()['id']}")
    assert (got.status_code, got.json()["content"]) == (200, "Likes tea")


def test_without_a_key(proxy):
    """Nothing but its health is told."""
    with calling(proxy) as stranger:
        assert stranger.get("/memory/user/lin/profile").status_code == 401
        assert stranger.get("/health").json()["status"] == "ok"


def test_an_id_with_a_slash(client, proxy):
    path = f"/memory/user/team%2F{proxy.kind}"
    made = client.post(path, json={"content": "Has a slash", "memory_layer": "profile"})
    assert made.status_code == 200, made.text
    got = client.get(f"{path}/profile").json()
    assert [memory["content"] for memory in got["memories"]] == ["Has a slash"]


def test_an_id_with_a_slash_and_a_path_behind_the_port(upstream, key):
    """The reason why the page's nginx has none there."""
    with proxying("nginx", upstream, behind="/") as wrong, calling(wrong, key) as client:
        body = {"content": "Has a slash", "memory_layer": "profile"}
        assert client.post("/memory/user/ann", json=body).status_code == 200
        assert client.post("/memory/user/team%2Flin", json=body).status_code in (404, 405)


def test_the_request_id(client, proxy, installed):
    """It is in the answer and in the server's log; in nginx's, too, without the path; and through Caddy the caller's."""
    answer = client.get("/memory/user/lin/profile", headers={"X-Request-ID": "mine-1"})
    request_id = answer.headers["X-Request-ID"]
    assert installed.logged(request_id)["status"] == 200
    if isinstance(proxy, Nginx):
        assert re.fullmatch("[0-9a-f]{32}", request_id)
        line = line_with(request_id, proxy.folder / "octavo.log")
        assert re.fullmatch(rf"\S+ GET 200 [\d.]+ {request_id}", line)
    else:
        assert request_id == "mine-1"
        own = client.get("/memory/user/lin/profile").headers["X-Request-ID"]
        assert installed.logged(own)["status"] == 200


def test_the_largest_body(client, tmp_path):
    """It passes the proxy; one byte more is refused by the server, in its own words."""
    most = settings(tmp_path).max_body_bytes
    small = json.dumps({"content": "A large body", "memory_layer": "event"})
    headers = {"Content-Type": "application/json"}
    largest = client.post("/memory/user/lin", content=small.ljust(most), headers=headers)
    assert largest.status_code == 200, largest.text
    larger = client.post("/memory/user/lin", content=small.ljust(most + 1), headers=headers)
    assert (larger.status_code, "server.max_body_bytes" in larger.json()["detail"]) == (413, True)


def test_a_body_that_is_too_large_for_nginx(client, proxy):
    """It is 413, too; Caddy has no limit, and leaves it to the server."""
    [most] = re.findall(r"client_max_body_size (\d+)m;", shown("nginx"))
    headers = {"Content-Type": "application/json"}
    refused = client.post("/memory/user/lin", content=b" " * (int(most) * 2**20 + 1), headers=headers)
    assert refused.status_code == 413
    assert ("X-Request-ID" in refused.headers) is not isinstance(proxy, Nginx)


@pytest.mark.parametrize("kind", sorted(PROXIES))
def test_a_server_that_asks_for_no_keys(kind, tmp_path):
    """What comes through the page's proxies is recognised, and refused."""
    with (
        octavo_serves("sqlite:///octavo.db", tmp_path) as url,
        proxying(kind, url.removeprefix("http://")) as proxy,
        calling(proxy) as client,
    ):
        assert client.get("/memory/user/lin/profile").status_code == 421


@pytest.mark.parametrize("kind", sorted(PROXIES))
def test_a_proxy_that_cannot_be_had(kind, monkeypatch):
    """It is missing like any other server: a loud skip, and in CI a failure."""
    monkeypatch.setattr(binaries, "search", lambda *names: None)
    monkeypatch.setattr(debian, "install_program", lambda package: f"no network for {package}")
    with pytest.raises(Unavailable, match=f"{kind} not found: no network for {kind}"):
        PROXIES[kind]()


def test_nginx_is_more_patient_than_the_server(tmp_path):
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", shown("nginx"))
    assert int(seconds) > settings(tmp_path).request_seconds


def verified(folder, unit):
    """What systemd has to say about this unit; about others of this machine it may say more."""
    path = folder / re.match(r"# (\S+)\n", unit)[1]
    path.write_text(swapped(unit, {"/opt/octavo/bin/octavo": OCTAVO}))
    done = subprocess.run(
        [binaries.locate("systemd-analyze", package="systemd"), "verify", path],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if path.name in line]


def test_systemd_knows_every_word_of_the_unit(tmp_path):
    assert verified(tmp_path, shown("ini")) == []
    for word in re.findall(r"^(\w+)=", shown("ini"), re.MULTILINE):
        [said] = verified(tmp_path, swapped(shown("ini"), {f"\n{word}=": f"\nX{word}="}))[:1]
        assert f"X{word}" in said


def test_the_unit_is_at_home_where_its_state_is():
    """What systemd makes for it is the folder it starts in, and the queue's with it."""
    unit = read(shown("ini"))["Service"]
    assert unit["WorkingDirectory"] == f"/var/lib/{unit['StateDirectory']}"


@only_torture
def test_the_unit_stops_in_time(tmp_path, database):
    """All its processes are told at once, while a caller is still connected; nobody complains, and what was written stays."""
    installed = Installed(tmp_path, database)
    key = installed.key()
    headers = {"Authorization": f"Bearer {key}"}
    with installed.running() as address:
        client = httpx.Client(base_url=f"http://{address}", headers=headers, timeout=STARTED, trust_env=False)
        made = client.post("/memory/user/lin", json={"content": "Stays", "memory_layer": "event"})
        assert made.status_code == 200, made.text
    client.close()
    assert float(installed.unit["Service"]["TimeoutStopSec"]) > settings(tmp_path).stop_seconds
    told = [json.loads(line) for line in installed.log.read_text().splitlines()]
    assert [line["status"] for line in told] == [200]
    assert (tmp_path / "state" / "octavo_queue").is_dir()


def test_nothing_else():
    """Every kind of block on the page is run, here, in tests/server/test_server_page.py or tests/clusters/test_servers_behind_haproxy.py."""
    kinds = ["bash", "caddyfile", "haproxy", "ini", "nginx", "yaml"]
    assert sorted(block.kind for block in blocks(PAGE)) == kinds
