"""Agents that record their own lives: a model, tools, middlewares, and a memory of everything that happened."""

from octavo.agent.adapters import MockAdapter, ModelAdapter, ModelConfig, OpenAIAdapter, Reply, ToolCall
from octavo.agent.agent import Agent
from octavo.agent.tools import AgentContext, Tool, tool
from octavo.agent.turn import Middleware

__all__ = [
    "Agent",
    "AgentContext",
    "Middleware",
    "MockAdapter",
    "ModelAdapter",
    "ModelConfig",
    "OpenAIAdapter",
    "Reply",
    "Tool",
    "ToolCall",
    "tool",
]
