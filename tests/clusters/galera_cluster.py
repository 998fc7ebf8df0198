"""Three MariaDB servers in a Galera cluster, all on loopback, each behind a proxy for its clients that can be cut."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import asyncmy
from processes import told_to
from tcp_proxy import Network
from waiting import until

from servers.aside import run_aside
from servers.binaries import locate
from servers.errors import Unavailable
from servers.mysql import MySQL
from servers.server import free_port

SIZE = 3
LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
PROVIDER = (
    "base_host=127.0.0.1;base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{ist};"
    "ist.recv_bind=127.0.0.1;gcache.size=128M;evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;"
    "evs.inactive_timeout=PT10S"
)


WHOLE = {"wsrep_local_state_comment": "Synced", "wsrep_cluster_size": str(SIZE), "wsrep_ready": "ON"}


class Node(MySQL):
    """A MariaDB that commits what all nodes have certified."""

    pid_files = ("data/rsync_sst.pid",)  # what receives the data of another node outlives one that is killed
    start_seconds = 300  # with all data from another node, while that one is written to

    def __init__(self, number: int, groups: list[int], network: Network, *, durable: bool) -> None:
        super().__init__(durable=durable)
        self.number, self.groups = number, groups
        self.front = network.proxy(self.port)
        self.ports = {"ist": free_port(), "sst": free_port()}
        self.joins = number > 0
        self.position = ""

    def find_programs(self) -> None:
        super().find_programs()
        locate("rsync", package="rsync")
        self.library = next((path for path in LIBRARIES if Path(path).is_file()), "")
        if not self.library or "mariadb" not in self.mysqld.name:
            raise Unavailable("Galera needs mariadbd and galera-4")

    def prepare(self) -> None:
        if self.joins:
            self.run_program("mkdir", self.folder / "data")  # all that is in it comes from another node
            (self.folder / "init.sql").write_text("SELECT 1;\n")
        else:
            super().prepare()
            script = self.folder / "init.sql"
            script.write_text("SET SESSION wsrep_on = OFF;\n" + script.read_text())
        (self.folder / "init.sql").chmod(0o644)

    def command(self) -> list[str]:
        own = f"127.0.0.1:{self.groups[self.number]}"
        words = [
            *super().command(), f"--tmpdir={self.folder}", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
            "--performance-schema=OFF", "--wsrep-on=ON", f"--wsrep-provider={self.library}",
            "--wsrep-cluster-name=octavo", f"--wsrep-node-name=g{self.number}", f"--wsrep-node-address={own}",
            f"--wsrep-cluster-address=gcomm://{','.join(f'127.0.0.1:{port}' for port in self.groups)}",
            f"--wsrep-node-incoming-address=127.0.0.1:{self.port}", "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{self.ports['sst']}",
            f"--wsrep-provider-options={PROVIDER.format(group=self.groups[self.number], ist=self.ports['ist'])}",
        ]  # fmt: skip
        if self.position:
            words.append(f"--wsrep-start-position={self.position}")
        return [*words, "--wsrep-new-cluster"] if not self.joins else words

    def recover(self) -> None:
        """Find out how far a crashed node had come, as its service does before it starts, so that it is sent only the rest."""
        self.position = ""
        said = self.run_program(*self.command(), "--wsrep-recover")
        (self.position,) = re.findall(r"Recovered position: (\S+:-?\d+)", said)

    def empty(self) -> None:
        """Forget everything: all of it is sent anew."""
        self.run_program("rm", "-rf", self.folder / "data")
        self.run_program("mkdir", self.folder / "data")
        self.position = ""

    def state(self) -> dict[str, str]:
        """What it says of itself and its cluster; nothing where it does not answer."""
        with suppress(OSError, asyncmy.errors.MySQLError):
            return dict(self.ask("SHOW STATUS LIKE 'wsrep%'"))
        return {}

    def ask(self, sql: str) -> Any:
        return run_aside(_ask(self.port, sql))


class GaleraCluster:
    """`with GaleraCluster() as cluster`: three nodes, each of which takes writes."""

    name = "MariaDB 10.11, Galera"

    def __init__(self, *, durable: bool = False) -> None:
        self.nodes: list[Node] = []
        self.helped: list[str] = []  # what an operator would have had to do
        self._durable = durable

    def __enter__(self) -> Self:
        self.network = Network()
        try:
            groups = [free_port() for _ in range(SIZE)]
            self.nodes += [
                Node(number, groups, self.network, durable=self._durable) for number in range(SIZE)
            ]
            for node in self.nodes:  # one at a time: each is sent everything by another
                node.start()
                node.joins = True
            self.wait_until_whole()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()
        self.network.close()

    @property
    def url(self) -> str:
        """For Octavo, through the proxies, any of which may lead nowhere."""
        return f"mysql://octavo:octavo@{','.join(f'127.0.0.1:{node.front.port}' for node in self.nodes)}/"

    @contextmanager
    def broken(self, fault: str) -> Iterator[None]:
        """The node that takes the writes killed with SIGKILL, paused with SIGSTOP, or cut off from the others and its clients."""
        node = self._used()
        if fault == "partition":
            node.front.cut()
            node.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
        else:
            told_to(signal.SIGKILL if fault == "kill" else signal.SIGSTOP, [node.pid])
        try:
            yield
        finally:
            if fault == "partition":
                node.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
                node.front.mend()
            elif fault == "pause":
                told_to(signal.SIGCONT, [node.pid])
            else:
                self._bring_back(node)

    def wait_until_whole(self, seconds: float = 60) -> None:
        """Wait until all nodes are in one cluster and have all there is; one that does not find back is started anew."""
        for _ in range(3):
            with suppress(AssertionError):
                return until(self._whole, seconds)
            self._agree(self.nodes)
            for node in self.nodes:
                state = node.state()
                if (state.get("wsrep_cluster_status"), state.get("wsrep_ready")) != ("Primary", "ON"):
                    self.helped.append(
                        f"g{node.number} was started anew: {state.get('wsrep_local_state_comment')}"
                    )
                    self._bring_back(node)
        return until(self._whole, seconds)

    def _whole(self) -> bool:
        for node in self.nodes:
            if not node.running:  # one that needs all data anew ends, and its service would start it
                self._bring_back(node)
        return all(WHOLE.items() <= node.state().items() for node in self.nodes)

    def _bring_back(self, node: Node) -> None:
        """Start a node that was killed, as often as a service would; at last with nothing in its folder."""
        for attempt in range(4):
            node.kill()  # what is left of it
            self._agree([other for other in self.nodes if other is not node])
            try:
                # Without durability its files and its tables may be of different moments.
                node.recover() if node.durable and attempt < 2 else node.empty()
                return node.start()
            except Unavailable as error:
                problem = error
        raise problem

    def _agree(self, nodes: list[Node]) -> None:
        """Nodes that have all lost sight of each other take no writes until somebody says which of them has most."""
        with suppress(AssertionError):
            return until(
                lambda: any(one.state().get("wsrep_cluster_status") == "Primary" for one in nodes), 20
            )
        most = max(nodes, key=lambda one: int(one.state().get("wsrep_last_committed", -1)))
        most.ask("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        self.helped.append(f"g{most.number} was told to go on alone")
        return None

    def _used(self) -> Node:
        """The node with most of Octavo's connections."""
        sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'octavo' AND db IS NOT NULL"
        return max(self.nodes, key=lambda node: node.ask(sql)[0][0])


async def _ask(port: int, sql: str) -> Any:
    connection = await asyncmy.connect(
        host="127.0.0.1", port=port, user="octavo", password="octavo", connect_timeout=2, read_timeout=5
    )
    try:
        async with connection.cursor() as cursor:
            await cursor.execute(sql)
            return await cursor.fetchall()
    finally:
        connection.close()
