"""Octavo's chat memories as memories of AgentScope 1.x, so that its agents run on them.

    from octavo.integrations.agentscope import ChatMemory

    agent = ReActAgent(..., memory=ChatMemory.open("sqlite:///chat.db", user_id="lin", session_id="monday"))

Each is a real `agentscope.memory.MemoryBase` and takes and gives AgentScope's own `Msg`. What it holds is the attribute
`octavo`, a memory of `octavo.chat` with Octavo's `Msg`.
"""

from importlib import metadata

from octavo.errors import ConfigError

try:
    _version = metadata.version("agentscope")
    if not _version.startswith("1."):
        raise ConfigError(f"AgentScope {_version} has other memories: pip install 'octavo[agentscope]'")
    import agentscope.memory  # type: ignore[import-not-found] # noqa: F401 - or the modules below fail without a cure
except ImportError as error:  # PackageNotFoundError is one too
    raise ConfigError(
        f"octavo.integrations.agentscope needs AgentScope ({error}): pip install 'octavo[agentscope]'"
    ) from error

from octavo.integrations.agentscope.memory import OctavoMemory, to_agentscope, to_octavo
from octavo.integrations.agentscope.named import (
    AsyncSQLAlchemyMemory,
    ChatMemory,
    InMemoryMemory,
    RedisMemory,
)

__all__ = [
    "AsyncSQLAlchemyMemory",
    "ChatMemory",
    "InMemoryMemory",
    "OctavoMemory",
    "RedisMemory",
    "to_agentscope",
    "to_octavo",
]
