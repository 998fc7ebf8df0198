"""Conversations: messages with marks and a summary, on any store."""

from octavo.chat.base import MemoryBase
from octavo.chat.blocks import (
    AudioBlock,
    Base64Source,
    BlockType,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from octavo.chat.compression import Compressed, CompressionConfig, compress
from octavo.chat.memory import ChatMemory
from octavo.chat.messages import Msg
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
