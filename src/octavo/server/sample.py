"""One user to look at, so that a newcomer's first question has an answer."""

from typing import Any

from octavo.layers import LayeredMemory

USER = "user123"
_MEMORIES: tuple[dict[str, Any], ...] = (
    {"content": "用户是一名软件工程师，毕业于北京大学", "layer": "profile", "category": "career"},
    {"content": "用户喜欢喝绿茶，不喝咖啡", "layer": "profile", "category": "preference"},
    {"content": "Speaks fluent English and Chinese", "layer": "profile", "category": "ability"},
    {
        "content": "用户下午参加了技术分享会，讨论了人工智能的应用",
        "layer": "event",
        "category": "meeting",
    },
    {"content": "Decided to move the project to PostgreSQL", "layer": "event", "category": "decision"},
)


async def add_sample(layers: LayeredMemory) -> int:
    """Remember a few things about the sample user, once: not again after they were forgotten. How many were added."""
    if await layers.logs(user_id=USER, limit=1):
        return 0
    for memory in _MEMORIES:
        await layers.remember(user_id=USER, reason="a sample to look at", metadata={"sample": True}, **memory)
    return len(_MEMORIES)
