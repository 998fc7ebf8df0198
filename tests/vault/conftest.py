"""Vaults on stores of several kinds, with a clock of their own."""

from datetime import UTC, datetime, timedelta

import pytest

from octavo import open_store
from octavo.service.vault import Vault


class Clock:
    """A second passes whenever somebody looks."""

    def __init__(self):
        self.at = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self):
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture
def root(tmp_path):
    return tmp_path / "vault"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/records.db"
    async with open_store(url) as opened:
        yield opened


@pytest.fixture
async def vault(root, store):
    async with Vault(root, store, clock=Clock()) as opened:
        yield opened


@pytest.fixture
async def other(tmp_path, store):
    """The vault of another machine on the same store."""
    async with Vault(tmp_path / "other", store, clock=Clock()) as opened:
        yield opened
