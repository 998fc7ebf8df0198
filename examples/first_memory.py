"""A first memory: remember a short conversation, then find it again in either language. Run it twice: nothing doubles."""

import asyncio
from datetime import UTC, datetime, timedelta

from octavo import Add, Query, Record, Scope, open_store

BEGAN_AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
HOME = Scope(user="lin", session="first-talk")  # whose memory it is, and which conversation
TALK = [
    ("user", "Hi! My name is Lin, I live in Hangzhou and I am allergic to peanuts."),
    ("assistant", "Nice to meet you, Lin. I will remember the peanuts."),
    ("user", "下周我要去北京出差，请提醒我带上软件合同。"),
    ("assistant", "好的，去北京之前我会提醒您带软件合同。"),
]


async def main() -> None:
    """Remember, recall and count."""
    async with open_store("sqlite:///.octavo/memory.db") as store:
        said = [
            Record(
                collection="messages",
                id=f"first-talk-{n}",  # an id that is already kept is left alone
                kind=role,
                scope=HOME,
                text=text,
                created_at=BEGAN_AT + timedelta(minutes=n),
            )
            for n, (role, text) in enumerate(TALK)
        ]
        [new] = await store.apply([Add(said)])
        print(f"remembered {new} new messages in .octavo/memory.db")

        for words in ("PEANUTS", "软件合同"):
            print(f"\nabout {words!r}:")
            for record in await store.find(Query(collection="messages", scope=HOME, text=words)):
                print(f"  {record.created_at:%Y-%m-%d %H:%M}  {record.kind:9}  {record.text}")

        tally = await store.tally(Query(collection="messages", scope=HOME))
        print(f"\n{tally.total} messages kept, by role: {tally.by_kind}")


asyncio.run(main())
