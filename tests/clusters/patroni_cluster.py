"""Three PostgreSQL servers under Patroni with one etcd, all on loopback, each node behind proxies that can be cut."""

import contextlib
import json
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

from processes import family, told_to
from tcp_proxy import Network
from waiting import until

from servers import debian
from servers.binaries import locate
from servers.errors import Unavailable
from servers.server import Server, free_port

SIZE = 3


class Etcd(Server):
    """The one that says who is primary; it is never broken here."""

    kind = "etcd"
    account_name = "etcd"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def find_programs(self) -> None:
        self.etcd = locate("etcd", package="etcd-server")

    def prepare(self) -> None:
        self.peers = f"http://127.0.0.1:{free_port()}"

    def command(self) -> list[str]:
        return [
            str(self.etcd), "--name", "only", "--data-dir", str(self.folder / "data"),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", self.peers, "--initial-advertise-peer-urls", self.peers,
            "--initial-cluster", f"only={self.peers}", "--enable-v2",
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "ETCD_UNSUPPORTED_ARCH": "arm64"}

    @staticmethod
    def ping(url: str) -> None:
        _get(f"{url}/health")

    @staticmethod
    def fresh(url: str) -> Any:
        raise NotImplementedError


class Node(Server):
    """Patroni, and the PostgreSQL that it looks after."""

    kind = "patroni"
    account_name = "postgres"
    pid_files = ("data/postmaster.pid",)

    def __init__(self, number: int, etcd: int, network: Network, *, synchronous: bool, durable: bool) -> None:
        super().__init__(durable=durable)
        self.name = f"n{number}"
        self.rest = free_port()
        self.synchronous = synchronous
        self.front, self.talk, self.lock = (network.proxy(port) for port in (self.port, self.rest, etcd))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rest}/liveness"

    def find_programs(self) -> None:
        self.postgres = locate("postgres")
        if problem := debian.install_program("python3-etcd"):
            raise Unavailable(problem)
        self.patroni = locate("patroni", package="patroni")

    def prepare(self) -> None:
        here = self.folder
        login = {"password": "octavo"}
        config = {
            "scope": "octavo",
            "name": self.name,
            "restapi": {
                "listen": f"127.0.0.1:{self.rest}",
                "connect_address": f"127.0.0.1:{self.talk.port}",
            },
            # The older protocol: the newer one's cache is stale after a pause. Without topology discovery, which would find the
            # way around the proxy.
            "etcd": {"host": f"127.0.0.1:{self.lock.port}", "use_proxies": True},
            "bootstrap": {
                "dcs": {
                    "ttl": 5, "loop_wait": 1, "retry_timeout": 2, "synchronous_mode": self.synchronous,
                    "maximum_lag_on_failover": 1_048_576,
                    "postgresql": {
                        "use_pg_rewind": True, "use_slots": True,
                        "parameters": {"max_connections": 100, "shared_buffers": "32MB", "wal_log_hints": "on"},
                    },
                },
                "initdb": [
                    {"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums",
                    {"auth-host": "scram-sha-256"}, {"auth-local": "trust"},
                ],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}", "connect_address": f"127.0.0.1:{self.front.port}",
                "data_dir": str(here / "data"), "bin_dir": str(self.postgres.resolve().parent),
                "pgpass": str(here / "pgpass"),
                "parameters": {
                    "unix_socket_directories": str(here), "dynamic_shared_memory_type": "mmap",
                    "fsync": "on" if self.durable else "off", "wal_receiver_timeout": "3s", "wal_sender_timeout": "3s",
                },
                "pg_hba": [
                    "local all all trust", "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication repl 127.0.0.1/32 scram-sha-256",
                ],
                "authentication": {
                    "superuser": {"username": "octavo", **login}, "replication": {"username": "repl", **login},
                    "rewind": {"username": "rewind", **login},
                },
            },
            "watchdog": {"mode": "off"},
        }  # fmt: skip
        path = here / "patroni.yml"
        path.write_text(json.dumps(config))  # JSON is YAML
        path.chmod(0o644)  # the folder is closed already, and Patroni is not us

    def command(self) -> list[str]:
        return [str(self.patroni), str(self.folder / "patroni.yml")]

    @staticmethod
    def ping(url: str) -> None:
        _get(url)

    @staticmethod
    def fresh(url: str) -> Any:
        raise NotImplementedError

    def processes(self) -> list[int]:
        """Patroni, PostgreSQL and its children."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            first = (self.folder / "data" / "postmaster.pid").read_text().split()[0]
            return [self.pid, *family(int(first))]
        return [self.pid]


class PatroniCluster:
    """`with PatroniCluster() as cluster`: a primary, a synchronous standby and another one."""

    name = "PostgreSQL 15, Patroni"
    kind = "postgres"

    def __init__(self, *, synchronous: bool = True, durable: bool = False) -> None:
        self.synchronous = synchronous
        self.etcd = Etcd()
        self.nodes: list[Node] = []
        self._durable = durable

    def __enter__(self) -> Self:
        self.network = Network()
        try:
            self.etcd.start()
            self.nodes += [
                Node(
                    number, self.etcd.port, self.network, synchronous=self.synchronous, durable=self._durable
                )
                for number in range(SIZE)
            ]
            with ThreadPoolExecutor(SIZE) as threads:
                list(threads.map(Node.start, self.nodes))
            self.wait_until_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.nodes, self.etcd):
            server.close()
        self.network.close()

    @property
    def url(self) -> str:
        """For Octavo, through the proxies, any of which may lead nowhere."""
        hosts = ",".join(f"127.0.0.1:{node.front.port}" for node in self.nodes)
        return f"postgresql://octavo:octavo@{hosts}/postgres?target_session_attrs=read-write"

    @contextmanager
    def broken(self, fault: str) -> Iterator[None]:
        """The primary, and Patroni with it, killed with SIGKILL, paused with SIGSTOP, or cut off from all others; then mended."""
        node = self._primary()
        if fault == "partition":
            ways = (node.front, node.talk, node.lock)
            for way in ways:
                way.cut()
            try:
                yield
            finally:
                for way in ways:
                    way.mend()
            return
        processes = node.processes()
        told_to(signal.SIGKILL if fault == "kill" else signal.SIGSTOP, processes)
        try:
            yield
        finally:
            if fault == "pause":
                told_to(signal.SIGCONT, reversed(processes))
            else:
                node.kill()  # what is left of it
                node.start()

    def wait_until_whole(self, seconds: float = 180) -> None:
        """Wait until there is a primary, and a standby for each of the others that follows it."""
        until(self._whole, seconds, (OSError, LookupError))

    def _whole(self) -> bool:
        members = json.loads(_get(f"http://127.0.0.1:{self._primary().rest}/cluster"))["members"]
        leaders = [one for one in members if one["role"] == "leader"]
        if len(members) < SIZE or len(leaders) != 1:
            return False
        same = all(
            one["state"] in ("running", "streaming") and one.get("timeline") == leaders[0].get("timeline")
            for one in members
        )
        return same and (not self.synchronous or any(one["role"] == "sync_standby" for one in members))

    def _primary(self) -> Node:
        for node in self.nodes:
            with contextlib.suppress(OSError):
                _get(f"http://127.0.0.1:{node.rest}/primary")
                return node
        raise LookupError("there is no primary")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return answer.read()
