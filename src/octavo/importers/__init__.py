"""Memory that people bring along: one reader for each format, and one writer for all of them."""

from types import MappingProxyType

#: format → the module and function that read it, and whether it may be a database. Here, since a command lists it and must
#: not load what reads it.
FORMATS = MappingProxyType({
    "agentscope": ("chats:read_agentscope", True),
    "chat-jsonl": ("chats:read_chat_jsonl", False),
    "chatgpt": ("chats:read_chatgpt", False),
    "claude": ("chats:read_claude", False),
    "claude-code": ("markdown:read_memory_folder", False),
    "langchain": ("chats:read_langchain", True),
    "lightagent": ("chats:read_lightagent", True),
    "markdown": ("markdown:read_markdown", False),
    "mcp-memory": ("memories:read_mcp_memory", False),
    "mem0": ("memories:read_mem0", True),
    "mk2": ("memories:read_mk2", True),
    "z-memory": ("memories:read_z_memory", True),
})  # fmt: skip
