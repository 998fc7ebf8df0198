"""Layered memory: who somebody is, what happened, and a log of why it changed. Rules find the facts; no model is needed."""

import asyncio

from octavo import LayeredMemory

SAID = (
    "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。",
    "用户毕业于北京大学。",
    "他现在是高级软件工程师。",
)


async def main() -> None:
    """Extract, look at both layers, ask, take a change back."""
    async with LayeredMemory("memory://") as memory:
        for text in SAID:
            told = await memory.extract(text, user_id="lin")
            print(f"> {text}")
            for each in told.memories:
                print(f"  {each.action:6}  {each.layer:7}  {each.category:9}  {each.content}")

        await memory.remember(
            "Prefers green tea", user_id="lin", layer="profile", category="preference", reason="she said so"
        )
        print("\nprofile:")
        for each in await memory.profile(user_id="lin"):
            print(f"  {each.category:10}  v{each.version}  {each.content}")
        print("events:")
        for each in await memory.events(user_id="lin"):
            print(f"  {each.category:10}  v{each.version}  {each.content}")

        [found] = await memory.recall("what does she drink? tea?", user_id="lin", top_k=1)
        print(f"\nfound: {found.memory.content}")

        [newest] = await memory.logs(user_id="lin", action="update", limit=1)
        print(f"\nchanged, because: {newest.reason}")
        await memory.undo(newest.id, reason="it was a joke")
        print(f"undone: {(await memory.get(newest.memory_id)).content}")
        for entry in await memory.history(newest.memory_id):
            print(f"  {entry.action}  v{entry.version}  {entry.after.content if entry.after else ''}")


asyncio.run(main())
