"""What holds for all frameworks: none is needed, none is imported by itself, and each has an extra of its package's name."""

import subprocess
import sys
import tomllib

import pytest
from environment import ROOT, ran

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: extra: what Python imports.
FRAMEWORKS = {
    "openai-agents": "agents",
    "anthropic": "anthropic",
    "langchain-core": "langchain_core",
    "langgraph": "langgraph",
    "pydantic-ai-slim": "pydantic_ai",
    "agent-framework-core": "agent_framework",
    "llama-index-core": "llama_index",
    "google-adk": "google.adk",
    "agentscope": "agentscope",
}
#: And those without an extra.
WATCHED = {*FRAMEWORKS.values(), "langchain", "langchain_classic", "LightAgent"}

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
        f"print(sorted({WATCHED!r} & sys.modules.keys()))"
    )
    assert ran(frameworks, "-c", program) == "[]\n"


def test_none_is_asked_for(tmp_path):
    """Neither the library nor the server, its command or MCP tries to import one, installed or not."""
    program = f"""
import sys
asked = []
class Watching:
    def find_spec(self, name, path=None, target=None):
        if name in {WATCHED!r}:
            asked.append(name)
sys.meta_path.insert(0, Watching())
import octavo, octavo.memory, octavo.server, octavo.client, octavo.cli, octavo.mcp, octavo.integrations.tools
octavo.Memory, octavo.AsyncMemory, octavo.with_memory
from octavo.cli import main
from octavo.config import Settings
from octavo.server import create_app
create_app(Settings())
try:
    main(["stores"])
except SystemExit:
    pass
print(asked)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
