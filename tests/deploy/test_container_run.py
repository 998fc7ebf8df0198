"""The image of the Dockerfile, built and run: alone, as compose.yaml runs it, and as deploy/kubernetes.yaml does.

It takes minutes to make a base and to build on it, so that `make torture` does it; tests/deploy/test_container_files.py is for every run.
"""

import json
import os
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from containers import ROOT, Containers

WAIT = 120  # seconds, after which a test fails rather than hang
USER = "10001"

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.environ.get("OCTAVO_TORTURE") != "full", reason="OCTAVO_TORTURE=full runs it"),
]
#: Asks the server from inside its container, where nobody else is; prints the status and the answer.
ASK = """
import http.client, sys
method, path, key, body = sys.argv[1:]
line = http.client.HTTPConnection('127.0.0.1', 8000, timeout=60)
headers = {'Content-Type': 'application/json', **({'Authorization': f'Bearer {key}'} if key else {})}
line.request(method, path, body or None, headers)
answer = line.getresponse()
print(answer.status)
print(answer.read().decode())
"""


@pytest.fixture(scope="module")
def containers():
    made = Containers()
    try:
        made.make_base()
        made.build()
        yield made
    finally:
        made.close()


@pytest.fixture
def folder(tmp_path):
    """What an empty volume is to the image."""
    path = tmp_path / "data"
    path.mkdir()
    os.chown(path, int(USER), int(USER))
    return path


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def healthy(containers, name):
    """What the image's own health check says."""
    return containers.call("healthcheck", "run", name, fails=True).returncode == 0


def wait_until_healthy(containers, name, check=healthy):
    ends = time.monotonic() + WAIT
    while not check(containers, name):
        assert time.monotonic() < ends, containers.said(name)
        time.sleep(0.2)


def ask(containers, name, method, path, key="", body=None):
    told = containers.call(
        "exec", name, "python3", "-c", ASK, method, path, key, json.dumps(body) if body else ""
    )
    status, _, answer = told.stdout.partition("\n")
    return int(status), json.loads(answer)


def make_key(containers, name):
    done = containers.call("exec", name, "octavo", "keys", "create", "test", "--access", "write", "--quiet")
    return done.stdout.strip()


def test_the_first_start_and_the_second(containers, folder):
    """Read-only, without rights and without a place for temporary files: it asks for keys, makes one, and keeps what it is given."""
    options = (
        "--network", "none", "--read-only", "--read-only-tmpfs=false", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--volume", f"{folder}:/data",
    )  # fmt: skip
    with containers.running("first", *options, env={}) as name:
        wait_until_healthy(containers, name)
        assert "octavo listens on http://0.0.0.0:8000" in containers.said(name)
        assert "octavo keys create NAME makes one" in containers.said(name)
        assert ask(containers, name, "GET", "/memory/user/lin/profile")[0] == 401
        key = make_key(containers, name)
        made = ask(
            containers, name, "POST", "/memory/user/lin", key, {"content": "Tea", "memory_layer": "profile"}
        )
        assert made[0] == 200, made
        assert containers.call("exec", name, "id", "-u").stdout.strip() == USER
        refused = containers.call("exec", name, "touch", "/opt/octavo/x", fails=True)
        assert "Read-only file system" in refused.stderr
        assert containers.call("exec", name, "python3", "-m", "pip", "--version", fails=True).returncode
    with containers.running("second", *options, env={}) as name:
        wait_until_healthy(containers, name)
        status, answer = ask(containers, name, "GET", "/memory/user/lin/profile", key)
        assert (status, [memory["content"] for memory in answer["memories"]]) == (200, ["Tea"])
    assert {path.stat().st_uid for path in folder.rglob("*")} == {int(USER)}
    assert not [path for path in folder.iterdir() if path.name.startswith("octavo-metrics")]


def test_without_keys_it_is_refused(containers):
    """Nobody opens it to the network by one variable."""
    done = containers.call(
        "run", "--rm", "--network", "none", "--ulimit", "nofile=20000:20000", "--ulimit", "nproc=4096:4096",
        "--env", "OCTAVO__SERVER__AUTH=off", "localhost/octavo", fails=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "server.auth is off, but server.host is '0.0.0.0'" in done.stderr


def hosted(port):
    """On the machine's own network, where its PostgreSQL is: for nobody else."""
    return {
        "OCTAVO__SERVER__HOST": "127.0.0.1",
        "OCTAVO__SERVER__AUTH": "on",
        "OCTAVO__SERVER__PORT": str(port),
    }


def remembers(containers, name, port):
    key = make_key(containers, name)
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=60
    ) as client:
        made = client.post("/memory/user/lin", json={"content": "Tea", "memory_layer": "profile"})
        assert made.status_code == 200, made.text
        assert client.get("/memory/user/lin/profile").json()["count"] == 1


def test_as_compose_runs_it_on_postgres(containers, folder, port, fresh_postgres):
    service = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["octavo"]
    there = urlsplit(fresh_postgres)
    dsn = service["environment"]["OCTAVO__DATABASE__DSN"]
    assert "@db:5432/octavo" in dsn
    env = {
        **service["environment"],
        "OCTAVO__DATABASE__DSN": f"postgresql://{there.username}:{there.password}@127.0.0.1:{there.port}{there.path}",
        **hosted(port),
    }
    assert service["read_only"] is True
    options = [
        "--read-only", "--memory", service["mem_limit"],
        *(word for right in service["cap_drop"] for word in ("--cap-drop", right)),
        *(word for path in service["tmpfs"] for word in ("--tmpfs", path)),
        *(word for one in service["security_opt"] for word in ("--security-opt", one.removesuffix(":true"))),
    ]  # fmt: skip
    with containers.running(
        "compose", "--network", "host", "--volume", f"{folder}:/data", *options, env=env
    ) as name:
        wait_until_healthy(containers, name)
        remembers(containers, name, port)


def kubernetes_container(dsn, port):
    """The environment and the command of the Deployment's container, with the secrets filled in."""
    [deployment, *_] = yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text(encoding="utf-8"))
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    secrets = {"dsn": dsn, "digest-key": "d" * 64}
    env = {
        each["name"]: each["value"] if "value" in each else secrets[each["valueFrom"]["secretKeyRef"]["key"]]
        for each in container["env"]
    }
    return {**env, **hosted(port)}, tuple(container["args"])


def as_a_pod(containers, name, dsn, port, folder):
    """With an empty /data that belongs to the account, as `fsGroup` makes it."""
    env, command = kubernetes_container(dsn, port)
    options = (
        "--network", "host", "--read-only", "--cap-drop", "ALL", "--tmpfs", "/tmp", "--volume", f"{folder}:/data"
    )  # fmt: skip
    return containers.running(name, *options, env=env, command=command)


def test_as_kubernetes_runs_it_on_postgres(containers, port, folder, fresh_postgres):
    with as_a_pod(containers, "pod", fresh_postgres, port, folder) as name:
        wait_until_healthy(containers, name)
        remembers(containers, name, port)


def test_it_is_not_healthy_without_its_database(containers, port, folder):
    """It lives, and says so, but takes no writes: the health check must tell the two apart."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    dsn = f"postgresql://octavo:octavo@127.0.0.1:{closed}/octavo"
    with as_a_pod(containers, "alone", dsn, port, folder) as name:

        def lives(*_):
            try:
                return httpx.get(f"http://127.0.0.1:{port}/health/live", timeout=60).status_code == 200
            except httpx.TransportError:
                return False

        wait_until_healthy(containers, name, lives)
        assert not healthy(containers, name)
