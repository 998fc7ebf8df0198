"""Installs the servers' Debian packages without starting the system services that come with them."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PACKAGES = {
    "postgresql": "/usr/lib/postgresql",
    "mariadb-server": "/usr/sbin/mariadbd",
    "redis-server": "/usr/bin/redis-server",
}
# Each is installed by itself: an older release that lacks one of them still has the others.
PROGRAMS = {
    "buildah": "/usr/bin/buildah",
    "caddy": "/usr/bin/caddy",
    "chromium": "/usr/bin/chromium",
    "etcd-server": "/usr/bin/etcd",
    "fonts-droid-fallback": "/usr/share/fonts-droid-fallback",
    "haproxy": "/usr/sbin/haproxy",
    "mmdebstrap": "/usr/bin/mmdebstrap",
    "nginx": "/usr/sbin/nginx",
    "openssl": "/usr/bin/openssl",
    "patroni": "/usr/bin/patroni",
    "pgbouncer": "/usr/sbin/pgbouncer",
    "podman": "/usr/bin/podman",
    "python3-etcd": "/usr/lib/python3/dist-packages/etcd",
    "rsync": "/usr/bin/rsync",
    "runc": "/usr/sbin/runc",
    "sqlite3": "/usr/bin/sqlite3",
    "systemd": "/usr/bin/systemd-analyze",
}
WEB_SERVERS = ("caddy", "haproxy", "nginx")
POLICY = Path("/usr/sbin/policy-rc.d")


@cache  # a machine without the packages would otherwise ask its mirror again for every test
def install_servers() -> str:
    """Install every missing server; returns what stood in the way, or nothing."""
    return _install(PACKAGES)


@cache
def install_program(package: str) -> str:
    """Install one of PROGRAMS, if it is missing; returns what stood in the way, or nothing."""
    problem = _install({package: PROGRAMS[package]})
    if not problem and package in WEB_SERVERS and shutil.which("systemctl"):
        # Or the machine would serve a page of its own to the network from its next start on.
        subprocess.run(["systemctl", "disable", "--quiet", package], capture_output=True, check=False)
    return problem


def _install(packages: dict[str, str]) -> str:
    if os.geteuid() != 0:
        return "install it, or run as root where apt-get can"
    if shutil.which("apt-get") is None:
        return "install it; there is no apt-get here"
    with _one_at_a_time():
        missing = [package for package, proof in packages.items() if not Path(proof).exists()]
        if not missing:
            return ""
        with _services_stay_off():
            return _apt("update") or _apt("install", "-y", "--no-install-recommends", *missing)


def _apt(*arguments: str) -> str:
    print(f"[servers] apt-get {' '.join(arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        # Another apt may be at work on this machine: wait for its lock instead of failing.
        ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=240", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    return f"apt-get {arguments[0]} failed: {done.stdout.strip()[-600:]}"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two workers that miss a server at the same moment must not both install it."""
    with (Path(tempfile.gettempdir()) / "octavo-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """Refuse the packages' request to start their services; a policy that is already there stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
