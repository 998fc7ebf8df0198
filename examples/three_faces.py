"""Three faces on one store: a chat keeps the messages, a conversation memory reads them for a prompt, layers keep the facts."""

import asyncio
import tempfile

from octavo import LayeredMemory, Query, Recall, Scope, open_store
from octavo.chat import ChatMemory, Msg
from octavo.conversation import ConversationBufferWindowMemory, StoreChatMessageHistory

TALK = [
    ("user", "Hello! I am a software engineer in Hangzhou."),
    ("assistant", "Nice to meet you. What can I do?"),
    ("user", "我喜欢喝绿茶，对花生过敏。"),
    ("assistant", "记住了。"),
]


async def main(url: str) -> None:
    """Each face writes what is its own, and all see what the others wrote."""
    async with open_store(url) as store:
        chat = ChatMemory(store, user_id="lin", session_id="monday")
        await chat.add([Msg(role, text, role) for role, text in TALK])
        print(f"chat: {await chat.size()} messages")

        history = StoreChatMessageHistory(store, "monday", user_id="lin")
        window = ConversationBufferWindowMemory(chat_memory=history, k=1, keep="all")
        told = await window.aload_memory_variables({})
        print(f"conversation, the last turn:\n{told['history']}")
        await window.asave_context({"input": "晚上吃什么？"}, {"output": "不含花生的都可以。"})
        print(f"chat again: {await chat.size()} messages")

        layers = LayeredMemory(store)
        for message in await chat.get_memory():
            if message.role == "user":
                await layers.extract(message.get_text_content() or "", user_id="lin")
        print("layers:")
        for memory in reversed(await layers.profile(user_id="lin")):
            print(f"  {memory.category:10}  {memory.content}")

        print("recall, over all of it:")
        for hit in await Recall(store).recall("绿茶", Scope(user="lin"), limit=3):
            print(f"  {hit.record.collection:9}  {hit.record.text}")
        for name in ("messages", "profile", "log"):
            print(f"{name}: {(await store.tally(Query(collection=name))).total} records")
        await layers.close()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(f"sqlite:///{folder}/octavo.db"))
