"""What the front door answers."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from octavo.kernel.ports import WriteStatus
from octavo.layers.values import Outcome

#: Whose a memory is when nobody is named, in Python and on the command line.
DEFAULT_USER = "default_user"
#: Where messages are kept when no session is named.
DEFAULT_SESSION = "default_session"


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what was said: the messages that keep it, and each fact of it that was inserted, updated or ignored."""

    messages: list[str] = []  # their ids, in order
    memories: list[Outcome] = []
    status: WriteStatus = "stored"
    note: str = ""  # what was not done, or not yet

    def count(self, action: str) -> int:
        """How many of the facts were inserted, updated or ignored."""
        return sum(outcome.action == action for outcome in self.memories)


class MemoryHit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was found: what it says, when that was, whose it is, and why it is an answer."""

    text: str
    score: float  # from 0 to 1: how likely it is to answer
    why: str  # a few words
    when: datetime  # it was said, or changed last
    source: str  # facts, messages, observations, events or documents
    id: str
    kind: str = ""  # the category of a fact, the role of a message, the type of an event
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    metadata: dict[str, Any] = {}
    sources: tuple[
        str, ...
    ] = ()  # of a fact: the ids of the messages or events it was made from, the newest last


class Hits(list[MemoryHit]):
    """The hits, best first, and what is known about the answer as a whole."""

    probably_absent: (
        bool  # memory holds no answer, as far as can be told: the hits are then the least bad ones
    )
    notes: tuple[str, ...]  # what did not work, such as a model that could not be reached
    left_out: int  # hits that did not fit into `max_bytes`

    def __init__(
        self,
        hits: Iterable[MemoryHit] = (),
        *,
        probably_absent: bool = False,
        notes: tuple[str, ...] = (),
        left_out: int = 0,
    ) -> None:
        super().__init__(hits)
        self.probably_absent = probably_absent
        self.notes = notes
        self.left_out = left_out
