"""Sources of every format."""

from pathlib import Path

import pytest
from import_cases import CASES


@pytest.fixture
def written(tmp_path):
    """`written(format)`: the path of a source in that format."""

    def write(format_) -> Path:
        make, name, *_ = CASES[format_]
        make(tmp_path / name)
        return tmp_path / name

    return write
