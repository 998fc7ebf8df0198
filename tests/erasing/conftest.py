"""What tests of erasing share."""

import pytest
from faces import Secrets


@pytest.fixture
def secret():
    return Secrets()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """The key of erasures is made where a program runs."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
