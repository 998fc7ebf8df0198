"""Mem0's names for the tools of a memory, for programs whose prompts were written for its MCP server."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from octavo.mcp import answers
from octavo.mcp.answers import fitting, result
from octavo.mcp.callers import CALLER, Limits
from octavo.mcp.server import ADDS, DESTROYS, READS, tool
from octavo.mcp.tools import Name, Question, Text, forget, keep, list_page, revise

_AT_ONCE = 100


class Listed(BaseModel):
    """Memories, and where the next page begins."""

    results: list[answers.Memory]
    next: str | None = None


class Found(BaseModel):
    """What was found, best first."""

    results: list[answers.Hit]


class Deleted(BaseModel):
    """How many memories were deleted."""

    deleted: int


class Entity(BaseModel):
    """Who has memories."""

    type: str
    name: str
    total_memories: int


class Entities(BaseModel):
    """Everybody this server may speak of."""

    results: list[Entity]


def mem0_tools(limits: Limits) -> list[Tool]:
    """The tools, with how much each may take and answer."""

    async def add_memory(
        text: Annotated[Text, Field(description="What to remember.")],
    ) -> Annotated[CallToolResult, answers.Remembered]:
        """Store a new memory about the user: a preference, a fact, or what was said."""
        added = await keep(CALLER.get(), text, None, limits)
        shown = added.model_copy(update={"memories": fitting(added.memories, limits.answer_tokens)})
        return result(shown, "\n".join(map(str, shown.memories)) or added.status)

    async def search_memories(
        query: Question, limit: Annotated[int, Field(ge=1, le=50)] = 10
    ) -> Annotated[CallToolResult, Found]:
        """Search the stored memories; best first."""
        caller = CALLER.get()
        hits = await caller.memory.search(query, user_id=caller.user_id, limit=limit)
        shown = fitting([answers.Hit.of(hit) for hit in hits], limits.answer_tokens)
        return result(Found(results=shown), "\n".join(map(str, shown)) or "nothing was found")

    async def get_memories(
        limit: Annotated[int, Field(ge=1, le=100)] = 50, after: str | None = None
    ) -> Annotated[CallToolResult, Listed]:
        """List the stored memories, newest first; `after` is `next` of the page before."""
        page = await list_page(CALLER.get(), limit, after, limits)
        told = Listed(results=page.memories, next=page.next)
        return result(told, "\n".join(map(str, page.memories)) or "nothing is remembered")

    async def get_memory(memory_id: Name) -> Annotated[CallToolResult, answers.Memory]:
        """Fetch one memory by its id."""
        caller = CALLER.get()
        fact = await caller.memory.layers.get(memory_id, user_id=caller.user_id)
        [shown] = fitting([answers.Memory.of(fact)], 4 * limits.answer_tokens)
        return result(shown, str(shown))

    async def update_memory(memory_id: Name, text: Text) -> Annotated[CallToolResult, answers.Memory]:
        """Overwrite the text of a memory."""
        fact = await revise(CALLER.get(), memory_id, text, None, limits)
        return result(fact, f"updated: {fact}")

    async def delete_memory(memory_id: Name) -> Annotated[CallToolResult, answers.Memory]:
        """Delete one memory by its id, once the user has confirmed it."""
        fact = await forget(CALLER.get(), memory_id, None, limits)
        return result(fact, f"deleted: {fact}")

    async def delete_all_memories() -> Annotated[CallToolResult, Deleted]:
        """Delete every memory of the user, once the user has confirmed it. What was said in conversations stays."""
        caller = CALLER.get()
        deleted = 0
        while page := await caller.memory.get_all(user_id=caller.user_id, limit=_AT_ONCE):
            for fact in page:
                await caller.memory.layers.forget(fact.id, user_id=caller.user_id, reason="all were deleted")
                deleted += 1
        return result(Deleted(deleted=deleted), f"{deleted} deleted")

    async def list_entities() -> Annotated[CallToolResult, Entities]:
        """List who has memories here: the one user that this server is for."""
        caller = CALLER.get()
        counted = await caller.memory.stats(user_id=caller.user_id)
        told = Entities(results=[Entity(type="user", name=caller.user_id, total_memories=counted["facts"])])
        return result(told, f"user {caller.user_id}: {counted['facts']} memories")

    return [
        tool(add_memory, "Add a memory", ADDS),
        tool(search_memories, "Search memories", READS),
        tool(get_memories, "List memories", READS),
        tool(get_memory, "Get a memory", READS),
        tool(update_memory, "Update a memory", DESTROYS),
        tool(delete_memory, "Delete a memory", DESTROYS),
        tool(delete_all_memories, "Delete all memories", DESTROYS),
        tool(list_entities, "List entities", READS),
    ]
