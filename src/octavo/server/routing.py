"""How a request reaches its route: names in paths, parameters and bodies, and what its caller may see."""

import asyncio
import difflib
import json
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args

from fastapi import Depends, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from octavo.errors import NotFound
from octavo.kernel.codec import MAX_NAME_BYTES
from octavo.kernel.ports import ListsNames, Store
from octavo.layers import LayeredMemory
from octavo.layers.values import OwnerType
from octavo.memory import AsyncMemory
from octavo.server.access import Caller
from octavo.server.gate import CALLER, GONE, NOT_JSON, SLASH
from octavo.server.requests import MOST_UNKNOWN, WHOSE, WHOSE_MEMORIES, PathName, Prompted
from octavo.service.memory import AsyncMemoryService
from octavo.service.vault import Vault, existing_vault
from octavo.util.sync import let_others
from octavo.wraps.journal import Journal

if TYPE_CHECKING:
    from octavo.server.app import TenantMemories

#: Values in a body: each is made, checked and written several times, while everybody else waits.
_MOST_VALUES = 20_000


class Admitted(Request):
    """A request that was let in: who sent it, and what they may see."""

    @property
    def caller(self) -> Caller:
        """Who calls."""
        caller: Caller = self.scope[CALLER]
        return caller

    @property
    def tenant(self) -> str:
        """The tenant whose memory is the caller's."""
        return self.caller.tenant

    @property
    def memories(self) -> "TenantMemories":
        """The memories of every tenant of this server."""
        memories: TenantMemories = self.app.state.memories
        return memories

    @property
    def store(self) -> Store:
        """Where all of it is kept, of every tenant."""
        return self.memories.assembled.store

    @property
    def layers(self) -> LayeredMemory:
        """The profile and event memories of the tenant."""
        return self.memories.layers(self.tenant)

    @property
    def memory(self) -> AsyncMemory:
        """The front door of the tenant."""
        return AsyncMemory.from_layers(self.layers)

    @property
    def service(self) -> AsyncMemoryService:
        """The events and turns of the tenant."""
        return self.memories.service(self.tenant)

    @property
    def journal(self) -> Journal:
        """The failure queue, or NotFound."""
        journal = self.memories.assembled.journal
        if journal is None:
            raise NotFound("there is no failure queue: failure_queue.enabled is false")
        return journal

    @property
    def vault(self) -> Vault | None:
        """The documents, if there are any and they are the caller's: the files are of one tenant."""
        settings = self.memories.settings
        if not settings.vault.enabled or self.tenant != settings.service.tenant:
            return None
        return existing_vault(settings.vault.root_path, self.store, self.tenant)

    @property
    def page_bytes(self) -> int:
        """The most that a listing answers at once."""
        return self.memories.settings.server.max_page_bytes

    def user_id(self, named: str | None = None) -> str | None:
        """The user that this is about: the one that is named, or the only one whom the caller's key opens."""
        own = self.caller.user
        if own is not None and named not in (None, own):
            raise HTTPException(403, "this key opens the memory of another user; name that user, or nobody")
        return named if own is None else own

    def owner(self, user_id: str | None, agent_id: str | None) -> dict[str, Any]:
        """The user or the agent whose own memory is meant; an agent's belongs to no user, so a user's key does not open it."""
        if agent_id is not None:
            if self.user_id() is not None:
                raise HTTPException(403, "this key opens the memory of one user, and no agent's own")
            return {"agent_id": agent_id}
        if (user := self.user_id(user_id)) is None:
            raise refuse_request(f"Value error, {WHOSE_MEMORIES}", "body")
        return {"user_id": user}

    def check_everyone(self) -> None:
        """Refuse a question about everyone to whoever may not see them."""
        if not self.caller.admin:
            raise HTTPException(
                403, "to ask about everyone needs a key with admin access; or name whose memory it is"
            )

    def whose(self, body: Prompted) -> dict[str, Any]:
        """Whose memory is asked, as far as the caller's key opens it."""
        whose = {**body.whose, "user_id": self.user_id(body.user_id)}
        if not any(whose.values()):
            raise refuse_request(f"Value error, {WHOSE}", "body")
        return whose


def _find_owner(request: Admitted, memory_type: OwnerType, entity_id: PathName) -> dict[str, Any]:
    named = {"user": None, "agent": None, memory_type: entity_id}
    return request.owner(named["user"], named["agent"])


#: Of a path: whose memories, as `user_id` or `agent_id`, if the caller may see them.
OwnerInPath = Annotated[dict[str, Any], Depends(_find_owner)]


def require_names(store: Store) -> ListsNames:
    """The store, if it can list names."""
    if not isinstance(store, ListsNames):
        raise HTTPException(
            501, "the store of this server does not list names (octavo.kernel.ports.ListsNames)"
        )
    return store


def refuse_request(why: str, *where: str) -> RequestValidationError:
    """The error of a request of which a part does not fit."""
    return RequestValidationError([{"type": "value_error", "loc": where, "msg": why}])


