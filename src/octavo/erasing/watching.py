"""Processes that run learn of what others erase, and let go of what they hold in memory."""

import asyncio

import msgspec

from octavo.erasing.certificate import all_certificates
from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.ports import Store
from octavo.util.cache import clear_caches

LOOK_SECONDS = 5.0


async def watch_erasures(store: Store, seconds: float = LOOK_SECONDS) -> None:
    """Clear the caches of this process whenever something was erased, by whichever process, until it is cancelled."""
    newest = msgspec.structs.replace(all_certificates(), newest_first=True, limit=1)
    seen: object = None
    known = False
    while True:
        try:
            found = [(record.id, record.updated_at) for record in await store.find(newest)]
        except StoreClosed:
            return
        except OctavoError:  # a store that is away is asked again
            pass
        else:
            if known and found != seen:
                clear_caches()
            seen, known = found, True
        await asyncio.sleep(seconds)
