"""Images built by buildah and run by podman, over a base of Debian's packages, in a storage of their own."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from servers import Unavailable
from servers.binaries import locate
from servers.verdict import NOT_TESTED

ROOT = Path(__file__).parents[2]
SUITE, PYTHON = "bookworm", "3.11"  # a release of Debian, and its Python
BASE, IMAGE = "localhost/octavo-base", "localhost/octavo"
#: Where capabilities are missing, a container that asks for more than its parent may is refused.
LIMITS = ("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=4096:4096")
LONG = 1200  # seconds, after which a test fails rather than hang


class Containers:
    """A storage of images and containers that is removed with all that is in it."""

    def __init__(self) -> None:
        self.buildah = locate("buildah", package="buildah")
        self.podman = locate("podman", package="podman")
        runtime = locate("runc", package="runc")
        # Short, since podman makes sockets in it; and on a disk, where overlays can be.
        self.folder = Path(tempfile.mkdtemp(prefix="octavo-", dir="/var/tmp"))
        storage = ["--root", self.folder / "images", "--runroot", self.folder / "run"]
        self._storage = [*map(str, storage), "--storage-driver", "overlay"]
        engine = ["--runtime", str(runtime), "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
        self._engine = [str(self.podman), *self._storage, *engine]
        self._started: list[str] = []

    def close(self) -> None:
        """End what was started here, and remove everything."""
        for name in self._started:
            self.call("rm", "--force", "--time", "0", name, fails=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words: str | Path, fails: bool = False) -> subprocess.CompletedProcess[str]:
        """One command of podman, which must go well unless it may fail."""
        return _run([*self._engine, *words], fails=fails)

    def make_base(self) -> None:
        """Make the base of Debian's packages, or of the archive that OCTAVO_TEST_BASE names; skip where containers are refused."""
        archive = Path(os.environ.get("OCTAVO_TEST_BASE") or self.folder / "base.tar")
        if not archive.exists():
            program = locate("mmdebstrap", package="mmdebstrap")
            made = _run(
                [program, "--quiet", "--mode=root", "--variant=essential", "--dpkgopt=force-unsafe-io",
                 "--include=python3,python3-venv", SUITE, archive],
                fails=True,
            )  # fmt: skip
            if made.returncode:
                raise Unavailable(f"mmdebstrap made no base: {made.stderr.strip()[-600:]}")
        try:
            buildah = [self.buildah, *self._storage]
            container = _run([*buildah, "from", "scratch"]).stdout.strip()
            _run([*buildah, "add", "--quiet", container, archive, "/"])
            _run([*buildah, "commit", "--quiet", "--rm", container, BASE])
            self.call("run", "--rm", "--network", "none", *LIMITS, BASE, "true")
        except AssertionError as reason:
            # Not a failure in CI either: this is what the machine allows, and nothing that could be installed.
            pytest.skip(f"{NOT_TESTED}this machine refuses containers: {reason}")

    def build(self) -> None:
        """The image of the Dockerfile, of wheels that this machine's pip has fetched."""
        wheels = self.folder / "wheels"
        # The second is for a Python before 3.11.3, as the base may have, and pip asks only about the one it runs in.
        extra = "server,postgres,mysql,redis"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", wheels]
        versions = ["--python-version", PYTHON, "-c", ROOT / "requirements.lock"]
        _run([*pip, *versions, f"{ROOT}[{extra}]", "async-timeout", "hatchling"])
        arguments = {"BASE": BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
        _run(
            [self.buildah, *self._storage, "bud", "--isolation", "chroot", "--format", "docker",
             *(word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")),
             "--volume", f"{wheels}:/wheels:ro", "--tag", IMAGE, ROOT],
        )  # fmt: skip

    @contextlib.contextmanager
    def running(
        self, name: str, *options: str, env: Mapping[str, str], command: tuple[str, ...] = ()
    ) -> Iterator[str]:
        """A container of the image, stopped in the end as a supervisor does it, with status 0."""
        named = [word for item in env.items() for word in ("--env", "=".join(item))]
        self._started.append(name)
        # There is no systemd here that would ask for its health: the test does.
        fixed = ("--detach", "--name", name, "--health-interval", "disable", *LIMITS)
        self.call("run", *fixed, *options, *named, IMAGE, *command)
        try:
            yield name
            self.call("stop", "--time", "60", name)
            status = self.call("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip()
            assert status == "0", self.said(name)
        finally:
            self.call("rm", "--force", "--time", "0", name, fails=True)

    def said(self, name: str) -> str:
        """All that it has printed and logged."""
        done = self.call("logs", name)
        return done.stdout + done.stderr


def _run(command: list[str | Path], *, fails: bool = False) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LONG
    )
    assert fails or done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()[-1500:]}"
    return done
