"""One environment for the frameworks that can be installed together, one for ADK, and the stores that each of them runs on."""

from pathlib import Path

import pytest
from environment import as_here, prepared

from sampled import FULL, some_of
from servers import fresh

#: Every version is pinned, as in requirements.lock; what Octavo itself needs has the version that is installed here.
LOCK = Path(__file__).with_name("frameworks.lock")
ADK_LOCK = Path(__file__).with_name("adk.lock")
OURS = ("msgspec", "apsw", "sortedcontainers", "asyncpg", "asyncmy", "redis", "pyyaml")
KINDS = ("memory", "sqlite", "postgres", "mysql", "redis")


@pytest.fixture(scope="session")
def frameworks():
    """The Python of the environment."""
    return prepared("frameworks", (*LOCK.read_text().split(), *as_here(*OURS, "numpy")), "--no-deps")


@pytest.fixture(scope="session")
def adk():
    """The Python of ADK's environment: it wants older versions of what others have."""
    return prepared("ADK", (*ADK_LOCK.read_text().split(), *as_here(*OURS)), "--no-deps")


@pytest.fixture(scope="module")
def framework_url(request, server_url, tmp_path_factory):
    """The address of an empty store of each kind."""
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('store')}/octavo.db"
    else:
        with fresh(request.param, server_url(request.param)) as url:
            yield url


def pytest_generate_tests(metafunc):
    """On one store, which is another one for each framework; with `make torture` on all."""
    if "framework_url" in metafunc.fixturenames:
        modules = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
        turn = modules.index(metafunc.module.__name__) % len(KINDS)
        kinds = some_of(KINDS, share=1) if FULL else KINDS[turn : turn + 1]
        metafunc.parametrize("framework_url", kinds, indirect=True, scope="module")
