"""Models that memory may use: embedders, none by default. Nothing heavy is imported before its first use."""

from octavo.models.embedders import (
    Cached,
    FastEmbedder,
    FunctionEmbedder,
    OpenAIEmbedder,
    RefusedText,
    open_embedder,
)

__all__ = ["Cached", "FastEmbedder", "FunctionEmbedder", "OpenAIEmbedder", "RefusedText", "open_embedder"]
