"""A private MariaDB, or MySQL where that is what the machine has."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from servers.aside import run_aside
from servers.binaries import locate, search
from servers.server import Server

# Tables are files, and a test's database has dozens: to force each to the disk takes longer than most tests.
FORGETFUL = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--skip-innodb-doublewrite",
    "--loose-debug-no-sync",
)


class MySQL(Server):
    """A MariaDB or MySQL with its own default character set and collation, traps included."""

    kind = "mysql"
    account_name = "mysql"

    @property
    def url(self) -> str:
        return f"mysql://octavo:octavo@127.0.0.1:{self.port}/"

    def find_programs(self) -> None:
        self.mysqld = locate("mariadbd", "mysqld")
        self.install_db: Path | None = search("mariadb-install-db", "mysql_install_db")

    def prepare(self) -> None:
        # Run at every start, before the first client is let in.
        (self.folder / "init.sql").write_text(
            "CREATE USER IF NOT EXISTS 'octavo'@'%' IDENTIFIED BY 'octavo';\n"
            "GRANT ALL PRIVILEGES ON *.* TO 'octavo'@'%' WITH GRANT OPTION;\n"
        )
        (self.folder / "init.sql").chmod(0o644)  # the folder is closed already, and the server is not us
        data = f"--datadir={self.folder / 'data'}"
        if self.install_db:
            self.run_program(
                self.install_db,
                "--no-defaults",
                data,
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            )
        else:
            self.run_program(self.mysqld, "--no-defaults", "--initialize-insecure", data)

    def command(self) -> list[str]:
        return [
            str(self.mysqld),
            # Must come first, or the machine's own configuration decides the character set.
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--init-file={self.folder / 'init.sql'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--loose-mysqlx=OFF",  # MySQL would open a second port, the same one in every instance
            "--skip-name-resolve",
            "--skip-log-bin",
            "--max-connections=200",
            "--max-allowed-packet=64M",
            "--innodb-buffer-pool-size=256M",
            *(("--innodb-flush-log-at-trx-commit=1",) if self.durable else FORGETFUL),
        ]

    @staticmethod
    def ping(url: str) -> None:
        run_aside(_execute(url, "SELECT 1"))

    @staticmethod
    @contextmanager
    def fresh(url: str) -> Iterator[str]:
        name = f"octavo_{uuid4().hex[:12]}"
        run_aside(_execute(url, f"CREATE DATABASE {name}"))
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            run_aside(_drop(url, name))


def _connect(url: str) -> Any:
    import asyncmy

    parts = urlsplit(url)
    return asyncmy.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        connect_timeout=10,
    )


async def _execute(url: str, statement: str) -> None:
    async with _connect(url) as connection, connection.cursor() as cursor:
        await cursor.execute(statement)


async def _drop(url: str, name: str) -> None:
    from asyncmy.errors import OperationalError

    async with _connect(url) as connection, connection.cursor() as cursor:
        # A transaction that a failed test left open holds its tables, and DROP would wait for it for a day.
        await cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [name])
        for (number,) in await cursor.fetchall():
            with suppress(OperationalError):  # it has ended by itself meanwhile
                await cursor.execute(f"KILL {number}")
        await cursor.execute(f"DROP DATABASE {name}")
