"""Models that memory may use: embedders, none by default. Nothing heavy is imported before its first use."""

from octavo.models.embedders import Cached, FunctionEmbedder, open_embedder
from octavo.models.local import FastEmbedder, NanoEmbedder
from octavo.models.openai_server import OpenAIEmbedder

__all__ = ["Cached", "FastEmbedder", "FunctionEmbedder", "NanoEmbedder", "OpenAIEmbedder", "open_embedder"]
