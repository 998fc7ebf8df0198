"""Find again what was said weeks ago, in either language, and see why it was found."""

import asyncio
from datetime import UTC, datetime, timedelta

from octavo import Add, Recall, Record, Scope, open_store

LIN = Scope(user="lin")
TALKS = {
    datetime(2026, 1, 5, 9, tzinfo=UTC): (
        "I am allergic to peanuts.",
        "下周去北京出差，请提醒我带上软件合同。",
    ),
    datetime(2026, 2, 11, 20, tzinfo=UTC): (
        "I can never find the spare tent pegs.",
        "They are in the blue box in the attic.",
        "The tent leaks at the back, by the way.",
    ),
    datetime(2026, 3, 2, 8, tzinfo=UTC): ("Anna bought a blue bicycle for her daughter.",),
}
QUESTIONS = (
    "Can Lin eat peanuts?",
    "软件合同",
    "Where are the pegs for the tent?",
    "What did Anna buy in March?",
)


def messages() -> list[Record]:
    """Each talk is a session of its own."""
    return [
        Record(
            collection="messages",
            id=f"{began:%m-%d}-{n}",
            scope=Scope(user="lin", session=f"{began:%Y-%m-%d}"),
            text=text,
            created_at=began + timedelta(minutes=n),
        )
        for began, lines in TALKS.items()
        for n, text in enumerate(lines)
    ]


async def main() -> None:
    """Ask, ask why, ask what is not there, and build a prompt."""
    async with open_store("memory://") as store:
        await store.apply([Add(messages())])
        recall = Recall(store)
        for question in QUESTIONS:
            [hit] = await recall.recall(question, LIN, limit=1, explain=True)
            print(f"{question}\n  {hit.record.text}  (shares {', '.join(hit.terms)})")
        answer = await recall.recall("How many moons does Neptune have?", LIN)
        print(f"Neptune's moons: {'probably not in memory' if answer.probably_absent else answer}")
        print(f"Why not the bicycle? {(await recall.why_not('03-02-0', 'tent', LIN)).reason}")
        print(await recall.context("the tent and the blue box", LIN, max_tokens=120))


asyncio.run(main())
