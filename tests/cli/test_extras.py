"""What a command needs and is not installed is told at once, in one sentence with one cure; `server` is enough to serve."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from octavo.stores import SCHEMES
from octavo.util.system import PACKAGES, store_extra

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def without(hidden, *args):
    """Run the command in a process where these packages are not installed."""
    code = (
        "import sys\n"
        f"for name in {hidden!r}: sys.modules[name] = None\n"
        "from octavo.cli import main\n"
        f"main({list(args)!r})\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


#: What a package is imported as, where that is not its name.
IMPORTED_AS = {"pyyaml": "yaml", "prometheus-client": "prometheus_client"}


def brought(extra):
    """The packages an extra installs, with those of the extras it names."""
    for asked in map(Requirement, EXTRAS[extra]):
        if asked.name == "octavo":
            for each in asked.extras:
                yield from brought(each)
        else:
            yield IMPORTED_AS.get(asked.name, asked.name)


@pytest.mark.parametrize(
    ("hidden", "args", "sentence"),
    [
        (["click"], ["stores"], "the command needs click: pip install 'octavo[cli]'"),
        (["click"], ["serve"], "octavo serve needs click: pip install 'octavo[server]'"),
        (
            ["click", "uvicorn", "fastapi", "yaml"],
            ["serve"],
            "octavo serve needs click, fastapi, uvicorn and yaml: pip install 'octavo[server]'",
        ),
        (["uvicorn", "fastapi"], ["serve"], "octavo serve needs fastapi and uvicorn: pip install 'octavo[server]'"),
        (
            ["uvicorn", "asyncpg"],
            ["serve", "--store", "postgresql://lin@127.0.0.1/x"],
            "octavo serve needs uvicorn and asyncpg: pip install 'octavo[server,postgres]'",
        ),
        (
            ["click", "uvicorn", "redis"],
            ["serve", "--store=redis://127.0.0.1/0"],
            "octavo serve needs click, uvicorn and redis: pip install 'octavo[server,redis]'",
        ),
        (["mcp"], ["mcp"], "octavo mcp needs mcp: pip install 'octavo[mcp]'"),
        (["click", "mcp"], ["mcp"], "octavo mcp needs click and mcp: pip install 'octavo[mcp]'"),
        (
            ["click", "asyncmy"],
            ["doctor", "mysql://lin@127.0.0.1/x"],
            "the command needs click and asyncmy: pip install 'octavo[cli,mysql]'",
        ),
    ],
)  # fmt: skip
def test_everything_that_is_missing_is_named_at_once(hidden, args, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = without(hidden, *args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"octavo: {sentence}\n")
    assert not [*tmp_path.iterdir()]


def test_the_sentence_is_true():
    """What an extra is said to bring it brings, and a store's extra is known for every scheme that needs one."""
    for extra, packages in PACKAGES.items():
        assert {*packages} <= {name.replace("-", ".") for name in brought(extra)}
    needs_none = {"file", "memory", "sqlite"}
    assert {scheme for scheme in SCHEMES if not store_extra(f"{scheme}://x")} == needs_none


def test_all_holds_no_test_tools():
    assert not {*brought("testing")} & {*brought("all")}
    assert {*brought("testing"), *brought("all")} <= {*brought("dev")}
    # A model of 91 MB is asked for by name, and so are frameworks.
    frameworks = (
        "openai-agents",
        "anthropic",
        "langchain-core",
        "langgraph",
        "pydantic-ai-slim",
        "agent-framework-core",
        "llama-index-core",
        "google-adk",
        "agentscope",
    )
    left_out = ("testing", "dev", "semantic", *frameworks)
    everything = {name for extra in EXTRAS if extra not in left_out for name in brought(extra)}
    assert {*brought("all")} == everything
