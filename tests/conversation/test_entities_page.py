"""docs/conversation-memories.md: what it shows is what happens, and it names every setting."""

import inspect
from pathlib import Path

from octavo.conversation import (
    CombinedMemory,
    ConversationEntityMemory,
    MemoryMetrics,
    RecallRetriever,
    VectorStoreRetrieverMemory,
)
from one_program import prints_what_it_shows

PAGE = (Path(__file__).parents[2] / "docs" / "conversation-memories.md").read_text(encoding="utf-8")


def test_every_block(tmp_path):
    """The blocks, one after the other as one program, print what stands under them."""
    prints_what_it_shows(PAGE, tmp_path)


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
