"""Who a server runs as, and a folder that this account can reach."""

import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from servers.errors import Unavailable

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30  # what a server may grow to in a long run; less than this is left to others


class Account(NamedTuple):
    """A user and group id; both None when the server runs as whoever runs the tests."""

    user: int | None
    group: int | None


def unprivileged(name: str) -> Account:
    """The account for a server: ourselves, or, since servers refuse root, the named account or `nobody`."""
    if os.geteuid() != 0:
        return Account(None, None)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


def own_folder(name: str, account: Account, *, durable: bool = False) -> Path:
    """A new empty folder that belongs to the account and to nobody else; in memory where nothing needs to last."""
    place = None if account.user is None else _open_ground()
    if not durable and _roomy(MEMORY):
        place = MEMORY
    folder = Path(tempfile.mkdtemp(prefix=f"octavo-{name}-", dir=place))
    if account.user is not None:
        os.chown(folder, account.user, account.group or -1)
    return folder


def _roomy(place: Path) -> bool:
    """Whether it is there for everybody, and large enough; a container's has often 64 MB."""
    return (
        place.is_dir()
        and place.stat().st_mode & 0o1777 == 0o1777
        and shutil.disk_usage(place).free >= ROOM_BYTES
    )


def _open_ground() -> Path:
    """The first temporary folder that every account can reach: root's own is often closed to others."""
    places = [Path(place).resolve() for place in (tempfile.gettempdir(), "/tmp", "/var/tmp")]
    for place in places:
        if all(parent.stat().st_mode & 0o001 for parent in (place, *place.parents)):
            return place
    raise Unavailable(f"none of {', '.join(map(str, places))} can be reached by an unprivileged account")
