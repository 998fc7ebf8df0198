"""docs/agent.md and examples/memory_storage.py: what they show is what happens."""

import ast
import asyncio
import inspect
import os
import re
import tomllib
from pathlib import Path

import pytest
from chat_endpoint import chat_endpoint

from octavo import Agent, ConfigError, EventType, ModelConfig, OpenAIAdapter
from octavo.agent import agent as module
from warm import programs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agent.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [
    (block, BLOCKS[at + 1][1] if at + 1 < len(BLOCKS) and BLOCKS[at + 1][0] == "output" else None)
    for at, (kind, block) in enumerate(BLOCKS)
    if kind == "python"
]


async def program(*arguments, folder, **environment):
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", "NO_PROXY": "127.0.0.1", **environment}
    running = await asyncio.create_subprocess_exec(
        f"{programs()}/python", "-W", "error", *arguments, cwd=folder, env=env, stdout=-1, stderr=-1
    )
    printed, errors = await running.communicate()
    assert running.returncode == 0, errors.decode()
    return printed.decode()


@pytest.mark.parametrize(("block", "shown"), PYTHON)
async def test_every_python_block(block, shown, tmp_path, capsys):
    """Each runs by itself, in an empty folder, beside a server that answers for OpenAI's, and prints what stands under it."""
    if "asyncio.run(" in block:
        async with chat_endpoint() as server:
            printed = await program(
                "-c", block, folder=tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=server.url
            )
    else:
        code = compile(block, "docs/agent.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        names: dict = {"__name__": "page"}
        if inspect.iscoroutine(running := eval(code, names)):
            await running
        printed = capsys.readouterr().out
        assert list(tmp_path.iterdir()) == []
    if shown is None:  # the first: its ids differ each time
        assert "'response': '2+2 is 4.'" in printed
        assert printed.endswith(
            "agent_init\nuser_message\ntool_call_start\ntool_call_success\nmodel_response\n"
            "{'tool_name': 'calculator', 'result': '4'}\n"
        )
    else:
        assert printed == shown


def test_every_other_block():
    """What is not Python and its output is an installation of an extra that exists; only the first shows no output."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for kind, block in BLOCKS:
        if kind == "console":
            assert re.fullmatch(r"\$ pip install 'octavo\[(\w+)\]'\n", block)[1] in extras
        else:
            assert kind in ("python", "output")
    assert [shown is None for _, shown in PYTHON] == [True] + [False] * (len(PYTHON) - 1)
    assert len(PYTHON) == 7


def rows(heading: str) -> dict[str, str]:
    """A table's first two columns, from the row under this heading on."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", table, re.MULTILINE))


def test_every_argument_and_setting():
    """The tables hold every argument of `create` and every field of ModelConfig, with its default."""
    arguments = {
        name: "" if each.default is each.empty else f"`{each.default!r}`"
        for name, each in inspect.signature(Agent.create).parameters.items()
    }
    assert {name: value.strip() for name, value in rows("| argument | default | |").items()} == arguments
    required = ModelConfig(model_name="m")
    fields = {
        name: "" if name == "model_name" else f"`{getattr(required, name)!r}`"
        for name in ModelConfig.__struct_fields__
    }
    assert {name: value.strip() for name, value in rows("| `ModelConfig` | default | |").items()} == fields


async def test_every_event():
    """The table has the nine types; its data fields are held to the code by the tests of runs."""
    assert set(rows("| event | when | data |")) == {kind.name for kind in EventType} - {"CUSTOM"}
    assert f"last {module._RESUMED} events" in PAGE


def test_every_link():
    """Every page linked to is there, and every heading."""
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    for target in re.findall(r"\]\(#([\w-]+)\)", PAGE):
        assert re.search(rf"^## {target.replace('-', ' ')}$", PAGE, re.MULTILINE | re.IGNORECASE)


async def test_the_example(tmp_path):
    """examples/memory_storage.py talks, fails once, finds both languages, counts and clears, and leaves nothing behind."""
    printed = await program(str(ROOT / "examples" / "memory_storage.py"), folder=tmp_path)
    for line in (
        "  2+3*4 is 14.",
        "  user_message       {'message': 'Hello!', 'message_length': 6}",
        "  tool_call_success  {'tool_name': 'calculator', 'result': '14'}",
        "  custom             {'action': 'user_login', 'user_id': '123'}",
        "  calculator: ValueError: invalid literal for int() with base 10: 'two plus two'",
        "About '计算器': user_message",
        "About '2+3*4': model_response, tool_call_start, user_message",
        "14 events, 0 of them errors",
        "14 in the last hour",
        "14 cleared",
    ):
        assert f"{line}\n" in printed, printed
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_needed(monkeypatch):
    """As the page says: a server with a `base_url` needs none, OpenAI does."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    OpenAIAdapter(ModelConfig(model_name="m", base_url="http://localhost:11434/v1"))
    with pytest.raises(ConfigError):
        OpenAIAdapter(ModelConfig(model_name="m"))
