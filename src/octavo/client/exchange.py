"""One exchange with the server: how a request is spelled, when it is sent again, and how its answer is read."""

import asyncio
import itertools
import json
import os
import random
from collections.abc import Mapping
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET

from octavo.errors import (
    AccessDenied,
    ConfigError,
    Conflict,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    OctavoError,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from octavo.kernel.model import to_utc
from octavo.util.disk import open_file
from octavo.util.secrets import mask_url
from octavo.util.system import import_extra
from octavo.util.user_code import Fixed

T = TypeVar("T")
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
NEW_CLIENT = "make another client for another server"
DEFAULT_URL = "http://127.0.0.1:8000"
LONGEST_WAIT_SECONDS = 30.0  # a server that wants more is not waited for: its error is the answer
_SHORTEST_WAIT_SECONDS = 0.1
_PASSING = {429, 502, 503, 504}
_ERRORS: dict[int, type[OctavoError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    409: Conflict,
    421: AccessDenied,  # without keys, the server answers its own machine alone
}


class Request(msgspec.Struct, frozen=True):
    """What goes out; `reads` says that repeating it changes nothing."""

    method: str
    path: str
    params: Mapping[str, str | int | float] = {}
    body: dict[str, Any] | None = None
    reads: bool = False
    keeps: bool = False  # something even when the store fails: then a 503 does not say that nothing was done
    also: tuple[int, ...] = ()  # statuses beside 2xx whose body is an answer all the same

    def content(self) -> bytes | None:
        """The body as JSON. What JSON cannot say is refused: msgspec alone makes null of NaN, and other text of bytes."""
        if self.body is None:
            return None
        try:
            plain = msgspec.to_builtins(
                self.body, builtin_types=(bytes, bytearray, memoryview), str_keys=True
            )
            return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            wrong = InvalidQuery if self.reads else InvalidRecord
            raise wrong(f"what is sent cannot be said in JSON: {error}") from None

    def pause_after(self, status: int, headers: Mapping[str, str], tried: int) -> float | None:
        """The seconds to wait before this is sent again, or None for an answer that stands."""
        if status not in _PASSING or status in self.also:
            return None
        wait = _seconds(headers.get("retry-after"))
        if wait is not None and wait > LONGEST_WAIT_SECONDS:
            return None
        # With that header the server says that it did nothing yet; without, it may be a proxy that does not know.
        undone = wait is not None and (status == 429 or (status == 503 and not self.keeps))
        if not (self.reads or undone):
            return None
        return backoff_seconds(tried) if wait is None else wait

    def error(self, status: int, body: bytes, server: str) -> OctavoError:
        """The error that an answer is."""
        detail = _detail(body) or f"the server answered {status}"
        sentence = f"{detail} ({self.method} {self.path}, status {status})"
        if status in _ERRORS:
            return _ERRORS[status](sentence)
        if status in _PASSING:
            return StoreUnavailable(f"{server}: {sentence}")
        if 400 <= status < 500:
            return InvalidQuery(sentence) if self.reads else InvalidRecord(sentence)
        return StoreError(f"{server}: {sentence}")


def backoff_seconds(tried: int) -> float:
    """How long to wait after so many tries; spread out, or clients that lost the same server would come back as one."""
    return _SHORTEST_WAIT_SECONDS * float(2**tried) * random.uniform(0.5, 1.5)  # noqa: S311


def _seconds(spelled: str | None) -> float | None:
    try:
        seconds = float(spelled or "")
    except ValueError:  # none, or a date, which Octavo never sends
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _detail(body: bytes) -> str:
    """What the server says is wrong, in one line."""
    try:
        detail = msgspec.json.decode(body, type=dict[str, Any]).get("detail", "")
    except msgspec.DecodeError:
        return ""
    return detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()


def check_url(given: str | None) -> str:
    """The address of a server: the given one, else OCTAVO_SERVER, else this machine; ConfigError if it is none."""
    if given is None:
        given = os.environ.get("OCTAVO_SERVER") or DEFAULT_URL
    try:
        parts = urlsplit(given)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "?" in given or "#" in given:
        raise ConfigError(f"base_url {mask_url(given)!r} is no address of a server; try {DEFAULT_URL}")
    return given.rstrip("/")


def check_key(given: str | None) -> str:
    """The API key: the given one, else OCTAVO_API_KEY, else none."""
    key = (os.environ.get("OCTAVO_API_KEY", "") if given is None else given).strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        # Said here, without the key: whoever builds the header would repeat it in his error.
        raise ConfigError("api_key holds characters that no header can carry; `octavo keys create` makes one")
    return key


def owner_path(user_id: str | None, agent_id: str | None) -> str:
    """The path of whose memory is meant."""
    if (user_id is None) == (agent_id is None):
        raise InvalidQuery(
            f"whose memory? give user_id or agent_id, and one of them; got {user_id!r}, {agent_id!r}"
        )
    return f"/memory/agent/{path_name(agent_id)}" if user_id is None else f"/memory/user/{path_name(user_id)}"


def path_name(given: str | None) -> str:
    """A name as one part of a path, whatever characters it holds."""
    if not given:
        raise InvalidQuery("an empty name names nothing")
    if not isinstance(given, str):
        raise InvalidQuery(f"a name is a string; got {given!r}")
    try:
        quoted = quote(given, safe="")
    except UnicodeEncodeError:
        raise InvalidQuery(f"{given!r} holds a character that UTF-8 cannot say") from None
    # A path is tidied on its way: these two would be taken for this folder and the one above.
    return quoted.replace(".", "%2E") if given in {".", ".."} else quoted


def drop_unset(**named: Any) -> dict[str, Any]:
    """What was given of a body, with times in UTC."""
    return {
        name: to_utc(value) if isinstance(value, datetime) else value
        for name, value in named.items()
        if value is not None and value is not UNSET
    }


def make_params(**named: Any) -> dict[str, str | int | float]:
    """What was given of a query, with times in UTC."""
    values = drop_unset(**named)
    return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in values.items()}


class Exchange:
    """One server and the way to it: requests are sent until they are answered or given up."""

    base_url: Fixed[str] = Fixed(NEW_CLIENT)

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
    ) -> None:
        self.base_url = check_url(base_url)
        headers = {"Content-Type": "application/json", "User-Agent": "octavo-client"}
        if key := check_key(api_key):
            headers["Authorization"] = f"Bearer {key}"
        if timeout <= 0:
            raise ConfigError(f"timeout must be more than 0 seconds; got {timeout}")
        if retries < 0:
            raise ConfigError(f"retries must be 0 or more; got {retries}")
        self._retries = retries
        self._closed = False
        self._server = mask_url(self.base_url)
        self._httpx = import_extra("httpx", "client", "the client")
        self._http = self._httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            timeout=timeout,
            trust_env=urlsplit(self.base_url).hostname not in _LOOPBACK,  # no proxy leads to this machine
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server!r})"

    async def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        self._closed = True
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _list(
        self,
        path: str,
        name: str,
        row: type[T],
        params: dict[str, str | int | float],
        most: int | None,
        *,
        page: int = 1000,
        backwards: bool = False,
    ) -> list[T]:
        """The rows of a listing, page by page: as many as were asked for, or `most`; each page may stand before the last.

        No more than `page` are asked for at once, which is what the server takes.
        """
        left = params.get("limit", most)
        if "limit" in params:
            params = {**params, "limit": min(int(params["limit"]), page)}
        rows: list[T] = []
        while True:
            told = await self._ask(Request("GET", path, params, reads=True), dict[str, msgspec.Raw])
            found = self._decode(told.get(name, b""), list[row])  # type: ignore[valid-type]
            rows = [*found, *rows] if backwards else [*rows, *found]
            if left is not None:
                left = int(left) - len(found)
                params = {**params, "limit": min(left, page)}
            if "next" not in told or (left is not None and left <= 0):
                return rows
            params = {**params, "after": self._decode(told["next"], str)}

    async def _read(self, path: str, answer: type[T]) -> T:
        """What is at a path."""
        return await self._ask(Request("GET", path, reads=True), answer)

    async def _download(self, path: str, params: dict[str, str], to: Path) -> int:
        """Write what is at a path to a file, piece by piece; the file has its name when it is whole. How many bytes."""
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another")
        part = to.with_name(f"{to.name}.part")
        try:
            async with self._http.stream("GET", path, params=params) as reply:
                if reply.status_code != 200:
                    asked = Request("GET", path)
                    raise asked.error(reply.status_code, await reply.aread(), self._server)
                with FileIO(part, "wb", opener=open_file) as file:
                    async for piece in reply.aiter_bytes():
                        file.write(piece)
                    size = file.tell()
        except self._httpx.RequestError as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreUnavailable(f"no whole answer from {self._server}: {reason}") from error
        part.replace(to)
        return size

    async def _ask(self, request: Request, answer: type[T]) -> T:
        """Send a request until it is answered or given up."""
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another")
        content = request.content()
        for tried in itertools.count():
            last = tried == self._retries
            try:
                reply = await self._http.request(
                    request.method, request.path, params=request.params or None, content=content
                )
            except self._httpx.RequestError as error:
                pause = self._pause_after_error(request, error, tried, last)
            else:
                again = request.pause_after(reply.status_code, reply.headers, tried)
                if again is None or last:
                    break
                pause = again
            await asyncio.sleep(pause)
        if reply.has_redirect_location:  # not followed: it may lead to somebody else, and would lose the body
            there = reply.headers["location"][:200]
            raise StoreError(f"{self._server} sends callers on to {there}; give the server there as base_url")
        if not (reply.is_success or reply.status_code in request.also):
            raise request.error(reply.status_code, reply.content, self._server)
        return self._decode(reply.content, answer)

    def _pause_after_error(self, request: Request, error: Exception, tried: int, last: bool) -> float:
        """The seconds to wait after a try that got no answer; StoreUnavailable when there is no other."""
        httpx = self._httpx
        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        harmless = unsent or request.reads
        if harmless and not last:
            return backoff_seconds(tried)
        doubt = "" if harmless else "; whether the change was made is not known"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreUnavailable(f"no answer from {self._server}: {reason}{doubt}") from error

    def _decode(self, body: bytes | msgspec.Raw, answer: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self._server} gave an answer that this client cannot read ({error}); is it an Octavo server?"
            ) from error
