"""Vectors in Qdrant: a server's, or one that runs inside this process."""

import asyncio
import contextlib
import hashlib
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from octavo.errors import ConfigError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, Vector
from octavo.util.file_modes import make_folder
from octavo.vectors.base import BaseIndex, checked_prefix, cosine, mismatch, settled
from octavo.vectors.names import short

T = TypeVar("T")
MEMORY = ":memory:"
_PART = 250  # points in one request, which a server takes up to 32 MiB of
_PAGE = 1000
_PARTS = ("tenant", "user", "agent", "session")
_TOLD = ["collection", "id", "place", "digest"]


class _Missing(StoreError):  # noqa: N818
    """The Qdrant collection is not there."""


class _Exists(StoreError):  # noqa: N818
    """The Qdrant collection is there already."""


class QdrantIndex(BaseIndex):
    """One Qdrant collection for each space, and one that lists the spaces.

    `place` is a client, which stays open; or where to find Qdrant: `http(s)://host:port`, a folder, or `:memory:`. A folder serves
    one process at a time. `hnsw_ef` is how many candidates a server looks at.
    """

    def __init__(
        self,
        place: AsyncQdrantClient | str,
        prefix: str = "",
        *,
        api_key: str | None = None,
        timeout: int = 30,
        hnsw_ef: int = 256,
    ) -> None:
        super().__init__()
        self._place = place
        self._api_key = api_key
        self._timeout = timeout
        self._hnsw_ef = hnsw_ef
        self._prefix = f"{checked_prefix(prefix)}octavo_"
        self._list = f"{self._prefix}spaces"
        self._client: AsyncQdrantClient
        self._aside: _Aside | None = None
        self._local = False
        self._left = False  # whether the client was used in an event loop that has ended
        self._known: dict[str, int] = {}  # space → dimensions

    # Opening and calling.

    async def _open(self) -> None:
        if self._aside is not None:  # its thread works for any event loop, one after the other
            return
        if not isinstance(self._place, str):
            self._client = self._place
        elif self._place.startswith(("http://", "https://")):
            # The check would ask the server in a thread of its own, and only ever warns.
            self._client = AsyncQdrantClient(
                url=self._place, api_key=self._api_key, timeout=self._timeout, check_compatibility=False
            )
        else:
            await self._open_aside(self._place)
        self._left = False
        options = self._client.init_options
        self._local = options["location"] == MEMORY or options["path"] is not None
        try:
            await self._create(self._list, {})
        except BaseException:
            await self._close()
            raise

    async def _open_aside(self, place: str) -> None:
        """In process, Qdrant works in Python: in a thread of its own, or it would hold up the event loop."""
        if place != MEMORY:
            make_folder(Path(place))  # what Qdrant makes in it is by the umask, and behind this
        self._aside = _Aside()
        where = {"location": place} if place == MEMORY else {"path": place}

        async def make() -> AsyncQdrantClient:
            return AsyncQdrantClient(**where)  # type: ignore[arg-type]

        try:
            with _translated():
                self._client = await self._aside.run(make())
        except BaseException:
            await self._aside.close()
            self._aside = None
            raise

    async def _leave(self) -> None:
        if self._aside is None:
            await self._close()

    def _abandon(self) -> None:
        self._left = True

    async def _close(self) -> None:
        if isinstance(self._place, str) and not (self._left and self._aside is None):
            await self._call(self._client.close())
        if self._aside is not None:
            await self._aside.close()

    async def _call(self, verb: Coroutine[Any, Any, T]) -> T:
        with _translated():
            return await (verb if self._aside is None else self._aside.run(verb))

    # Spaces.

    def _name(self, space: str) -> str:
        return self._prefix + short(space).replace("=", "")

    async def _create(self, name: str, vectors: Any) -> None:
        with contextlib.suppress(_Exists):  # whoever came first
            await self._call(self._client.create_collection(name, vectors_config=vectors))

    async def _make_space(self, space: str, dimensions: int) -> None:
        name = self._name(space)
        await self._create(name, models.VectorParams(size=dimensions, distance=models.Distance.COSINE))
        if not self._local:  # which has no indexes, and would say so
            for field in (*_PARTS, "place", "collection"):
                schema = models.KeywordIndexParams(
                    type=models.KeywordIndexType.KEYWORD, is_tenant=True if field == "tenant" else None
                )
                await self._call(self._client.create_payload_index(name, field, field_schema=schema))
        info = await self._call(self._client.get_collection(name))
        params = info.config.params.vectors
        # As it was made, perhaps by another who came first.
        made = params.size if isinstance(params, models.VectorParams) else dimensions
        await self._note(space, "space", {"name": space, "dimensions": made})

    async def _note(self, space: str, what: str, payload: dict[str, Any]) -> None:
        """Enter something about a space into the list; each fact is a point, so that no two writers undo each other."""
        point = models.PointStruct(id=_uuid(what, space), vector={}, payload={"what": what, **payload})
        await self._call(self._client.upsert(self._list, [point], wait=True))

    async def _dimensions(self, space: str) -> int | None:
        if space not in self._known:
            ids = [_uuid("space", space)]
            found = await self._call(self._client.retrieve(self._list, ids, with_payload=True))
            for point in found:
                self._known[space] = (point.payload or {})["dimensions"]
        return self._known.get(space)

    async def _on_space(
        self,
        space: str,
        got: int,
        work: Callable[[], Awaitable[T]],
        make: Callable[[], Awaitable[None]] | None,
    ) -> T | None:
        """Do some work with vectors of this length on a space that fits them, also when what was known of it is out of date."""
        for last in (False, True):
            if await self._dimensions(space) is None and make is not None:
                await make()
            kept = await self._dimensions(space)
            if kept is None:
                return None
            if kept != got:
                self._known.pop(space)
                if last or await self._dimensions(space) == kept:
                    raise mismatch(space, kept, got)
                continue
            try:
                return await work()
            except StoreUnavailable:
                raise
            except StoreError as error:
                self._known.pop(space)  # another process may have forgotten it, or made it anew
                if last:
                    if isinstance(error, _Missing) and make is None:
                        return None
                    raise
                if isinstance(error, _Missing) and make is not None:
                    await make()
        raise AssertionError  # unreachable

    # The verbs.

    async def _put(self, space: str, entries: list[Entry]) -> None:
        points = [_point(entry) for entry in entries]

        async def work() -> None:
            for start in range(0, len(points), _PART):
                part = points[start : start + _PART]
                await self._call(self._client.upsert(self._name(space), part, wait=True))

        got = len(entries[0].vector)
        await self._on_space(space, got, work, lambda: self._make_space(space, got))

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        with contextlib.suppress(_Missing):
            for start in range(0, len(keys), _PAGE):
                ids = [_uuid(key.collection, key.id, key.place) for key in keys[start : start + _PAGE]]
                selector = models.PointIdsList(points=ids)  # type: ignore[arg-type]
                await self._call(self._client.delete(self._name(space), selector, wait=True))

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        inside, asked = _inside(scope, collections), vector.tolist()

        async def fetch(count: int) -> list[Near]:
            # In process all are compared, and asking for candidates would be warned about.
            params = None if self._local else models.SearchParams(hnsw_ef=max(self._hnsw_ef, count))
            answer = await self._call(
                self._client.query_points(
                    self._name(space),
                    query=asked,
                    query_filter=inside,
                    limit=count,
                    search_params=params,
                    with_payload=_TOLD,
                )
            )
            return [Near(*_told(point.payload), cosine(point.score)) for point in answer.points]

        return await self._on_space(space, len(vector), lambda: settled(fetch, limit), None) or []

    async def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        try:
            # Qdrant reads in the order of its own ids, so all keys are gathered before the first page.
            found = sorted([_told(payload) for payload in await self._scroll(self._name(space), _TOLD)])
        except _Missing:
            return
        for start in range(0, len(found), size):
            yield found[start : start + size]

    async def _scroll(self, name: str, fields: list[str] | bool) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        offset: Any = None
        while True:
            points, offset = await self._call(
                self._client.scroll(name, limit=_PAGE, offset=offset, with_payload=fields, with_vectors=False)
            )
            found += [point.payload or {} for point in points]
            if offset is None:
                return found

    async def _spaces(self) -> list[Space]:
        facts = await self._scroll(self._list, True)
        complete = {fact["name"] for fact in facts if fact["what"] == "complete"}
        spaces = []
        for fact in facts:
            if fact["what"] != "space":
                continue
            name, entries = fact["name"], 0
            with contextlib.suppress(_Missing):
                entries = (await self._call(self._client.count(self._name(name), exact=True))).count
            spaces.append(
                Space(name=name, dimensions=fact["dimensions"], complete=name in complete, entries=entries)
            )
        return spaces

    async def _complete(self, space: str) -> None:
        self._known.pop(space, None)
        if await self._dimensions(space) is not None:
            await self._note(space, "complete", {"name": space})

    async def _forget(self, space: str) -> None:
        # First, so that nobody is served by what is left when this is interrupted.
        for what in ("complete", None, "space"):
            if what is None:
                with contextlib.suppress(_Missing):
                    await self._call(self._client.delete_collection(self._name(space)))
            else:
                selector = models.PointIdsList(points=[_uuid(what, space)])
                await self._call(self._client.delete(self._list, selector, wait=True))
        self._known.pop(space, None)


