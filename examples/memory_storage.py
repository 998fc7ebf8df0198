"""An agent that records its own life: every message, answer, tool call and error, kept in SQLite and found again."""

import asyncio
from datetime import UTC, datetime, timedelta
from math import prod

from octavo import Agent, EventType, MockAdapter, ModelConfig, SQLiteMemoryStore


def calculator(expression: str) -> str:
    """Work out an arithmetic expression.

    Args:
        expression: numbers with + and *, such as 2+3*4
    """
    return str(sum(prod(int(factor) for factor in part.split("*")) for part in expression.split("+")))


# A model that follows a script; OpenAIAdapter(ModelConfig(model_name=…, base_url=…)) is a real one.
SCRIPT = [
    "Hello! What can I do for you?",
    MockAdapter.call("calculator", expression="2+3*4"),
    "2+3*4 is 14.",
    MockAdapter.call("calculator", expression="two plus two"),
    "I cannot read that as numbers.",
    "好的，我记住了。",
]


async def main() -> None:
    """Talk, then look at what was recorded."""
    model = MockAdapter(config=ModelConfig(model_name="gpt-3.5-turbo"), script=SCRIPT)
    async with (
        SQLiteMemoryStore(config={"db_path": ":memory:"}) as store,  # a path keeps it for good
        Agent.create(name="assistant", model_adapter=model, tools=[calculator], memory_store=store) as agent,
    ):
        for message in ("Hello!", "What is 2+3*4?", "And two plus two?", "请记住：计算器很好用。"):
            print(f"> {message}\n  {(await agent.run(message))['response']}")
        await agent.record_event(EventType.CUSTOM, {"action": "user_login", "user_id": "123"})

        print("\nWhat happened:")
        for event in await agent.get_memory(limit=100):
            print(f"  {event.event_type:<18} {event.data}")
        print("\nTool calls that failed:")
        for event in await agent.get_memory(event_type=EventType.TOOL_CALL_ERROR):
            print(f"  {event.data['tool_name']}: {event.data['error_type']}: {event.data['error']}")
        for words in ("计算器", "2+3*4"):
            found = await agent.search_memory(words)
            print(f"\nAbout {words!r}: {', '.join(event.event_type for event in found)}")

        stats = await agent.get_memory_stats()
        print(f"\n{stats['total_events']} events, {stats['by_type'].get('AGENT_ERROR', 0)} of them errors")
        recent = await store.retrieve(start_time=datetime.now(UTC) - timedelta(hours=1), limit=50)
        print(f"{len(recent)} in the last hour")
        print(f"{await agent.clear_memory(session_id=agent.context.session_id)} cleared")


asyncio.run(main())
