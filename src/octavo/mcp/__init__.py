"""Memory for programs that speak MCP: tools, resources and prompts, over stdio or at the server's `/mcp`. It needs the extra `mcp`.

Here is whose memory a call is about: that comes from the configuration or from the caller's key, never from what a model
says. The SDK takes a second to import: this and `install` do without it until somebody is served.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.kernel.model import Scope
from octavo.memory import AsyncMemory

Toolset: TypeAlias = Literal["memory", "graph", "mem0"]


class ToolCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls a tool: the memory they see, the user they are, whether they may change anything, and how much."""

    memory: AsyncMemory
    user_id: str
    may_write: bool = True
    answer_tokens: int = 2000  # that one call may be answered
    content_bytes: int = 1_048_576  # that one call may say

    @property
    def scope(self) -> Scope:
        """Where all that is the user's is kept."""
        return Scope(tenant=self.memory.layers.tenant, user=self.user_id)


#: Finds the caller of an HTTP request; over stdio there is no request, and always the same caller.
FindCaller: TypeAlias = Callable[[Any], ToolCaller]

#: The caller of the call that is under way.
CALLER: ContextVar[ToolCaller] = ContextVar("octavo.mcp.caller")
