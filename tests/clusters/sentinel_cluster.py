"""A Redis primary with a replica, watched by three Sentinels, all on loopback, each server behind a proxy that can be cut."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Self

import redis
from processes import told_to
from redis.backoff import NoBackoff
from redis.retry import Retry
from tcp_proxy import Network
from waiting import until

from servers.redis import Redis

SERVICE = "octavo"
SENTINELS = 3


class Node(Redis):
    """A Redis that is known to all others by the port of its proxy."""

    def __init__(self, network: Network, primary: "Node | None") -> None:
        super().__init__(durable=True)
        self.front = network.proxy(self.port)
        self.primary = primary

    def command(self) -> list[str]:
        words = [
            *super().command(), "--repl-diskless-sync-delay", "0", "--replica-announce-port", str(self.front.port),
            "--repl-timeout", "5",
        ]  # fmt: skip
        follow = ["--replicaof", f"127.0.0.1 {self.primary.front.port}"] if self.primary else []
        return [*words, *follow]

    def info(self) -> dict[str, Any]:
        with closing(client(self.port)) as one:
            return one.info("replication")


class SentinelServer(Redis):
    """One of those who agree on who is the primary."""

    def __init__(self, primary: Node) -> None:
        super().__init__()
        self.primary = primary

    def prepare(self) -> None:
        path = self.folder / "sentinel.conf"
        path.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.primary.front.port} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\n"
            f"sentinel failover-timeout {SERVICE} 5000\n"
        )
        path.chmod(0o666)  # it writes into it what it learns

    def command(self) -> list[str]:
        return [str(self.redis_server), str(self.folder / "sentinel.conf"), "--sentinel"]

    def state(self) -> dict[str, Any]:
        with closing(client(self.port)) as one:
            return one.sentinel_master(SERVICE)


class SentinelCluster:
    """`with SentinelCluster() as cluster`: a primary and what takes over from it."""

    name = "Redis 7, Sentinel"

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.sentinels: list[SentinelServer] = []

    def __enter__(self) -> Self:
        self.network = Network()
        try:
            first = Node(self.network, None)
            self.nodes += [first, Node(self.network, first)]
            self.sentinels += [SentinelServer(first) for _ in range(SENTINELS)]
            for node in self.nodes:
                node.start()
            until(
                self._followed, 30, (OSError, redis.RedisError)
            )  # Sentinels learn of replicas from the primary
            for sentinel in self.sentinels:
                sentinel.start()
            self.wait_until_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.sentinels, *self.nodes):
            server.close()
        self.network.close()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}/0"

    @contextmanager
    def broken(self, fault: str) -> Iterator[None]:
        """The primary killed with SIGKILL, paused with SIGSTOP, or cut off from all others; then mended."""
        node = self._primary()
        if fault == "partition":
            node.front.cut()
        else:
            told_to(signal.SIGKILL if fault == "kill" else signal.SIGSTOP, [node.pid])
        try:
            yield
        finally:
            if fault == "partition":
                node.front.mend()
            elif fault == "pause":
                told_to(signal.SIGCONT, [node.pid])
            else:
                node.kill()  # what is left of it
                node.start()

    def wait_until_whole(self, seconds: float = 60) -> None:
        """Wait until one is primary, the other follows it, and all Sentinels know both and each other."""
        until(self._whole, seconds, (OSError, LookupError, redis.RedisError))

    def agree_on_another(self, port: int) -> bool:
        """Whether all Sentinels name the same primary, and not this one any more."""
        named = {sentinel.state()["port"] for sentinel in self.sentinels}
        return len(named) == 1 and port not in named

    def _whole(self) -> bool:
        port = self._primary().front.port
        states = [sentinel.state() for sentinel in self.sentinels]
        return self._followed() and all(
            (state["port"], state["flags"], state["num-slaves"]) == (port, "master", len(self.nodes) - 1)
            and state["num-other-sentinels"] == SENTINELS - 1
            for state in states
        )

    def _followed(self) -> bool:
        told = [node.info() for node in self.nodes]
        return (
            sorted(one["role"] for one in told) == ["master", "slave"]
            and all(one["master_link_status"] == "up" for one in told if one["role"] == "slave")
            and all(one["connected_slaves"] == 1 for one in told if one["role"] == "master")
        )

    def _primary(self) -> Node:
        port = self.sentinels[0].state()["port"]
        return next(node for node in self.nodes if node.front.port == port)


def client(port: int) -> "redis.Redis":
    return redis.Redis(port=port, socket_timeout=2, retry=Retry(NoBackoff(), 0))
