"""Two tools that any agent can be given, as plain functions: each framework makes its own kind of tool of them.

Whose memory it is is settled when they are made: no argument of a tool names a user, so that no model can choose one.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from octavo.memory import AsyncMemory, Memory
from octavo.memory.memory import remember as keep
from octavo.memory.searching import Whose
from octavo.search.hits import one_line

T = TypeVar("T")
#: A tool: it takes one text, and answers one.
Tool: TypeAlias = Callable[[str], Awaitable[str]]
_SHOWN_CHARACTERS = 500  # of each text that is found


def search_tool(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None, limit: int = 5
) -> Tool:
    """A function `search_memory` over all that is kept for this user or agent."""
    whose = Whose(user_id=user_id, agent_id=agent_id)  # a wrong name is refused now, not when a model calls

    async def search_memory(query: str) -> str:
        """Search what is remembered of the user: facts, what was said before, documents.

        Args:
            query: What you want to know, as a question or in a few words.
        """
        work = unwrap(memory).search(query, user_id=whose.user_id, agent_id=whose.agent_id, limit=limit)
        lines = [f"- {hit.when:%Y-%m-%d} {_shorten(hit.text)}" for hit in await run_on(memory, work)]
        return "\n".join(lines) or "Nothing is remembered about that."

    return search_memory


def remember_tool(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> Tool:
    """A function `remember` that keeps something for this user or agent."""
    whose = Whose(user_id=user_id, agent_id=agent_id)

    async def remember(text: str) -> str:
        """Remember something about the user for later conversations.

        Args:
            text: One thing to remember, as a whole sentence.
        """
        added = await run_on(
            memory, keep(unwrap(memory), text, user_id=whose.user_id, agent_id=whose.agent_id)
        )
        lines = [f"- {each.action}: {_shorten(each.content)}" for each in added.memories]
        return "\n".join(lines) or added.status

    return remember


def both_tools(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> list[Tool]:
    """`search_memory` and `remember` for this user or agent."""
    return [
        search_tool(memory, user_id=user_id, agent_id=agent_id),
        remember_tool(memory, user_id=user_id, agent_id=agent_id),
    ]


def unwrap(memory: Memory | AsyncMemory) -> AsyncMemory:
    """The memory to be awaited."""
    return memory.behind if isinstance(memory, Memory) else memory


async def run_on(memory: Memory | AsyncMemory, work: Coroutine[Any, Any, T]) -> T:
    """Do it on the event loop that the memory lives on."""
    return await memory.portal.acall(work) if isinstance(memory, Memory) else await work


def _shorten(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
