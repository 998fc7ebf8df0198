"""What the front door answers."""

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
