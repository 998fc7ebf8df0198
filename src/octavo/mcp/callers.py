"""Whose memory a call is about. It comes from the configuration or from the caller's key, never from what a model says."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.kernel.model import Scope
from octavo.memory import AsyncMemory

Toolset: TypeAlias = Literal["memory", "graph", "mem0"]


class ToolCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls a tool: the memory they see, the user they are, and whether they may change anything."""

    memory: AsyncMemory
    user_id: str
    may_write: bool = True

    @property
    def scope(self) -> Scope:
        """Where all that is the user's is kept."""
        return Scope(tenant=self.memory.layers.tenant, user=self.user_id)


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one call may say and be answered."""

    answer_tokens: int = 2000
    content_bytes: int = 1_048_576


#: Finds the caller of an HTTP request; over stdio there is no request, and always the same caller.
FindCaller: TypeAlias = Callable[[Any], ToolCaller]

#: The caller of the call that is under way.
CALLER: ContextVar[ToolCaller] = ContextVar("octavo.mcp.caller")
