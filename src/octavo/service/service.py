"""MemoryService: the coroutines of `AsyncMemoryService` for callers who block, and for callers on any event loop."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from octavo.assemble import assemble
from octavo.config import Database, FailureQueue, Service, Settings, Vault, load_settings
from octavo.errors import StoreClosed
from octavo.service.health import Health
from octavo.service.memory import AsyncMemoryService
from octavo.util.secrets import mask_url
from octavo.util.sync import Closing, Faced, Portal, awaiting, blocking
from octavo.util.system import call_after_fork

T = TypeVar("T")
P = ParamSpec("P")


def _make_both(
    method: Callable[Concatenate[AsyncMemoryService, P], Coroutine[Any, Any, T]],
) -> tuple[
    Callable[Concatenate[Faced[AsyncMemoryService], P], T],
    Callable[Concatenate[Faced[AsyncMemoryService], P], Coroutine[Any, Any, T]],
]:
    """The method that blocks until this one is done, and the one that is awaited."""
    return blocking(method), awaiting(method)


class MemoryService(Closing):
    """A memory that fails open and loses nothing: each method blocks, and its twin with an `a` in front is awaited.

    It starts when it is made, also while the database is down: writes wait on disk, and recover by themselves. It can be
    shared by any number of threads and event loops, and by the children of a fork, each of which gets one of its own.
    """

    def __init__(
        self,
        store_url: str = "sqlite:///octavo.db",
        *,
        vault_path: str | Path | None = "octavo_vault",
        queue_path: str | Path = "octavo_queue",
        tenant: str = "",
        timeout_seconds: float = 5.0,
    ) -> None:
        """A service on any store; `vault_path=None` is one without documents."""
        vault = Vault(enabled=False) if vault_path is None else Vault(root_path=str(vault_path))
        self._begin(
            Settings(
                database=Database(dsn=store_url),
                vault=vault,
                failure_queue=FailureQueue(directory=str(queue_path)),
                service=Service(tenant=tenant, timeout_seconds=timeout_seconds),
            )
        )

    @classmethod
    def from_config(
        cls, path: str | Path | None = "config/memory.yaml", *, environ: Mapping[str, str] = os.environ
    ) -> Self:
        """The service that a settings file and the environment describe; what is wrong there is a ConfigError."""
        return cls.from_settings(load_settings(path, environ=environ))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The service that these settings describe."""
        service = cls.__new__(cls)
        service._begin(settings)  # noqa: SLF001 - its own class
        return service

    def _begin(self, settings: Settings) -> None:
        self.settings = settings
        self._changing = threading.Lock()
        self._closed = False
        self._start()
        _services.add(self)

    def _start(self) -> None:
        self._memory = AsyncMemoryService(assemble(self.settings))
        self._portal = Portal("octavo-service")
        self._forked = False
        self._portal.call(self._memory.start())

    def _disown(self) -> None:
        """In the child of a fork: the thread did not come along, and the connections are the parent's."""
        # Kept, not dropped: collecting the parent's connections here would say goodbye in its name.
        _parents.append((self._portal, self._memory))
        self._changing = threading.Lock()  # the old one may have been held by another thread
        self._forked = True

    def _settle(self) -> None:
        if self._forked:
            with self._changing:
                if self._forked and not self._closed:
                    self._start()

    @property
    def portal(self) -> Portal:
        """The thread that everything runs on."""
        self._settle()
        return self._portal

    @property
    def behind(self) -> AsyncMemoryService:
        """The coroutines."""
        self._settle()
        return self._memory

    append_event, aappend_event = _make_both(AsyncMemoryService.append_event)
    get_event, aget_event = _make_both(AsyncMemoryService.get_event)
    get_recent_events, aget_recent_events = _make_both(AsyncMemoryService.get_recent_events)
    append_turn, aappend_turn = _make_both(AsyncMemoryService.append_turn)
    finish_turn, afinish_turn = _make_both(AsyncMemoryService.finish_turn)
    get_turn, aget_turn = _make_both(AsyncMemoryService.get_turn)
    get_recent_turns, aget_recent_turns = _make_both(AsyncMemoryService.get_recent_turns)

    get_system_prompt, aget_system_prompt = _make_both(AsyncMemoryService.get_system_prompt)
    upsert_system_prompt, aupsert_system_prompt = _make_both(AsyncMemoryService.upsert_system_prompt)
    get_user_profile, aget_user_profile = _make_both(AsyncMemoryService.get_user_profile)
    upsert_user_profile, aupsert_user_profile = _make_both(AsyncMemoryService.upsert_user_profile)
    get_config, aget_config = _make_both(AsyncMemoryService.get_config)
    upsert_config, aupsert_config = _make_both(AsyncMemoryService.upsert_config)

    recall, arecall = _make_both(AsyncMemoryService.recall)
    context, acontext = _make_both(AsyncMemoryService.context)

    queue_status, aqueue_status = _make_both(AsyncMemoryService.queue_status)
    replay_queue, areplay_queue = _make_both(AsyncMemoryService.replay_queue)
    dead_letters, adead_letters = _make_both(AsyncMemoryService.dead_letters)
    dead_letter, adead_letter = _make_both(AsyncMemoryService.dead_letter)
    replay_dead_letters, areplay_dead_letters = _make_both(AsyncMemoryService.replay_dead_letters)
    discard_dead_letters, adiscard_dead_letters = _make_both(AsyncMemoryService.discard_dead_letters)

    initialize, ainitialize = _make_both(AsyncMemoryService.initialize)

    _health, _ahealth = _make_both(AsyncMemoryService.health)

    def health(self) -> Health:
        """How the memory is; it never raises, and takes no longer than the time-out."""
        try:
            return self._health()
        except StoreClosed:
            return self._health_when_closed()

    async def ahealth(self) -> Health:
        """How the memory is; it never raises, and takes no longer than the time-out."""
        try:
            return await self._ahealth()
        except StoreClosed:
            return self._health_when_closed()

    def _health_when_closed(self) -> Health:
        return Health(state="closed", backend=mask_url(self.settings.database.dsn))

    def close(self) -> None:
        """Deliver what waits or leave it on disk, and let go of everything; a second call does nothing."""
        with self._changing:
            if self._closed:
                return
            self._closed = True
            if self._forked:  # and never used since: what is open is the parent's to close
                self._portal = Portal()
            try:
                if not self._forked:
                    self._portal.call(self._memory.finish())
            finally:
                self._portal.close()

    async def aclose(self) -> None:
        """Deliver what waits or leave it on disk, and let go of everything; a second call does nothing."""
        await asyncio.to_thread(self.close)


_services: "weakref.WeakSet[MemoryService]" = weakref.WeakSet()
_parents: list[tuple[Portal, AsyncMemoryService]] = []


def _reset_after_fork() -> None:
    for service in list(_services):
        service._disown()  # noqa: SLF001 - its own class


call_after_fork(_reset_after_fork)
