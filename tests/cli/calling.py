"""How the tests of the memory commands call them, and what they do that no command can."""

import asyncio
from datetime import UTC, datetime

from octavo.layers import LayeredMemory

URL = "sqlite:///octavo.db"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEED = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"


def happened(*steps, url=URL, tenant=""):
    """Do with a memory what a command cannot: at times of the test's choosing."""

    async def run():
        clock = iter(at for at, _ in steps)
        moment = [NOON]
        async with LayeredMemory(url, tenant=tenant, clock=lambda: moment[0]) as memory:
            for _, step in steps:
                moment[0] = next(clock)
                await step(memory)

    asyncio.run(run())
