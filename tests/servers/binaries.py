"""Where the servers' programs are; on a Debian machine that we own, they are installed when missing."""

import shutil
from pathlib import Path

from servers import debian
from servers.errors import Unavailable

# An ordinary user's PATH on Debian has no sbin, where mariadbd lives.
ELSEWHERE = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/opt/homebrew/bin")


def search(*names: str) -> Path | None:
    """The first of these programs that this machine has."""
    for name in names:
        found = shutil.which(name) or shutil.which(name, path=":".join((*ELSEWHERE, *_postgres_folders())))
        if found:
            return Path(found)
    return None


def locate(*names: str, package: str = "") -> Path:
    """The first of these programs, installed with the servers or in this package if need be, or Unavailable."""
    found = search(*names)
    if found is None:
        problem = debian.install_program(package) if package else debian.install_servers()
        found = search(*names)
        if found is None:
            raise Unavailable(
                f"{' or '.join(names)} not found: {problem or 'the packages do not contain it'}"
            )
    return found


def _postgres_folders() -> list[str]:
    """Debian keeps each PostgreSQL release in a folder off the PATH; the newest comes first."""
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return [str(f) for f in sorted(folders, key=lambda f: (len(f.parent.name), f.parent.name), reverse=True)]
