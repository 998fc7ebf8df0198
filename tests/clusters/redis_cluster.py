"""A Redis Cluster of three primaries, each with a replica, all on loopback."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Self

from processes import told_to
from redis.exceptions import RedisError
from sentinel_cluster import client
from waiting import until

from servers.redis import Redis
from servers.server import free_port

PRIMARIES = 3
SLOTS = 16_384


class Node(Redis):
    """A Redis that keeps some of the slots, or follows one that does."""

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.bus = free_port()

    def command(self) -> list[str]:
        return [
            *super().command(), "--databases", "1", "--cluster-enabled", "yes", "--cluster-port", str(self.bus),
            "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0", "--repl-timeout", "5",
        ]  # fmt: skip

    def ask(self, *words: str | int) -> Any:
        with closing(client(self.port)) as one:
            return one.execute_command(*words)

    def info(self) -> dict[str, Any]:
        with closing(client(self.port)) as one:
            return {**one.info("replication"), **one.cluster("info")}


class RedisCluster:
    """`with RedisCluster() as cluster`: whose replicas take over by themselves."""

    name = "Redis 7, Cluster"

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __enter__(self) -> Self:
        try:
            self.nodes += [Node() for _ in range(2 * PRIMARIES)]
            for number, node in enumerate(self.nodes):
                node.start()
                node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                if number < PRIMARIES:
                    first, end = (SLOTS * one // PRIMARIES for one in (number, number + 1))
                    node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
                node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
            for primary, replica in zip(self.nodes[:PRIMARIES], self.nodes[PRIMARIES:], strict=True):
                name = primary.ask("CLUSTER", "MYID").decode()
                until(
                    lambda one=replica, name=name: one.ask("CLUSTER", "REPLICATE", name),
                    60,
                    (OSError, RedisError),
                )
            self.wait_until_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()

    @contextmanager
    def broken(self, fault: str, slot: int) -> Iterator[None]:
        """The primary of this slot killed with SIGKILL or paused with SIGSTOP; then mended."""
        port = next(row[2][1] for row in self.nodes[0].ask("CLUSTER", "SLOTS") if row[0] <= slot <= row[1])
        node = next(one for one in self.nodes if one.port == port)
        told_to(signal.SIGKILL if fault == "kill" else signal.SIGSTOP, [node.pid])
        try:
            yield
        finally:
            if fault == "kill":
                node.kill()  # what is left of it
                node.start()
            else:
                told_to(signal.SIGCONT, [node.pid])

    def wait_until_whole(self, seconds: float = 120) -> None:
        """Wait until all slots are kept, and each primary has a replica that follows it."""
        until(self._whole, seconds, (OSError, RedisError))

    def _whole(self) -> bool:
        told = [node.info() for node in self.nodes]
        following = [one for one in told if one["role"] == "slave"]
        return (
            all((one["cluster_state"], one["cluster_known_nodes"]) == ("ok", str(len(told))) for one in told)
            and len(following) == PRIMARIES
            and all(one["master_link_status"] == "up" for one in following)
            and all(one["connected_slaves"] == 1 for one in told if one["role"] == "master")
        )
