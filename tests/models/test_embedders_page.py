"""docs/embedders.md: every block runs and prints what it shows; every option is one that its embedders take."""

import asyncio
import os
import re
import tomllib
from pathlib import Path

import pytest
from endpoint import endpoint

from octavo import ConfigError
from octavo.models import open_embedder
from warm import programs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "embedders.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OPTIONS = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (?:`([\w.]+)`)? ?\| ", PAGE, re.MULTILINE)
EXAMPLES = {
    "languages": "en,zh",
    "name": "mine",
    "query_prefix": "q: ",
    "passage_prefix": "p: ",
    "batch_size": "8",
    "threads": "2",
    "cache_dir": "cache",
    "max_tokens": "128",
    "base_url": "http://localhost:11434/v1",
    "api_key": "k",
    "dimensions": "256",
}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (block, BLOCKS[at + 1][1])
        for at, (kind, block) in enumerate(BLOCKS)
        if kind == "python" and BLOCKS[at + 1][0] == "output"
    ],
)
async def test_every_python_block(block, shown, tmp_path, request):
    """Run in a folder with the model, beside a server that answers for OpenAI's."""
    if "./gte-small" in block:
        (tmp_path / "gte-small").symlink_to(request.getfixturevalue("model_dir"))
    async with endpoint() as server:
        env = {
            **os.environ,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.url,
            "PYTHONIOENCODING": "utf-8",
        }
        run = await asyncio.create_subprocess_exec(
            f"{programs()}/python", "-c", block, cwd=tmp_path, env=env, stdout=-1, stderr=-1
        )
        printed, errors = await run.communicate()
    assert run.returncode == 0, errors.decode()
    assert numbers_rounded(printed.decode()) == numbers_rounded(shown)


def numbers_rounded(text):
    return re.sub(r"\d\.\d+", lambda found: f"{float(found[0]):.6f}", text)


def test_every_other_block():
    """What is not Python and its output is an installation of an extra that exists."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for at, (kind, block) in enumerate(BLOCKS):
        if kind == "console":
            assert re.fullmatch(r"\$ pip install 'octavo\[(\w+)\]'\n", block)[1] in extras
        elif kind == "output":
            assert BLOCKS[at - 1][0] == "python"
        else:
            assert kind == "python"
            assert BLOCKS[at + 1][0] == "output"


@pytest.mark.parametrize(("name", "embedders", "default"), OPTIONS)
def test_every_option(name, embedders, default, model_dir):
    """Each option of the table is taken by each embedder it names, with its default or an example."""
    value = EXAMPLES.get(name) or default
    for embedder in embedders.split(", "):
        if embedder == "function":
            open_embedder(lambda texts: [], **{"name": "f", name: value})
        else:
            spec = {"fastembed": "fastembed:BAAI/bge-small-en-v1.5", "folder": f"fastembed:{model_dir}"}
            open_embedder(f"{spec.get(embedder, 'openai:m?api_key=k')}", **{name: value})
            joined = spec.get(embedder, "openai:m?api_key=k&base_url=http://h/v1")
            open_embedder(f"{joined}{'&' if '?' in joined else '?'}{name}={value}")


def test_no_option_is_missing():
    """Everything an embedder takes is in the table, but for the client that only code can hand in."""
    for spec in ("fastembed:a/b?no=1", "openai:a?no=1"):
        with pytest.raises(ConfigError) as caught:
            open_embedder(spec)
        taken = str(caught.value).partition("it takes ")[2].split(", ")
        assert set(taken) - {"client"} <= {name for name, _, _ in OPTIONS}
    assert len(OPTIONS) == 17


def test_every_spec():
    """Each spec on the page opens."""
    for spec in re.findall(r"`((?:fastembed|openai):[^`<]+)`", PAGE):
        if "/path/to" not in spec:
            assert open_embedder(spec, **({"api_key": "k"} if spec.startswith("openai") else {}))


def test_every_link():
    """Every heading the page links to is there."""
    for target in re.findall(r"\]\(#([\w-]+)\)", PAGE):
        assert re.search(rf"^## {target}$", PAGE, re.MULTILINE | re.IGNORECASE)
