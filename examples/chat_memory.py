"""Chat memory: marks say what a message is for, a summary stands for what went before, and a restart forgets nothing."""

import asyncio
import tempfile

from octavo.chat import ChatMemory, CompressionConfig, Msg, compress

TALK = [
    ("user", "My name is Lin. I am planning a trip to Hangzhou in May."),
    ("assistant", "How would you like to travel?"),
    ("user", "By train. I am allergic to peanuts, remember that."),
    ("assistant", "好的，我会记住您对花生过敏。"),
    ("user", "请订湖畔居，每晚不要超过400元。"),
    ("assistant", "已预订湖畔居四晚，共1520元。"),
]


async def talk(url: str) -> None:
    """A hint that is used once, a conversation, and a summary when it grows too long."""
    async with ChatMemory.open(url, user_id="lin", session_id="trip") as memory:
        await memory.add(Msg("system", "Ask one question at a time.", "system"), marks="hint")
        await memory.add([Msg(role, text, role) for role, text in TALK])
        print(f"kept {await memory.size()} messages")
        for message in await memory.get_memory(mark="hint"):
            print(f"hint: {message.get_text_content()}")
        print(f"used and gone: {await memory.delete_by_mark('hint')}")

        done = await compress(memory, config=CompressionConfig(trigger=60, keep_recent=2, summary_tokens=50))
        print(
            f"{done.outcome} {done.messages} messages: {done.tokens_before} tokens are now {done.tokens_after}"
        )


async def talk_on(url: str) -> None:
    """Another process, another day: the summary and the newest messages are there, and the old ones too."""
    async with ChatMemory.open(url, user_id="lin", session_id="trip") as memory:
        print("\nwhat the model is told:")
        for message in await memory.get_memory(exclude_mark="compressed"):
            print(f"  {message.get_text_content()}".replace("\n", "\n  "))
        print(f"nothing was deleted: {await memory.size()} messages")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(talk(f"sqlite:///{folder}/chat.db"))
    asyncio.run(talk_on(f"sqlite:///{folder}/chat.db"))
