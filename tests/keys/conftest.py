"""Stores of every kind, a folder of each test's own, and a way to call the command in it."""

import pytest
from click.testing import CliRunner

from serving import store_url

__all__ = ["store_url"]


@pytest.fixture
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("OCTAVO_URL", "OCTAVO_DEBUG", "OCTAVO_API_KEY", "OCTAVO__DATABASE__DSN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def octavo(alone):
    """Call the command: `octavo("keys", "list")` answers click's result."""
    from octavo.cli.commands import octavo as command

    def call(*args, **more):
        return CliRunner().invoke(command, [str(arg) for arg in args], prog_name="octavo", **more)

    return call
