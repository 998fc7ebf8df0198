"""Which tests of the shipped contract are long at full length, and how its crowds are started."""

import asyncio

import pytest

from octavo.testing import processes
from warm import programs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.startswith("test_many_processes"):
            # The shipped class may not carry our marker: elsewhere it would be unknown, and an error.
            item.add_marker(pytest.mark.torture)


@pytest.fixture(autouse=True)
def forked_crowds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of a crowd need not import Octavo, each by itself, before they begin together."""

    async def start(program: str, *words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        python = f"{programs()}/python"
        return await asyncio.create_subprocess_exec(
            python, program, *words, stdin=pipe, stdout=pipe, stderr=pipe
        )

    monkeypatch.setattr(processes, "start_child", start)
