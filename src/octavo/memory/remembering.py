"""Remembering as a tool of an agent does: whatever it is told to remember can be listed afterwards."""

from typing import Any

from octavo.memory.memory import AsyncMemory
from octavo.memory.values import Added


async def remember(memory: AsyncMemory, text: str, **owner: Any) -> Added:
    """Keep a text with the facts in it; one in which there is none is kept as a fact itself, so that it can be listed."""
    added = await memory.add(text, **owner)
    if added.memories or added.status != "stored" or added.note:
        return added
    return await memory.add(text, infer=False, **owner)
