"""Conversation memories: one history in a store, and several views of it for a prompt. No model is needed."""

import tempfile

from octavo.conversation import (
    CombinedMemory,
    ConversationBufferWindowMemory,
    ConversationEntityMemory,
    ConversationSummaryMemory,
    StoreChatMessageHistory,
)

TURNS = [
    ("我叫小明，在杭州做软件工程师。", "你好，小明！"),
    ("请记住，我对花生过敏。", "记住了。"),
    ("我的同事张伟是设计师，他下周去北京出差。", "好的。"),
    ("What should he take along?", "The software contract."),
]


def talk(url: str) -> None:
    """Say everything once; who is named is noted with the history."""
    with StoreChatMessageHistory(url, "monday", user_id="ming") as history:
        memory = ConversationEntityMemory(chat_memory=history)
        for said, answered in TURNS:
            memory.save_context({"input": said}, {"output": answered})
        print(f"{history.count()} messages kept, names heard: {', '.join(memory.entity_store)}")


def look_back(url: str) -> None:
    """Later, in another process: two views of the same history in one prompt, and a summary of it."""
    with StoreChatMessageHistory(url, "monday", user_id="ming") as history:
        last = ConversationBufferWindowMemory(chat_memory=history, k=1, keep="all", memory_key="last")
        people = ConversationEntityMemory(chat_memory=history, k=1)
        told = CombinedMemory(memories=[last, people]).load_memory_variables({"input": "张伟去哪里？"})
        print(f"\nthe last turn:\n{told['last']}\n\nabout 张伟:\n{told['entities']['张伟']}")

        short = ConversationSummaryMemory(max_summary_tokens=60)
        for said, answered in TURNS:
            short.save_context({"input": said}, {"output": answered})
        print(f"\nin short:\n{short.buffer}")


with tempfile.TemporaryDirectory() as folder:
    talk(f"sqlite:///{folder}/talk.db")
    look_back(f"sqlite:///{folder}/talk.db")
