"""Language models as an agent calls them: any OpenAI-compatible endpoint, or a script for tests."""

from octavo.agent.adapters.base import ModelAdapter, ModelConfig, Reply, ToolCall
from octavo.agent.adapters.mock import MockAdapter
from octavo.agent.adapters.openai import OpenAIAdapter

__all__ = ["MockAdapter", "ModelAdapter", "ModelConfig", "OpenAIAdapter", "Reply", "ToolCall"]
