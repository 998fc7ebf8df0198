"""Group commit: adds that wait at the same time share one script call, and each is acknowledged after it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from octavo.kernel.codec import Sealed
from octavo.stores.gather import Gathering

#: What a group may weigh, some 2000 records: Redis serves nobody else while the script runs.
_MOST = 8 * 1024 * 1024
_EACH = 4096  # a record's lanes and counters, as if they were characters of it
_REMEMBERED = 1024

Gatherings: TypeAlias = dict[frozenset[str], Gathering[Sequence[Sealed], bytes]]


class Commits:
    """Adds on their way to Redis, in the order they came; those of one tenant together."""

    def __init__(self, write: Callable[[Sequence[Sealed]], Awaitable[bytes]]) -> None:
        self._write = write
        self._gatherings: Gatherings = {}

    async def add(self, records: Sequence[Sealed]) -> bytes:
        """Add the records; answer b"1" or b"0" for each."""
        # Only the same tenants share a call: in a cluster, those of different tenants may live on different nodes.
        tenants = frozenset([sealed.scope.tenant for sealed in records])
        gathering = self._gatherings.get(tenants)
        if gathering is None:
            if len(self._gatherings) >= _REMEMBERED:
                self._gatherings = {key: busy for key, busy in self._gatherings.items() if not busy.idle}
            gathering = self._gatherings[tenants] = Gathering(self._commit, _MOST, _weight)
        return await gathering.submit(records)

    async def settled(self) -> None:
        """Wait until nothing is on its way any more."""
        for gathering in list(self._gatherings.values()):
            await gathering.settle()

    async def _commit(self, group: list[Sequence[Sealed]]) -> list[bytes]:
        digits = await self._write([sealed for records in group for sealed in records])
        answers, start = [], 0
        for records in group:
            answers.append(digits[start : start + len(records)])
            start += len(records)
        return answers


def _weight(records: Sequence[Sealed]) -> int:
    return sum([_EACH + len(sealed.data_json) + len(sealed.text) for sealed in records])
