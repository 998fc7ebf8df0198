"""Conversations: messages with marks and a summary, on any store."""

from octavo.chat.compression import Compressed, CompressionConfig, compress
from octavo.chat.memory import ChatMemory, MemoryBase
from octavo.chat.messages import (
    AudioBlock,
    Base64Source,
    BlockType,
    ContentBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from octavo.chat.named import AsyncSQLAlchemyMemory, InMemoryMemory, RedisMemory

__all__ = [
    "AsyncSQLAlchemyMemory",
    "AudioBlock",
    "Base64Source",
    "BlockType",
    "ChatMemory",
    "Compressed",
    "CompressionConfig",
    "ContentBlock",
    "ImageBlock",
    "InMemoryMemory",
    "MemoryBase",
    "Msg",
    "RedisMemory",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "URLSource",
    "VideoBlock",
    "compress",
]
