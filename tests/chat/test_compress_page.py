"""docs/chat-compression.md: what it shows is what happens."""

import ast
import inspect
import re
import subprocess
from pathlib import Path

from octavo.chat import compression
from warm import programs

PAGE = (Path(__file__).parents[2] / "docs" / "chat-compression.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_every_block(tmp_path, capsys):
    """Each block runs, the first by itself and the others one after the other; what one prints stands under it."""
    printed, ran, names = "", 0, {}
    for kind, block in BLOCK.findall(PAGE):
        if kind == "output":
            assert printed == block
            printed = ""
            continue
        assert (kind, printed) == ("python", "")
        ran += 1
        if "asyncio.run(" in block:
            command = [f"{programs()}/python", "-c", block]
            printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
            continue
        code = compile(block, "docs/chat-compression.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(running := eval(code, names)):
            await running
        printed = capsys.readouterr().out
    assert ran == 3
    assert printed == ""
    await names["memory"].close()


def test_every_setting():
    """The table has every setting with its default, and no other."""
    shown = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \| ", PAGE, re.MULTILINE))
    defaults = {name: getattr(compression, text, text) for name, text in shown.items()}
    told = compression.CompressionConfig()
    assert list(shown) == list(compression.CompressionConfig.__struct_fields__)
    for name, value in defaults.items():
        assert (ast.literal_eval(value) if value in shown.values() else value) == getattr(told, name)


def test_every_promise():
    """The time a dead process holds others up is two leases."""
    assert compression._LEASE_SECONDS * 2 == 600
    assert "ten minutes at most" in PAGE
