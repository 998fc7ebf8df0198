"""The client for callers who block: every call of `AsyncClient`, run on a thread of its own."""

from contextlib import suppress
from typing import Self

from octavo.client.async_client import NEW_CLIENT, AsyncClient
from octavo.errors import StoreClosed
from octavo.util.attributes import Fixed
from octavo.util.secrets import shown
from octavo.util.sync import Portal, blocking


class Client:
    """The server's memory, for callers who block; threads may share it. The same calls and settings as `AsyncClient`."""

    base_url: Fixed[str] = Fixed(NEW_CLIENT)

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
    ) -> None:
        self._behind = AsyncClient(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self.base_url = self._behind.base_url
        self.portal = Portal("octavo-client")
        self._closed = False

    @property
    def behind(self) -> AsyncClient:
        """The client that is asked, on a thread of its own."""
        if self._closed:
            raise StoreClosed("this Client was closed; open another")
        return self._behind

    def __repr__(self) -> str:
        return f"Client({shown(self.base_url)!r})"

    def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        if not self._closed:
            self._closed = True
            # After a fork the connections are the parent's, and there is nothing to let go of.
            with suppress(StoreClosed):
                self.portal.call(self._behind.close())
            self.portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    remember = blocking(AsyncClient.remember)
    extract = blocking(AsyncClient.extract)
    profile = blocking(AsyncClient.profile)
    events = blocking(AsyncClient.events)
    get = blocking(AsyncClient.get)
    history = blocking(AsyncClient.history)
    logs = blocking(AsyncClient.logs)
    revise = blocking(AsyncClient.revise)
    forget = blocking(AsyncClient.forget)
    undo = blocking(AsyncClient.undo)
    query = blocking(AsyncClient.query)
    append_event = blocking(AsyncClient.append_event)
    recent_events = blocking(AsyncClient.recent_events)
    turns = blocking(AsyncClient.turns)
    sessions = blocking(AsyncClient.sessions)
    stats = blocking(AsyncClient.stats)
    queue = blocking(AsyncClient.queue)
    replay = blocking(AsyncClient.replay)
    health = blocking(AsyncClient.health)
    config = blocking(AsyncClient.config)
