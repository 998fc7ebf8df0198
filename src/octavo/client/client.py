"""The two clients: the same calls, one of them blocking and one awaited."""

import asyncio
import functools
import inspect
import os
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast, get_args
from urllib.parse import urlsplit

import msgspec

from octavo.client.calls import Calls
from octavo.client.exchange import Asked, Listing, Tries
from octavo.errors import ConfigError, StoreClosed
from octavo.util.attributes import Fixed
from octavo.util.secrets import shown

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_URL = "http://127.0.0.1:8000"
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class _Reached:
    """Which server is called, with which key and how patiently; what both clients are made of."""

    base_url: Fixed[str] = Fixed("make another client for another server")

    def __init__(self, base_url: str | None, api_key: str | None, timeout: float, retries: int) -> None:
        self.base_url = _checked_url(base_url)
        self._key = _checked_key(api_key)
        if timeout <= 0:
            raise ConfigError(f"timeout must be more than 0 seconds; got {timeout}")
        if retries < 0:
            raise ConfigError(f"retries must be 0 or more; got {retries}")
        self._timeout = timeout
        self._retries = retries
        self._closed = False
        self._calls = Calls()
        self._where = shown(self.base_url)
        self._httpx = _httpx()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where!r})"

    def _options(self) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "User-Agent": "octavo-client"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # No proxy leads to this machine's own loopback.
        outside = urlsplit(self.base_url).hostname not in _LOOPBACK
        return {
            "base_url": self.base_url,
            "headers": headers,
            "timeout": self._timeout,
            "trust_env": outside,
        }

    def _sendable(self, asked: Asked[Any]) -> dict[str, Any]:
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another")
        content = None if asked.body is None else msgspec.json.encode(asked.body)
        return {
            "method": asked.method,
            "url": asked.path,
            "params": asked.params or None,
            "content": content,
        }

    def _failed(self, tries: Tries[Any], error: "httpx.RequestError") -> float:
        httpx = self._httpx
        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return tries.failed(error, unsent=unsent)


def _blocking(call: Callable[Concatenate[Calls, P], Asked[T]]) -> "Callable[Concatenate[Client, P], T]":
    @functools.wraps(call)
    def send(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(call(self._calls, *args, **kwargs))

    return _signed(send, call)


def _awaiting(
    call: Callable[Concatenate[Calls, P], Asked[T]],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    @functools.wraps(call)
    async def send(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(call(self._calls, *args, **kwargs))

    return _signed(send, call)


def _signed(send: F, call: Callable[..., Any]) -> F:
    """Show what the caller gets: the answer, not the request that `call` makes."""
    signature = inspect.signature(call)
    answer = get_args(signature.return_annotation)[0]
    send.__signature__ = signature.replace(return_annotation=answer)  # type: ignore[attr-defined]
    send.__annotations__ = {**call.__annotations__, "return": answer}
    return send


class Client(_Reached):
    """The server's memory, for callers who block; threads may share it.

    Without arguments the server is OCTAVO_SERVER, else the one on this machine, and the key is OCTAVO_API_KEY.
    `timeout` is in seconds and for each try; of what is safe to repeat there are `retries` more tries.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
    ) -> None:
        super().__init__(base_url, api_key, timeout, retries)
        self._http = self._httpx.Client(**self._options())

    def _send(self, asked: Asked[T]) -> T:
        answer = self._exchange(asked)
        if not asked.listed:
            return answer
        listing = Listing(asked)
        while (more := listing.take(answer)) is not None:
            answer = self._exchange(more)
        return cast("T", listing.rows)

    def _exchange(self, asked: Asked[T]) -> T:
        request, tries = self._sendable(asked), Tries(asked, self._retries, self._where)
        while True:
            try:
                reply = self._http.request(**request)
            except self._httpx.RequestError as error:
                pause: float | None = self._failed(tries, error)
            else:
                pause = tries.answered(reply.status_code, reply.headers)
                if pause is None:
                    return tries.read(reply.status_code, reply.content)
            time.sleep(pause or 0)

    def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        self._closed = True
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    remember = _blocking(Calls.remember)
    extract = _blocking(Calls.extract)
    profile = _blocking(Calls.profile)
    events = _blocking(Calls.events)
    get = _blocking(Calls.get)
    history = _blocking(Calls.history)
    logs = _blocking(Calls.logs)
    revise = _blocking(Calls.revise)
    forget = _blocking(Calls.forget)
    undo = _blocking(Calls.undo)
    query = _blocking(Calls.query)
    append_event = _blocking(Calls.append_event)
    recent_events = _blocking(Calls.recent_events)
    turns = _blocking(Calls.turns)
    sessions = _blocking(Calls.sessions)
    stats = _blocking(Calls.stats)
    queue = _blocking(Calls.queue)
    replay = _blocking(Calls.replay)
    health = _blocking(Calls.health)
    config = _blocking(Calls.config)


class AsyncClient(_Reached):
    """The server's memory, for callers who await; the same calls and settings as `Client`."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
    ) -> None:
        super().__init__(base_url, api_key, timeout, retries)
        self._http = self._httpx.AsyncClient(**self._options())

    async def _send(self, asked: Asked[T]) -> T:
        answer = await self._exchange(asked)
        if not asked.listed:
            return answer
        listing = Listing(asked)
        while (more := listing.take(answer)) is not None:
            answer = await self._exchange(more)
        return cast("T", listing.rows)

    async def _exchange(self, asked: Asked[T]) -> T:
        request, tries = self._sendable(asked), Tries(asked, self._retries, self._where)
        while True:
            try:
                reply = await self._http.request(**request)
            except self._httpx.RequestError as error:
                pause: float | None = self._failed(tries, error)
            else:
                pause = tries.answered(reply.status_code, reply.headers)
                if pause is None:
                    return tries.read(reply.status_code, reply.content)
            await asyncio.sleep(pause or 0)

    async def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        self._closed = True
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    remember = _awaiting(Calls.remember)
    extract = _awaiting(Calls.extract)
    profile = _awaiting(Calls.profile)
    events = _awaiting(Calls.events)
    get = _awaiting(Calls.get)
    history = _awaiting(Calls.history)
    logs = _awaiting(Calls.logs)
    revise = _awaiting(Calls.revise)
    forget = _awaiting(Calls.forget)
    undo = _awaiting(Calls.undo)
    query = _awaiting(Calls.query)
    append_event = _awaiting(Calls.append_event)
    recent_events = _awaiting(Calls.recent_events)
    turns = _awaiting(Calls.turns)
    sessions = _awaiting(Calls.sessions)
    stats = _awaiting(Calls.stats)
    queue = _awaiting(Calls.queue)
    replay = _awaiting(Calls.replay)
    health = _awaiting(Calls.health)
    config = _awaiting(Calls.config)


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ConfigError("the client needs the package httpx: pip install 'octavo[client]'") from error
    return httpx


def _checked_url(given: str | None) -> str:
    if given is None:
        given = os.environ.get("OCTAVO_SERVER") or DEFAULT_URL
    try:
        parts = urlsplit(given)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "?" in given or "#" in given:
        raise ConfigError(f"base_url {shown(given)!r} is no address of a server; try {DEFAULT_URL}")
    return given.rstrip("/")


def _checked_key(given: str | None) -> str:
    key = (os.environ.get("OCTAVO_API_KEY", "") if given is None else given).strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        # Said here, without the key: whoever builds the header would repeat it in his error.
        raise ConfigError("api_key holds characters that no header can carry; `octavo keys create` makes one")
    return key
