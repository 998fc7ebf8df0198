"""Vectors in Qdrant: a server's, or one that runs inside this process."""

import asyncio
import contextlib
import functools
import hashlib
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from octavo.errors import ConfigError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ids import short_name
from octavo.kernel.model import Scope
from octavo.kernel.ports import Entry, EntryKey, Near, Space, Vector
from octavo.stores.sql.urls import check_prefix, parse
from octavo.util.disk import make_folder
from octavo.vectors.base import BaseIndex, mismatch, round_score, trust_nearest

T = TypeVar("T")
MEMORY = ":memory:"
_SERVER_THREADS = 8  # calls of a server at once
_PART = 250  # points in one request, which a server takes up to 32 MiB of
_PAGE = 1000
_SCOPE_FIELDS = ("tenant", "user", "agent", "session")
_KEY_FIELDS = ["collection", "id", *_SCOPE_FIELDS, "digest"]


class _Missing(StoreError):  # noqa: N818
    """The Qdrant collection is not there."""


class _Exists(StoreError):  # noqa: N818
    """The Qdrant collection is there already."""


class QdrantIndex(BaseIndex):
    """One Qdrant collection for each space, and one that lists the spaces.

    `address` is a client, which is called in a thread and stays open; or where to find Qdrant: `http(s)://host:port`, a folder, or `:memory:`. A folder serves
    one process at a time. `hnsw_ef` is how many candidates a server looks at.
    """

    def __init__(
        self,
        address: QdrantClient | str,
        prefix: str = "",
        *,
        api_key: str | None = None,
        timeout: int = 30,
        hnsw_ef: int = 256,
    ) -> None:
        super().__init__()
        self._address = address
        self._api_key = api_key
        self._timeout = timeout
        self._hnsw_ef = hnsw_ef
        self._prefix = f"{check_prefix(prefix)}octavo_"
        self._list = f"{self._prefix}spaces"
        self._client: QdrantClient | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._local = False

    # Opening and calling.

    async def _open(self) -> None:
        """Make the client and its threads, which work for any event loop, one after the other."""
        if self._client is not None:
            return
        address = self._address
        remote = isinstance(address, str) and address.startswith(("http://", "https://"))
        self._threads = ThreadPoolExecutor(_SERVER_THREADS if remote else 1, "octavo-qdrant")
        try:
            self._client = await self._run(self._make_client) if isinstance(address, str) else address
            options = self._client.init_options
            self._local = options["location"] == MEMORY or options["path"] is not None
            await self._create(self._list, {})
        except BaseException:
            await self._close()
            raise

    def _make_client(self) -> QdrantClient:
        address = str(self._address)
        if address == MEMORY:
            return QdrantClient(location=address)
        if not address.startswith(("http://", "https://")):
            make_folder(Path(address))  # what Qdrant makes in it is by the umask, and behind this
            return QdrantClient(path=address)
        # The check would ask the server in a thread of its own, and only ever warns.
        return QdrantClient(
            url=address, api_key=self._api_key, timeout=self._timeout, check_compatibility=False
        )

    async def _leave(self) -> None:
        """Nothing: threads belong to no event loop."""

    async def _close(self) -> None:
        client, self._client = self._client, None
        if isinstance(self._address, str) and client is not None:
            await self._run(client.close)
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _call(self, verb: str, *args: Any, **options: Any) -> Any:
        return await self._run(functools.partial(getattr(self._client, verb), *args, **options))

    async def _run(self, work: Callable[[], T]) -> T:
        """What the client answers, in a thread, or it would hold up the event loop; its errors come out as Octavo's."""
        with _translate_errors(self._address if isinstance(self._address, str) else ""):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # Spaces.

    def _name(self, space: str) -> str:
        return self._prefix + short_name(space)

    async def _create(self, name: str, vectors: Any) -> None:
        with contextlib.suppress(_Exists):  # whoever came first
            await self._call("create_collection", name, vectors_config=vectors)

    async def _dimensions(self, space: str) -> int | None:
        """How long the vectors of a space are; None when there is no such space."""
        found = await self._call("retrieve", self._list, [_uuid(space)], with_payload=True)
        return found[0].payload["dimensions"] if found else None

    async def _make_space(self, space: str, dimensions: int) -> int:
        """Make a space and answer how long its vectors are: as another has made it, who perhaps came first."""
        name = self._name(space)
        await self._create(name, models.VectorParams(size=dimensions, distance=models.Distance.COSINE))
        if not self._local:  # which has no indexes, and would say so
            for field in (*_SCOPE_FIELDS, "scope_key", "collection"):
                schema = models.KeywordIndexParams(
                    type=models.KeywordIndexType.KEYWORD, is_tenant=True if field == "tenant" else None
                )
                await self._call("create_payload_index", name, field, field_schema=schema)
        info = await self._call("get_collection", name)
        made: int = info.config.params.vectors.size
        payload = {"name": space, "dimensions": made, "complete": False}
        point = models.PointStruct(id=_uuid(space), vector={}, payload=payload)
        await self._call("upsert", self._list, [point], wait=True)
        return made

    async def _spaces(self) -> list[Space]:
        spaces = []
        for listed in await self._scroll(self._list, True):
            entries = 0
            with contextlib.suppress(_Missing):
                entries = (await self._call("count", self._name(listed["name"]), exact=True)).count
            spaces.append(Space(**listed, entries=entries))
        return spaces

    async def _complete(self, space: str) -> None:
        if await self._dimensions(space) is not None:
            await self._call("set_payload", self._list, {"complete": True}, points=[_uuid(space)], wait=True)

    async def _forget(self, space: str) -> None:
        # From the list first, so that nobody is served by what is left when this is interrupted.
        await self._call("delete", self._list, models.PointIdsList(points=[_uuid(space)]), wait=True)
        with contextlib.suppress(_Missing):
            await self._call("delete_collection", self._name(space))

    # Entries.

    async def _put(self, space: str, entries: list[Entry]) -> None:
        got = len(entries[0].vector)
        kept = await self._dimensions(space) or await self._make_space(space, got)
        if kept != got:
            raise mismatch(space, kept, got)
        points = [_point(entry) for entry in entries]
        try:
            await self._upsert(space, points)
        except _Missing:  # another process has forgotten the space this very moment
            await self._make_space(space, got)
            await self._upsert(space, points)

    async def _upsert(self, space: str, points: list[models.PointStruct]) -> None:
        for start in range(0, len(points), _PART):
            await self._call("upsert", self._name(space), points[start : start + _PART], wait=True)

    async def _drop(self, space: str, keys: list[EntryKey]) -> None:
        with contextlib.suppress(_Missing):
            for start in range(0, len(keys), _PAGE):
                ids: list[Any] = [
                    _uuid(key.collection, key.id, key.scope_key) for key in keys[start : start + _PAGE]
                ]
                await self._call("delete", self._name(space), models.PointIdsList(points=ids), wait=True)

    async def _nearest(
        self, space: str, vector: Vector, scope: Scope, collections: list[str], limit: int
    ) -> list[Near]:
        kept = await self._dimensions(space)
        if kept is None:
            return []
        if kept != len(vector):
            raise mismatch(space, kept, len(vector))
        ask, found = limit + 16, None
        with contextlib.suppress(_Missing):  # forgotten this very moment
            while found is None:
                # In process all are compared, and asking for candidates would be warned about.
                params = None if self._local else models.SearchParams(hnsw_ef=max(self._hnsw_ef, ask))
                answer = await self._call(
                    "query_points",
                    self._name(space),
                    query=vector.tolist(),
                    query_filter=_make_filter(scope, collections),
                    limit=ask,
                    search_params=params,
                    with_payload=_KEY_FIELDS,
                )
                nearest = [Near(*_key(point.payload), round_score(point.score)) for point in answer.points]
                found = trust_nearest(nearest, ask, limit)
                ask *= 4
        return found or []

    async def _digest(self, space: str, key: EntryKey) -> str | None:
        named = [_uuid(key.collection, key.id, key.scope_key)]
        with contextlib.suppress(_Missing):
            for point in await self._call("retrieve", self._name(space), named, with_payload=_KEY_FIELDS):
                return _key(point.payload)[1]
        return None

    async def _walk(self, space: str, size: int) -> AsyncIterator[list[tuple[EntryKey, str]]]:
        try:
            # Qdrant reads in the order of its own ids, so all keys are gathered before the first page.
            found = sorted([_key(payload) for payload in await self._scroll(self._name(space), _KEY_FIELDS)])
        except _Missing:
            return
        for start in range(0, len(found), size):
            yield found[start : start + size]

    async def _scroll(self, name: str, fields: list[str] | bool) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        offset: Any = None
        while True:
            points, offset = await self._call(
                "scroll", name, limit=_PAGE, offset=offset, with_payload=fields, with_vectors=False
            )
            found += [point.payload or {} for point in points]
            if offset is None:
                return found


