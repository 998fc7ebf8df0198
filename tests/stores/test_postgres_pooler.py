"""PostgreSQL behind PgBouncer, which gives a connection away after each transaction."""

import asyncio
import socket

import pytest

from octavo import Add, Change, ConfigError, Query, Record, Remove, Scope, open_store
from octavo.stores.sql.statements import Fetch
from servers.binaries import locate
from servers.server import Server

ALL = Query(collection="messages")


class PgBouncer(Server):
    """Two connections for everybody."""

    kind = "pgbouncer"
    account_name = "postgres"

    def __init__(self, target: int) -> None:
        super().__init__()
        self.target = target

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def find_programs(self) -> None:
        self.pgbouncer = locate("pgbouncer", package="pgbouncer")

    def prepare(self) -> None:
        path = self.folder / "pgbouncer.ini"
        path.write_text(
            f"[databases]\n* = host=127.0.0.1 port={self.target} user=octavo password=octavo\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
        )
        path.chmod(0o644)

    def command(self) -> list[str]:
        return [str(self.pgbouncer), str(self.folder / "pgbouncer.ini")]

    @staticmethod
    def ping(url: str) -> None:
        host, _, port = url.partition(":")
        socket.create_connection((host, int(port)), 1).close()

    @staticmethod
    def fresh(url: str):
        raise NotImplementedError


@pytest.fixture
def pooled(fresh_postgres):
    """The URL of an empty database, through PgBouncer."""
    there = fresh_postgres.partition("@")[2]
    server = PgBouncer(int(there.partition(":")[2].partition("/")[0]))
    try:
        server.start()
        yield f"postgresql://octavo:octavo@{server.url}/{there.partition('/')[2]}"
    finally:
        server.close()


async def test_many_callers_share_two_connections(pooled):
    """Each statement may go to another connection than the one before: everything is done, found, counted and searched."""
    async with (
        open_store(f"{pooled}?pooler=transaction") as store,
        open_store(f"{pooled}?pooler=transaction") as other,
    ):

        async def call(number):
            scope = Scope(user=str(number % 3))
            used = (store, other)[number % 2]
            for turn in range(5):
                record = Record(collection="messages", id=f"{number} {turn}", scope=scope, text="fox 狐狸")
                assert await used.apply([Add([record])]) == [1]
                named = Query(collection="messages", scope=scope, ids=(record.id,))
                assert await used.apply([Change(query=named, mark=("seen",))]) == [1]
                assert [one.marks for one in await used.find(named)] == [("seen",)]

        await asyncio.gather(*(call(number) for number in range(20)))
        assert (await store.tally(ALL)).total == len(await other.find(ALL)) == 100
        assert len((await other.search(ALL, ["fox"])).found) == 100
        assert len(await store.find(Query(collection="messages", text="狐"))) == 100
        assert await store.reindex("messages") == 100
        assert await store.apply([Remove(ALL)]) == [100]
        assert {finding.value for finding in await store.describe()} >= {"postgresql"}


def test_another_kind_of_pooler_is_refused():
    with pytest.raises(ConfigError, match=r"'statement' for pooler.*session, transaction"):
        open_store("postgresql://h/d?pooler=statement")


@pytest.mark.parametrize("behind", [True, False])
async def test_nothing_is_compiled(behind, request):
    """PostgreSQL compiles what it thinks expensive, as questions about one user of very many: it would take longer than the answer."""
    url = (
        f"{request.getfixturevalue('pooled')}?pooler=transaction"
        if behind
        else request.getfixturevalue("fresh_postgres")
    )

    def ask():
        return (yield Fetch("SHOW jit"))

    async with open_store(url) as store:
        assert [tuple(row) for row in await store._driver.read(ask)] == [("off",)]
