"""mem0's real clients, in an environment of their own."""

import asyncio
import json
from pathlib import Path

import pytest

from integrations.environment import prepared, ran
from octavo import open_store
from octavo.keys import Keys
from running_server import octavo_serves
from sampled import some_of

#: It wants an older protobuf than the models here do.
REQUIREMENTS = ("mem0ai==2.2.1", "langgraph==1.2.20")
RUN = Path(__file__).with_name("mem0_run.py")
KINDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def mem0_python():
    """The Python of an environment with mem0's clients in it."""
    return prepared("mem0", REQUIREMENTS)


@pytest.fixture(scope="module", params=some_of(KINDS, share=2))
def told(request, mem0_python, tmp_path_factory):
    """What every method of both clients answered, by a server that needs keys, on one store after the other."""
    folder = tmp_path_factory.mktemp("mem0")
    url = (
        f"sqlite:///{folder / 'octavo.db'}"
        if request.param == "sqlite"
        else request.getfixturevalue("module_postgres")
    )
    key = asyncio.run(new_key(url))
    with octavo_serves(url, folder, env={"OCTAVO__SERVER__AUTH": "on"}) as address:
        return json.loads(ran(mem0_python, RUN, address, key, cwd=folder).splitlines()[-1])


@pytest.fixture(scope="module")
def module_postgres(server_url):
    from servers import fresh

    with fresh("postgres", server_url("postgres")) as url:
        yield url


async def new_key(url):
    """An admin's key of a tenant."""
    async with open_store(url) as store:
        return (await Keys(store).create("mem0", access="admin", tenant="ours")).key
