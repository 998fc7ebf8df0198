"""A private nginx, Caddy or HAProxy for one site, which is given as a page shows it."""

import csv
import signal
import socket
import ssl
from abc import abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from servers.binaries import locate
from servers.server import Server

PING_SECONDS = 10


class Proxy(Server):
    """A web server with TLS; `site` is set before the start, since it holds the port and the folder."""

    name: ClassVar[str] = "memory.example.com"
    site: str

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    @abstractmethod
    def authority(self) -> Path:
        """The certificate that vouches for this server."""

    @staticmethod
    def ping(url: str) -> None:
        """Return if TLS works there: a port can be open before its certificate is made."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        host, _, port = url.removeprefix("https://").partition(":")
        with (
            socket.create_connection((host, int(port)), PING_SECONDS) as line,
            context.wrap_socket(line, server_hostname=Proxy.name),
        ):
            pass

    @staticmethod
    def fresh(url: str) -> AbstractContextManager[str]:
        raise NotImplementedError(f"{url} is no database")


class Nginx(Proxy):
    """An nginx with a certificate of its own; `site` is a file of `sites-enabled`."""

    kind = "nginx"
    account_name = "www-data"
    # Killed outright, the main process would leave its workers behind.
    kill_signal = signal.SIGTERM

    def find_programs(self) -> None:
        self.nginx = locate("nginx", package="nginx")
        self.openssl = locate("openssl", package="openssl")

    @property
    def authority(self) -> Path:
        return self.folder / "certificate.pem"

    @property
    def private_key(self) -> Path:
        return self.folder / "key.pem"

    def prepare(self) -> None:
        self.run_program(
            self.openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", f"/CN={self.name}", "-addext", f"subjectAltName=DNS:{self.name}",
            "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
            "-keyout", self.private_key, "-out", self.authority,
        )  # fmt: skip
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        own = "".join(f"    {kind}_temp_path {self.folder / kind};\n" for kind in kinds)
        (self.folder / "nginx.conf").write_text(
            f"daemon off;\nworker_processes 1;\npid {self.folder / 'pid'};\nerror_log stderr;\n"
            f"events {{}}\nhttp {{\n    access_log off;\n{own}{self.site}}}\n"
        )

    def command(self) -> list[str]:
        return [str(self.nginx), "-p", str(self.folder), "-c", "nginx.conf", "-e", "stderr"]


class Caddy(Proxy):
    """A Caddy that signs its certificates itself; `site` is a whole Caddyfile."""

    kind = "caddy"
    account_name = "caddy"

    def find_programs(self) -> None:
        self.caddy = locate("caddy", package="caddy")

    @property
    def authority(self) -> Path:
        return self.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    def prepare(self) -> None:
        options = (
            "admin off",
            f"https_port {self.port}",
            "default_bind 127.0.0.1",
            "auto_https disable_redirects",
            "local_certs",
            "skip_install_trust",
        )
        own = "".join(f"    {option}\n" for option in options)
        (self.folder / "Caddyfile").write_text(f"{{\n{own}}}\n\n{self.site}")

    def command(self) -> list[str]:
        return [str(self.caddy), "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    def _environment(self) -> dict[str, str]:
        # Certificates and settings are kept below these, and must not be the user's own.
        places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(self.folder))
        return {**super()._environment(), **places}


class HAProxy(Server):
    """An HAProxy without TLS; `site` is its whole configuration."""

    kind = "haproxy"
    account_name = "haproxy"
    site: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def find_programs(self) -> None:
        self.haproxy = locate("haproxy", package="haproxy")

    def prepare(self) -> None:
        (self.folder / "haproxy.cfg").write_text(f"global\n    stats socket {self._socket}\n\n{self.site}")

    @property
    def _socket(self) -> Path:
        return self.folder / "stats"

    def states(self) -> dict[str, str]:
        """What it thinks of each server behind it: `UP`, `DOWN`, or on the way, such as `UP 1/2`."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PING_SECONDS)
            line.connect(str(self._socket))
            line.sendall(b"show stat\n")
            with line.makefile() as told:
                rows = list(csv.DictReader(told.read().removeprefix("# ").splitlines()))
        return {row["svname"]: row["status"] for row in rows if row["svname"] not in ("FRONTEND", "BACKEND")}

    def command(self) -> list[str]:
        return [str(self.haproxy), "-db", "-f", "haproxy.cfg"]

    @staticmethod
    def ping(url: str) -> None:
        """Return if something listens there: what it says depends on the servers behind it."""
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), PING_SECONDS):
            pass

    @staticmethod
    def fresh(url: str) -> AbstractContextManager[str]:
        raise NotImplementedError(f"{url} is no database")


PROXIES: dict[str, type[Proxy]] = {"nginx": Nginx, "caddy": Caddy}