class QuickRoute(APIRoute):
    """A route that FastAPI documents, and that reads and checks a request many times faster than FastAPI does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        fields = get_flat_params(self.dependant)
        parameters: type[BaseModel] = create_model(  # type: ignore[call-overload]
            f"{self.name}_parameters",
            __config__=ConfigDict(extra="forbid"),
            **{field.name: (field.field_info.annotation, field.field_info) for field in fields},
        )
        names = [field.name for field in fields]
        of_query = [name for name in names if name not in self.param_convertors]
        # What is made of some of them for the endpoint: its name, what makes it, and of which.
        made: list[tuple[Any, Any, list[str]]] = [
            (each.name, each.call, [field.name for field in get_flat_params(each)])
            for each in self.dependant.dependencies
        ]
        reads = self.methods == {"GET"}  # a change that was begun is made, whoever waits for it
        body = self.dependant.body_params[0].field_info if self.dependant.body_params else None
        kind: TypeAdapter[Any] | None = body and TypeAdapter(body.annotation)  # type: ignore[arg-type]
        bodies = () if body is None else (body.annotation, *get_args(body.annotation))
        fields_of_body = [name for each in bodies for name in getattr(each, "model_fields", ())]

        async def handle(plain: Request) -> Response:
            request = Admitted(plain.scope, plain.receive)
            query: Mapping[str, str] = request.query_params if request.scope["query_string"] else {}
            if len(query) > len(names) + MOST_UNKNOWN:
                unknown = [{"type": "extra_forbidden", "loc": ("parameters", name)} for name in query]
                raise RequestValidationError(unknown)
            if twice := [name for name in query if len(request.query_params.getlist(name)) > 1]:
                raise refuse_request("is given twice; keep one", "parameters", twice[0])
            # What the path says comes last: no query can stand in for it.
            given = validate(
                "parameters", parameters.model_validate, {**query, **request.scope["path_params"]}, of_query
            )
            values = {name: getattr(given, name) for name in names}
            for name, make, parts in made:
                values[name] = make(request=request, **{part: values.pop(part) for part in parts})
            if body is not None and kind is not None:
                values["body"] = await _read_body(request, kind, fields_of_body, needed=body.is_required())
            work = endpoint(request=request, **values)
            return await (_answer_unless_gone(work, request) if reads else work)

        return handle


async def _answer_unless_gone(work: Coroutine[Any, Any, Response], request: Request) -> Response:
    """The answer; for a caller who has gone away nothing more is read."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    reading, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await reading if reading.done() else Response(status_code=GONE)
    finally:
        leaving.cancel()
        reading.cancel()


async def _read_body(
    request: Request, kind: TypeAdapter[Any], known: Collection[str], *, needed: bool
) -> Any:
    """What a request says in its body; others have a turn before a long one is parsed, and after it."""
    raw = await request.body()
    if needed and not raw:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required"}])
    check_values(raw)
    await let_others(len(raw))
    if raw and not request.headers.get("content-type"):
        raise HTTPException(415, NOT_JSON)
    try:
        value = json.loads(raw, object_pairs_hook=_read_object) if raw else None
    except json.JSONDecodeError as error:
        wrong = error.msg.rstrip(": ").removesuffix(" at")
        raise HTTPException(
            400, f"the body cannot be read as JSON: {wrong} at character {error.pos}"
        ) from None
    except (ValueError, RecursionError):  # no UTF-8, a number of thousands of digits, thousands of brackets
        raise HTTPException(400, "the body cannot be read as JSON") from None
    found = validate("body", kind.validate_python, value, known)
    await let_others(len(raw))
    return found


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that has a name twice is refused, since the first value would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise HTTPException(400, f"the body names {twice[:80]!r} twice in one object; keep one")
    return found


def validate(where: str, check: Callable[[Any], Any], value: Any, known: Collection[str] = ()) -> Any:
    """What pydantic makes of a value; what does not fit is said to be in this part of the request.

    A name that is not known is told the nearest of those that are.
    """
    try:
        return check(value)
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False)
    wrong = []
    for each in told:
        near = []
        if each["type"] == "extra_forbidden" and len(each["loc"]) == 1:
            near = difflib.get_close_matches(str(each["loc"][0])[:MAX_NAME_BYTES].lower(), known, 1)
        wrong.append({**each, "loc": (where, *each["loc"]), "near": near})
    raise RequestValidationError(wrong)


def check_values(body: bytes) -> None:
    """Refuse a body of more values than others should wait for."""
    if not _has_few_values(body):
        raise HTTPException(400, f"a body may hold at most {_MOST_VALUES:,} values")


def _has_few_values(body: bytes) -> bool:
    """Whether a body of JSON has few enough values to be parsed, which is seen much sooner than they are made."""
    if _separators(body) <= _MOST_VALUES:
        return True
    # What stands inside a text makes no value: of a body without escaped quotes, every other part is a text.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(plain.split(b'"')[::2])
    return plain.count(b'"') <= 4 * _MOST_VALUES and _separators(outside) <= _MOST_VALUES


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


class NameConvertor(Convertor[str]):
    """Any text, a slash written as %2F included."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", "%2F")


class OwnerConvertor(NameConvertor):
    """`user` or `agent`; or a path with another word in this position would hide the routes that it belongs to."""

    regex = "user|agent"


register_url_convertor("name", NameConvertor())
register_url_convertor("owner", OwnerConvertor())
