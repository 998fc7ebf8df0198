"""What a running server holds: one memory put together, and each tenant's view of it."""

import asyncio
import dataclasses
import importlib
import logging
from collections import OrderedDict
from typing import Any

import msgspec

from octavo.assemble import Assembled, assemble
from octavo.config import Settings
from octavo.errors import OctavoError
from octavo.keys import Keys
from octavo.layers import LayeredMemory
from octavo.service.memory import Memory
from octavo.service.records import Health

log = logging.getLogger("octavo.server")
_MOST_TENANTS = 1000  # whose recent events are held; more are made again when they call
_HEALTH_SECONDS = 0.5  # for which an answer about health is good enough: anybody may ask, without a key

#: One user to look at, so that a newcomer's first question has an answer.
_SAMPLE_USER = "user123"
_SAMPLE: tuple[dict[str, Any], ...] = (
    {"content": "用户是一名软件工程师，毕业于北京大学", "layer": "profile", "category": "career"},
    {"content": "用户喜欢喝绿茶，不喝咖啡", "layer": "profile", "category": "preference"},
    {"content": "Speaks fluent English and Chinese", "layer": "profile", "category": "ability"},
    {"content": "用户下午参加了技术分享会，讨论了人工智能的应用", "layer": "event", "category": "meeting"},
    {"content": "Decided to move the project to PostgreSQL", "layer": "event", "category": "decision"},
)


class Memories:
    """The layers and the service of every tenant, over one store that is opened and closed here."""

    def __init__(self, settings: Settings, assembled: Assembled | None = None) -> None:
        self.settings = settings
        self._owned = assembled is None
        self.assembled = assembled or assemble(settings)
        # The documents of a vault are files of one machine, for which the server has no route.
        vault = msgspec.structs.replace(settings.vault, enabled=False)
        self._plain = msgspec.structs.replace(settings, vault=vault)
        self._layers = LayeredMemory.from_assembled(self.assembled)
        self.keys = Keys(self.assembled.store)
        self._services: OrderedDict[str, Memory] = OrderedDict()
        self._asking: asyncio.Task[Health] | None = None
        self._asked = 0.0
        self._first_sweep: asyncio.Task[None] | None = None
        self._service = self.service(settings.service.tenant)

    def layers(self, tenant: str) -> LayeredMemory:
        """The profile and event memories of a tenant."""
        return self._layers.of(tenant)

    def service(self, tenant: str) -> Memory:
        """The events and turns of a tenant."""
        held = self._services.get(tenant)
        if held is None:
            service = msgspec.structs.replace(self._plain.service, tenant=tenant)
            settings = msgspec.structs.replace(self._plain, service=service)
            held = self._services[tenant] = Memory(dataclasses.replace(self.assembled, settings=settings))
            if len(self._services) > _MOST_TENANTS:
                self._services.popitem(last=False)
        else:
            self._services.move_to_end(tenant)
        return held

    def down(self) -> bool:
        """Whether the store is known to be away, so that asking it would only cost time."""
        journal = self.assembled.journal
        return journal is not None and journal.status().state == "down"

    async def health(self) -> Health:
        """How the memory is; many who ask at once share one look."""
        loop = asyncio.get_running_loop()
        if self._asking is None or (self._asking.done() and loop.time() - self._asked > _HEALTH_SECONDS):
            self._asked = loop.time()
            self._asking = asyncio.create_task(self._service.health())
        return await asyncio.shield(self._asking)

    async def start(self, *, sample: bool = False) -> None:
        """Begin to open the store and to sweep; a store that is down is opened later."""
        # Now rather than under the first request that needs them: they take half a second, and would hold up all others.
        importlib.import_module("octavo.layers.rules")
        await self._service.start()
        if self.settings.layers.sweep_seconds:
            # What expired while no server ran is swept now; the later sweeps follow from this one.
            self._first_sweep = asyncio.create_task(self._sweep())
        if sample:
            await add_sample(self.layers(self.settings.service.tenant))

    async def close(self) -> None:
        """End the sweep, deliver what waits or leave it on disk, and close what was opened here."""
        if self._first_sweep is not None:
            # Let it come to its end: it may be in the middle of making tables.
            await asyncio.wait([self._first_sweep], timeout=self.settings.service.timeout_seconds)
            self._first_sweep.cancel()
            await asyncio.wait([self._first_sweep])
        await self._layers.close()
        if self._owned:
            await self._service.close()

    async def _sweep(self) -> None:
        try:
            await self._layers.sweep()
        except OctavoError as error:
            log.warning("expired memories could not be swept, and will be later: %s", error)


async def add_sample(layers: LayeredMemory) -> int:
    """Remember a few things about the sample user, once: not again after they were forgotten. How many were added."""
    if await layers.logs(user_id=_SAMPLE_USER, limit=1):
        return 0
    for memory in _SAMPLE:
        await layers.remember(
            user_id=_SAMPLE_USER, reason="a sample to look at", metadata={"sample": True}, **memory
        )
    return len(_SAMPLE)
