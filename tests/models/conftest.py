"""The real model that tests embed with, and an environment without anybody's keys."""

import os
from pathlib import Path

import pytest

from servers.verdict import NOT_TESTED

DEFAULT = Path(__file__).parents[3] / "shared" / "models" / "gte-small-int8"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HF_HUB_OFFLINE", "FASTEMBED_CACHE_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """A folder with gte-small: model.onnx, tokenizer.json and the rest."""
    folder = Path(os.environ.get("OCTAVO_TEST_MODEL_DIR") or DEFAULT).resolve()
    if not (folder / "model.onnx").is_file():
        pytest.skip(
            f"{NOT_TESTED}the real embedding model; put gte-small where OCTAVO_TEST_MODEL_DIR points ({folder})"
        )
    return folder