class _Aside:
    """A thread with an event loop of its own, which does one thing after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "octavo-qdrant")
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, verb: Coroutine[Any, Any, T]) -> T:
        try:
            answer = asyncio.get_running_loop().run_in_executor(self._thread, self._drive, verb)
        except RuntimeError:  # the thread has ended
            verb.close()
            raise
        return await answer

    def _drive(self, verb: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(verb)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown(wait=False)

    def _end(self) -> None:
        if self._loop is not None:
            self._loop.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except UnexpectedResponse as error:
        said = error.content.decode(errors="replace")[:300]
        if error.status_code == 404:
            raise _Missing(f"Qdrant: {said}") from error
        if error.status_code == 409:
            raise _Exists(f"Qdrant: {said}") from error
        if error.status_code in {401, 403}:
            raise ConfigError(f"Qdrant refuses the api_key: {said}") from error
        away = error.status_code is None or error.status_code == 429 or error.status_code >= 500
        raise (StoreUnavailable if away else StoreError)(f"Qdrant: {said}") from error
    except (ApiException, QdrantException) as error:  # nobody answered, or asked to be left alone for a while
        cause = getattr(error, "source", error)
        raise StoreUnavailable(f"Qdrant cannot be reached: {cause}") from error
    # From here on it is Qdrant in process, whose errors have no types of their own.
    except ValueError as error:
        kind = {"not found": _Missing, "already exists": _Exists}
        found = [type_ for words, type_ in kind.items() if words in str(error)]
        raise (found[0] if found else StoreError)(f"Qdrant: {error}") from error
    except RuntimeError as error:
        if "already accessed" in str(error):
            raise StoreUnavailable(f"Qdrant in process serves one process at a time: {error}") from error
        if "closed" in str(error) or "shutdown" in str(error):
            raise StoreClosed(f"Qdrant: {error}") from error
        raise StoreError(f"Qdrant: {error}") from error
    except (OSError, sqlite3.Error) as error:
        raise StoreUnavailable(f"Qdrant: {error}") from error


def _uuid(*parts: str) -> str:
    spelled = "".join([f"{len(part)}:{part}" for part in parts]).encode()
    return str(uuid.UUID(bytes=hashlib.blake2b(spelled, digest_size=16).digest()))


def _point(entry: Entry) -> models.PointStruct:
    key, scope = entry.key, entry.scope
    payload = {
        "collection": key.collection, "id": key.id, "place": key.place, "digest": entry.digest,
        "tenant": scope.tenant, "user": scope.user or "", "agent": scope.agent or "", "session": scope.session or "",
    }  # fmt: skip
    vector = entry.vector.tolist()
    return models.PointStruct(id=_uuid(key.collection, key.id, key.place), vector=vector, payload=payload)


def _told(payload: dict[str, Any] | None) -> tuple[EntryKey, str]:
    told = payload or {}
    return EntryKey(told["collection"], told["id"], told["place"]), told["digest"]


def _inside(scope: Scope, collections: Sequence[str]) -> models.Filter:
    parts = {part: getattr(scope, part) for part in _PARTS} if not scope.exact else {"place": scope.place}
    tests: list[Any] = [
        models.FieldCondition(key=name, match=models.MatchValue(value=value))
        for name, value in parts.items()
        if value is not None
    ]
    tests.append(models.FieldCondition(key="collection", match=models.MatchAny(any=list(collections))))
    return models.Filter(must=tests)


def open_qdrant(url: str) -> QdrantIndex:
    """Open `qdrant://host:port`, `qdrant+https://host:port?api_key=…`, `qdrant:///path/to/folder` or `qdrant://:memory:`."""
    scheme, _, rest = url.partition("://")
    bare, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    prefix, api_key = options.pop("prefix", ""), options.pop("api_key", None)
    timeout = options.pop("timeout", "30")
    if options:
        raise ConfigError(
            f"unknown option {', '.join(options)} in the qdrant URL; known: api_key, prefix, timeout"
        )
    if not (timeout.isascii() and timeout.isdigit() and int(timeout)):
        raise ConfigError(f"timeout={timeout} in the qdrant URL: a number of seconds from 1 on is needed")
    transport = scheme.partition("+")[2].lower() or "http"
    if transport not in {"http", "https"}:
        raise ConfigError(f"{scheme}:// is no way to reach Qdrant; try qdrant:// or qdrant+https://")
    if bare == MEMORY:
        place = MEMORY
    elif bare.startswith("/"):
        place = unquote(bare)
    else:
        place = f"{transport}://{_server(bare)}"
    return QdrantIndex(place, prefix, api_key=api_key, timeout=int(timeout))


def _server(bare: str) -> str:
    try:
        parts = urlsplit(f"//{bare}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"not the address of a Qdrant server: {error}") from None
    if not host or parts.username or parts.password:
        raise ConfigError("a Qdrant server is named as in qdrant://host:6333?api_key=…")
    return f"{f'[{host}]' if ':' in host else host}:{port or 6333}{parts.path.rstrip('/')}"
