"""What callers share of a server, so that one of them leaves room for the others."""


class Shares:
    """So many of something. A caller may have as many as are left for all others.

    Alone a caller gets half of it, and the next one half of the rest: whoever holds how much, there is some for another.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken = 0
        self._by_caller: dict[str, int] = {}

    def take(self, caller: str, amount: int = 1) -> bool:
        """Take some of it; False when that is more than the caller's share."""
        own = self._by_caller.get(caller, 0) + amount
        if own > self.most - self._taken:
            return False
        self._taken += amount
        self._by_caller[caller] = own
        return True

    def give_back(self, caller: str, amount: int = 1) -> None:
        """Give back what was taken."""
        self._taken -= amount
        own = self._by_caller.pop(caller) - amount
        if own:  # or callers who left would be remembered for ever
            self._by_caller[caller] = own


class Turn:
    """What one request holds: a place among the requests under way, and room for what was read of its body."""

    def __init__(self, places: Shares, room: Shares) -> None:
        self._places = places
        self._room = room
        self._caller: str | None = None
        self._read = 0

    def begin(self, caller: str) -> bool:
        """Take a place for this caller, in exchange for the one that was held; False when there is none."""
        self.end()
        if self._places.take(caller):
            self._caller = caller
        return self._caller is not None

    def read(self, amount: int) -> bool:
        """Take room for some bytes; False when there is none."""
        if self._caller is None or not amount:
            return True
        taken = self._room.take(self._caller, amount)
        self._read += amount if taken else 0
        return taken

    def end(self) -> None:
        """Give everything back; a second call does nothing."""
        if self._caller is not None:
            self._places.give_back(self._caller)
            if self._read:
                self._room.give_back(self._caller, self._read)
        self._caller, self._read = None, 0
