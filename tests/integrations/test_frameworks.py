"""What holds for all frameworks: none is needed, none is imported by itself, and each has an extra of its package's name."""

import tomllib

import pytest
from environment import ROOT, ran

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: extra: what Python imports.
FRAMEWORKS = {
    "openai-agents": "agents",
    "anthropic": "anthropic",
    "langgraph": "langgraph",
    "pydantic-ai-slim": "pydantic_ai",
    "agent-framework-core": "agent_framework",
    "llama-index-core": "llama_index",
}

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_its_extra(extra):
    """It brings the package, and neither `all` nor `dev` brings it."""
    assert any(each.startswith(extra) for each in EXTRAS[extra])
    assert extra not in EXTRAS["all"][0]
    assert not any(extra in each for each in EXTRAS["dev"])


def test_none_is_imported_with_octavo(frameworks):
    """Where all of them are installed, the library, its faces and its tools import none."""
    program = (
        "import sys, octavo, octavo.memory, octavo.chat, octavo.service, octavo.integrations.tools\n"
        "octavo.Memory, octavo.AsyncMemory, octavo.with_memory\n"
        f"print(sorted({set(FRAMEWORKS.values())!r} & sys.modules.keys()))"
    )
    assert ran(frameworks, "-c", program) == "[]\n"
