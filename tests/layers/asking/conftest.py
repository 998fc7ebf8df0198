"""A model on a real HTTP server, rules behind it, and an environment without anybody's keys."""

import pytest
from asking_kit import KEY, TEXT, Rules, ruled

from agent.chat_endpoint import chat_endpoint
from octavo.layers.llm_extractor import ModelExtractor


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def server():
    async with chat_endpoint() as running:
        yield running


@pytest.fixture
def rules():
    return Rules(**{TEXT: [ruled()]})


@pytest.fixture
async def extractor(server, rules):
    made = ModelExtractor("m", base_url=server.url, api_key=KEY, fallback=rules)
    yield made
    await made.close()
