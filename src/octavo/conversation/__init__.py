"""Memories of a conversation: what a prompt is told of the past, over a history in any store."""

from octavo.conversation.entity import ConversationEntityMemory, EntityInfo
from octavo.conversation.histories import BaseChatMessageHistory, ChatMessageHistory, FileChatMessageHistory
from octavo.conversation.language import (
    ENTITY_EXTRACTION_PROMPT,
    ENTITY_EXTRACTION_PROMPT_EN,
    ENTITY_SUMMARIZATION_PROMPT,
    ENTITY_SUMMARIZATION_PROMPT_EN,
    SUMMARY_PROMPT,
    SUMMARY_PROMPT_EN,
    LanguageModel,
    PromptTemplate,
    tokenizer_file,
)
from octavo.conversation.memories import (
    BaseChatMemory,
    BaseMemory,
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationTokenBufferMemory,
)
from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    get_buffer_string,
    message_from_dict,
    message_to_dict,
    messages_from_dict,
    messages_to_dict,
)
from octavo.conversation.redis_history import RedisChatMessageHistory
from octavo.conversation.retrieval import Document, RecallRetriever, VectorStoreRetrieverMemory
from octavo.conversation.store_history import StoreChatMessageHistory
from octavo.conversation.summary import ConversationSummaryBufferMemory, ConversationSummaryMemory
from octavo.conversation.wrapping import CombinedMemory, MemoryMetrics, prometheus

__all__ = [
    "ENTITY_EXTRACTION_PROMPT",
    "ENTITY_EXTRACTION_PROMPT_EN",
    "ENTITY_SUMMARIZATION_PROMPT",
    "ENTITY_SUMMARIZATION_PROMPT_EN",
    "SUMMARY_PROMPT",
    "SUMMARY_PROMPT_EN",
    "AIMessage",
    "BaseChatMemory",
    "BaseChatMessageHistory",
    "BaseMemory",
    "BaseMessage",
    "ChatMessage",
    "ChatMessageHistory",
    "CombinedMemory",
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationEntityMemory",
    "ConversationSummaryBufferMemory",
    "ConversationSummaryMemory",
    "ConversationTokenBufferMemory",
    "Document",
    "EntityInfo",
    "FileChatMessageHistory",
    "FunctionMessage",
    "HumanMessage",
    "LanguageModel",
    "MemoryMetrics",
    "PromptTemplate",
    "RecallRetriever",
    "RedisChatMessageHistory",
    "StoreChatMessageHistory",
    "SystemMessage",
    "ToolMessage",
    "VectorStoreRetrieverMemory",
    "get_buffer_string",
    "message_from_dict",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
    "prometheus",
    "tokenizer_file",
]
