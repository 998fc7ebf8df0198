"""A private PostgreSQL."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from servers.aside import run_aside
from servers.binaries import locate
from servers.server import Server

#: The password "octavo" as the server keeps it, derived in one round: the usual 4,096 take longer than the rest of a login.
PASSWORD = "SCRAM-SHA-256$1:b2N0YXZv$XeWk+aHBT1zQ3UAk1BKnU1BFSftgXo2t3v9iUgx+SQs=:fAbMD6j7RCjFNhgmWEx6ddQRbMrniQ+XXVnj82fgKeM="


class Postgres(Server):
    """A PostgreSQL whose databases sort text the way people do, as most deployments' do."""

    kind = "postgres"
    account_name = "postgres"
    # "Fast" shutdown: on SIGTERM it would wait for every client to leave.
    stop_signal = signal.SIGINT
    # "Immediate" shutdown, recovered from like a crash. SIGKILL would leave its children holding shared memory,
    # and the next start would refuse to run beside them.
    kill_signal = signal.SIGQUIT

    @property
    def url(self) -> str:
        return f"postgresql://octavo:octavo@127.0.0.1:{self.port}/postgres"

    def find_programs(self) -> None:
        self.postgres = locate("postgres")
        self.initdb = locate("initdb")

    def prepare(self) -> None:
        password = self.folder / "password"
        password.write_text(f"{PASSWORD}\n")
        password.chmod(0o644)  # the folder is closed already, and initdb is not us
        self.run_program(
            self.initdb,
            f"--pgdata={self.folder / 'data'}",
            "--username=octavo",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            *self._locale(),
            "--no-sync",
        )

    def command(self) -> list[str]:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 200,
            "fsync": "on" if self.durable else "off",
            "full_page_writes": "on" if self.durable else "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.postgres), "-D", str(self.folder / "data"), *options]

    def _locale(self) -> list[str]:
        locale = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
        said = subprocess.run([self.initdb, "--version"], capture_output=True, text=True, check=True).stdout
        release = int(re.findall(r"\d+", said)[0])
        # C.UTF-8 alone sorts by code point and would hide every query that forgot to say so.
        linguistic = ["--locale-provider=icu", "--icu-locale=en-US"] if release >= 15 else []
        return [f"--locale={locale}", *linguistic]

    @staticmethod
    def ping(url: str) -> None:
        run_aside(_execute(url, "SELECT 1"))

    @staticmethod
    @contextmanager
    def fresh(url: str) -> Iterator[str]:
        name = f"octavo_{uuid4().hex[:12]}"
        run_aside(_create(url, name))
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            # FORCE: a test may have failed with its connections open.
            run_aside(_execute(url, f"DROP DATABASE {name} WITH (FORCE)"))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    import asyncpg

    connection = await asyncpg.connect(url, timeout=10)
    try:
        yield connection
    finally:
        await connection.close()


async def _execute(url: str, statement: str) -> None:
    async with _connected(url) as connection:
        await connection.execute(statement)


async def _create(url: str, name: str) -> None:
    async with _connected(url) as connection:
        # By way of the log, the default since release 15, takes twice as long where nothing is forced to the disk.
        by_files = " STRATEGY FILE_COPY" if connection.get_server_version().major >= 15 else ""
        # template0, since a copy of template1 fails while anyone is connected to it.
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0{by_files}")
