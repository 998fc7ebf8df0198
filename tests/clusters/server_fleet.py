"""Three `octavo serve` of two workers on one database, behind the HAProxy that docs/behind-a-proxy.md shows."""

import contextlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from processes import family
from waiting import until

from running_server import octavo_process
from servers.proxies import HAProxy
from servers.server import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "behind-a-proxy.md").read_text(encoding="utf-8")
CURRENT = ("-m", "octavo.cli")
OLDER = (str(Path(__file__).with_name("older_octavo.py")),)
WORKERS = 2
SECONDS = 120  # after which a test fails rather than hang


class Member:
    """One of the servers, with a port and a folder that it keeps over restarts."""

    def __init__(self, store: str, folder: Path, env: dict[str, str]) -> None:
        self.store, self.folder, self.env = store, folder, env
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pid = 0
        self._running = contextlib.ExitStack()

    def start(self, program: tuple[str, ...]) -> None:
        """Start it and wait until its workers serve."""
        options = ("--port", str(self.port), "--workers", str(WORKERS))
        served = octavo_process(self.store, self.folder, *options, env=self.env, program=program)
        _, self.pid = self._running.enter_context(served)

    def stop(self) -> None:
        """Stop it as a process manager would; it must end by itself."""
        self._running.close()

    def worker_of(self, client_port: int) -> int:
        """The process that holds the connection which a client has from this port."""
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, *rest = line.split()
            if local.endswith(f":{self.port:04X}") and remote.endswith(f":{client_port:04X}"):
                link = f"socket:[{rest[6]}]"
                return next(pid for pid in family(self.pid) if link in _files(pid))
        raise AssertionError(f"nobody is connected from {client_port}")

    def complaints(self) -> list[str]:
        """The lines of its log that tell of trouble, or of a request that failed."""
        lines = (self.folder / "serve.log").read_text().splitlines()
        return [line for line in lines if line.strip() and not _harmless(line)]


class Fleet:
    """The servers and the proxy before them."""

    def __init__(self, store: str, folder: Path, env: dict[str, str]) -> None:
        drain = re.findall(r"`server\.drain_seconds: (\d+)`", PAGE)[0]
        env = {**env, "OCTAVO__SERVER__AUTH": "on", "OCTAVO__SERVER__DRAIN_SECONDS": drain}
        self.members = []
        for name in ("one", "two", "three"):
            (folder / name).mkdir()
            self.members.append(Member(store, folder / name, env))
        self.proxy = HAProxy()
        self.proxy.site = _own(_shown(), self.proxy.port, self.members)

    def start(self, program: tuple[str, ...]) -> Self:
        """Start all servers at once, and the proxy."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda member: member.start(program), self.members))
        self.proxy.start()
        self.wait_until_up()
        return self

    def restart(self, member: Member, program: tuple[str, ...]) -> None:
        """Replace one server by another while the rest serves; the next may follow when this returns."""
        member.stop()
        member.start(program)
        self.wait_until_up()

    def wait_until_up(self) -> None:
        """Wait until the proxy sends requests to all servers."""
        until(lambda: set(self.proxy.states().values()) == {"UP"}, SECONDS)

    def close(self) -> None:
        """End everything."""
        self.proxy.close()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Member.stop, self.members))


def _shown() -> str:
    [found] = re.findall(r"^```haproxy\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def _own(site: str, port: int, members: list[Member]) -> str:
    """The page's configuration with the addresses of the test, each in the place of one that stands there once."""
    own = {f"10.0.0.{number}:8000": f"127.0.0.1:{each.port}" for number, each in enumerate(members, 1)}
    own[":443 ssl crt /etc/haproxy/memory.example.com.pem"] = f"127.0.0.1:{port}"
    for word, instead in own.items():
        assert site.count(word) == 1, word
        site = site.replace(word, instead)
    return site


def _files(pid: int) -> set[str]:
    links = set()
    for name in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.add(str(name.readlink()))
    return links


def _harmless(line: str) -> bool:
    try:
        told: dict[str, Any] = json.loads(line)
    except ValueError:
        return False
    asked = told.get("route") == "/health/ready"
    return "status" in told and (asked or told["status"] < 500)
