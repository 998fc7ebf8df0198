"""docs/conversation-memories.md: what it shows is what happens, and it names every setting."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

from octavo.conversation import (
    CombinedMemory,
    ConversationEntityMemory,
    MemoryMetrics,
    RecallRetriever,
    VectorStoreRetrieverMemory,
)

PAGE = (Path(__file__).parents[2] / "docs" / "conversation-memories.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block(tmp_path):
    """The blocks, one after the other as one program, print what stands under them."""
    blocks = BLOCK.findall(PAGE)
    assert {kind for kind, _ in blocks} == {"python", "output"}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(block for kind, block in blocks if kind == "python")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "".join(block for kind, block in blocks if kind == "output")


def test_every_setting():
    """Each class stands on the page with every argument and its default."""
    for kind in (
        ConversationEntityMemory, VectorStoreRetrieverMemory, RecallRetriever, CombinedMemory, MemoryMetrics,
    ):  # fmt: skip
        spelled = []
        for p in inspect.signature(kind).parameters.values():
            default = f'"{p.default}"' if p.default and isinstance(p.default, str) else repr(p.default)
            default = '""' if p.default == "" else default
            if p.kind is not p.VAR_KEYWORD:
                spelled.append(p.name if p.default is p.empty else f"{p.name}={default}")
        assert f"`{kind.__name__}({', '.join(spelled)})`" in PAGE