@contextlib.contextmanager
def _translate_errors(address: str) -> Iterator[None]:
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
        at = f" at {address}" if address else ""
        raise StoreUnavailable(f"Qdrant{at} cannot be reached: {cause}") from error
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
    key = entry.key
    payload = {field: getattr(key.scope, field) for field in _SCOPE_FIELDS}
    payload |= {
        "collection": key.collection,
        "id": key.id,
        "scope_key": key.scope_key,
        "digest": entry.digest,
    }
    vector = entry.vector.tolist()
    return models.PointStruct(id=_uuid(key.collection, key.id, key.scope_key), vector=vector, payload=payload)


def _key(payload: dict[str, Any]) -> tuple[EntryKey, str]:
    scope = Scope(**{field: payload[field] for field in _SCOPE_FIELDS})
    return EntryKey(payload["collection"], payload["id"], scope), payload["digest"]


def _make_filter(scope: Scope, collections: Sequence[str]) -> models.Filter:
    if scope.exact:
        given = {"scope_key": scope.key}
    else:
        parts = {field: getattr(scope, field) for field in _SCOPE_FIELDS}
        given = {field: value for field, value in parts.items() if value is not None}
    tests: list[Any] = [
        models.FieldCondition(key=field, match=models.MatchValue(value=value))
        for field, value in given.items()
    ]
    tests.append(models.FieldCondition(key="collection", match=models.MatchAny(any=list(collections))))
    return models.Filter(must=tests)


