"""A chat engine of LlamaIndex with room for few words: what leaves its short-term memory is kept, and told when it is needed."""

import tempfile
from contextlib import chdir
from typing import Any

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM

from octavo import Memory
from octavo.integrations.llama_index import OctavoMemory, OctavoMemoryBlock

URL = "sqlite:///octavo.db"


def answer(messages: list[ChatMessage], **_: Any) -> ChatMessage:
    """A model that only knows what it is told in the call."""
    safe = any("peanuts" in (message.content or "") for message in messages)
    text = "Noodles with vegetables." if safe else "Noodles with peanut sauce!"
    asked = (messages[-1].content or "").endswith("?")
    return ChatMessage(text if asked else "Noted.", role="assistant")


with tempfile.TemporaryDirectory() as folder, chdir(folder), Memory(URL) as known:
    block = OctavoMemoryBlock(memory=known, user_id="lin")
    memory = OctavoMemory.from_defaults(
        URL, "monday", "lin", memory_blocks=[block], token_limit=60, token_flush_size=10
    )
    with memory:
        model = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
        engine = SimpleChatEngine.from_defaults(llm=model, memory=memory)
        said = ["I am allergic to peanuts.", *["Tell me a long story about the sea, and take your time."] * 3]
        for text in [*said, "What shall I cook?"]:
            reply = engine.chat(text)
        print(f"{text}\n  {reply}")
        told = [message.content for message in memory.get()]
        print(
            len(memory.get_all()),
            "messages are kept,",
            len(told),
            "are told, the first sentence:",
            said[0] in told,
        )
        print("learnt:", [fact.content for fact in known.get_all(user_id="lin")])
