"""The newest turns of a conversation that fit into a budget, found without reading the rest of it."""

from collections.abc import Callable, Sequence

from octavo.conversation.histories import BaseChatMessageHistory
from octavo.conversation.messages import BaseMessage, HumanMessage

Cost = Callable[[BaseMessage], int]

FIRST_LOOK = 16  # messages; each further look is twice as long


async def newest_turns(
    history: BaseChatMessageHistory, limit: int, cost: Cost, look: int = FIRST_LOOK
) -> list[BaseMessage]:
    """The newest whole turns that cost at most `limit` together; the last one is there whatever it costs.

    A turn begins with what a person says. What stands before the first one counts to it. `look` is how many messages
    are read at first.
    """
    while True:
        found = await history.alatest(look)
        complete = len(found) < look
        start = first_kept(found, limit, cost, complete=complete)
        if start is not None:
            return found[start:]
        look *= 2


def first_kept(
    messages: Sequence[BaseMessage], limit: int, cost: Cost, *, complete: bool = True
) -> int | None:
    """Where the turns that fit begin, or None when that lies before these messages, which are not all there are."""
    total = 0
    kept: int | None = None
    fits = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        total += cost(messages[at])
        if total <= limit:
            fits = at
        if isinstance(messages[at], HumanMessage) and (kept is None or total <= limit):
            kept = at
        if total > limit and kept is not None:
            return kept
    if not complete:
        return None
    if total <= limit:
        return 0
    # Nobody asked anything: messages that belong to no turn are dropped one by one.
    return min(fits, max(0, len(messages) - 1))