def open_qdrant(url: str) -> QdrantIndex:
    """Open `qdrant://host:port`, `qdrant+https://host:port?api_key=…`, `qdrant:///path/to/folder` or `qdrant://:memory:`."""
    transport = url.partition("://")[0].partition("+")[2].lower() or "http"
    if transport not in {"http", "https"}:
        raise ConfigError(
            f"qdrant+{transport}:// is no way to reach Qdrant; try qdrant:// or qdrant+https://"
        )
    parsed = parse(url.replace(f"://{MEMORY}", f":///{MEMORY}", 1))
    prefix, api_key = parsed.prefix(), parsed.option("api_key", None)
    timeout = parsed.option("timeout", 30, _parse_seconds)
    parsed.refuse_unknown("api_key, prefix, timeout")
    if parsed.host and not (parsed.user or parsed.password):
        host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
        address = f"{transport}://{host}:{parsed.port or 6333}{parsed.path.rstrip('/')}"
    elif parsed.path and not parsed.user:
        address = MEMORY if parsed.path == f"/{MEMORY}" else parsed.path
    else:
        raise ConfigError("a Qdrant server is named as in qdrant://host:6333?api_key=…")
    return QdrantIndex(address, prefix, api_key=api_key, timeout=timeout)


def _parse_seconds(spelled: str) -> int:
    if not (spelled.isascii() and spelled.isdigit() and int(spelled)):
        raise ValueError("a number of seconds from 1 on is needed")
    return int(spelled)
