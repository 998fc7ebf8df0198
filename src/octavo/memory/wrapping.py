"""A client of the OpenAI SDK with a memory: each call is told what is remembered, and what was said in it is kept."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Self, TypeAlias

import msgspec

from octavo.errors import ConfigError
from octavo.memory import messages as calls
from octavo.memory.keeping import Keeper, Options
from octavo.memory.memory import AsyncMemory, Memory
from octavo.memory.messages import ChatCall, Message, ModelCall, ResponsesCall
from octavo.util.user_code import catch_error

#: The resources of a client whose calls have memory, and how these are spelt.
_CALLS: dict[str, Callable[[dict[str, Any]], ModelCall]] = {
    "chat.completions": ChatCall,
    "beta.chat.completions": ChatCall,
    "responses": ResponsesCall,
    "beta.responses": ResponsesCall,
}
#: What ends with a client: also the memory that was opened for it, the client alone, or nothing that it shares with others.
_Closes: TypeAlias = Literal["all", "client", "nothing"]
_UNREAD = "an answer was not understood, and is not kept"
_VERBS = ("create", "parse", "stream")
_DRAINING = ("until_done", "get_final_completion", "get_final_response")


def with_memory(
    client: Any,
    *,
    user_id: str | None = None,
    session_id: str | None = None,
    agent_id: str | None = None,
    memory: Memory | AsyncMemory | str | None = None,
    max_tokens: int = 800,
    timeout_seconds: float = 2.0,
) -> "MemoryClient":
    """A client that is used like the given one, `openai.OpenAI`, `openai.AsyncOpenAI` or of their shape, and remembers.

    `memory` is one of yours, which stays open, or the URL of a store; without it, `Memory()`. A call waits at most
    `timeout_seconds` for what is remembered, and takes `max_tokens` of it. The given client is not changed.
    """
    options = Options(
        user_id=user_id,
        agent_id=agent_id,
        session_id=session_id,
        max_tokens=max_tokens,
        timeout_seconds=timeout_seconds,
    )
    inner = client._inner if type(client) is MemoryClient else client  # noqa: SLF001 - its own
    # On the class first: the SDK makes its parts, and imports much, when they are asked for.
    has_calls = any(hasattr(each, name) for each in (type(inner), inner) for name in ("chat", "responses"))
    if isinstance(inner, type) or not has_calls:
        given = f"the class {inner.__name__}" if isinstance(inner, type) else f"a {type(inner).__name__}"
        raise TypeError(
            f"with_memory takes a client such as OpenAI(), with chat.completions or responses; got {given}"
        )
    if isinstance(memory, AsyncMemory) and not _is_async(inner):
        raise ConfigError(
            "an AsyncMemory cannot serve a client that blocks; give a Memory or the URL of its store"
        )
    if isinstance(memory, Memory | AsyncMemory):
        return MemoryClient(inner, Keeper(memory), options, closes="client")
    return MemoryClient(inner, Keeper(Memory(memory)), options, closes="all")


class _Turn:
    """One call: what is asked of memory before it, and what is kept after it."""

    def __init__(self, call: ModelCall, keeper: Keeper, options: Options) -> None:
        self.call = call
        self._keeper, self._options = keeper, options
        self._talk: list[Message] = []
        self._asks = self._kept = False
        with keeper.log_errors("the messages of a call were not understood"):
            messages = call.messages()
            self._talk = calls.drop_instructions(messages)
            self._asks = bool(self._talk) and not calls.has_memory(messages)

    def ask(self) -> None:
        """Put in what is remembered."""
        if self._asks:
            self._put(self._keeper.context(*self._question()))

    async def aask(self) -> None:
        """The same, awaited."""
        if self._asks:
            self._put(await self._keeper.acontext(*self._question()))

    def _question(self) -> tuple[str, list[str], Options]:
        return calls.question(self._talk), calls.texts_of(self._talk), self._options

    def _put(self, block: str) -> None:
        with self._keeper.log_errors("a call is made without memory"):
            if block:
                self.call.put(block)

    @contextmanager
    def keep_on_failure(self) -> Iterator[None]:
        """Whatever the API refuses, what the user said is kept."""
        try:
            yield
        except BaseException:
            self.keep()
            raise

    def keep_answer(self, answer: Any) -> Any:
        """The answer as the caller gets it: itself, or a stream that is listened to."""
        if self.call.kwargs.get("stream"):
            return (_AsyncStream if hasattr(answer, "__anext__") else _Stream)(answer, self)
        with self._keeper.log_errors(_UNREAD):
            self.call.receive(answer)
        self.keep()
        return answer

    def receive_piece(self, event: Any) -> None:
        """Listen to a piece of a streamed answer."""
        with self._keeper.log_errors(_UNREAD):
            self.call.receive_piece(event)

    def keep(self, *, later: bool = False) -> None:
        """Keep, once, what was said and what has been answered."""
        if self._kept:
            return
        self._kept = True
        answer: list[Message] = []
        with self._keeper.log_errors(_UNREAD):
            answer = self.call.answer()
        if self._talk:
            self._keeper.keep(self._talk, answer, self._options, later=later)


class _Proxy:
    """Something of the SDK that is used like itself; what is not said here is passed through."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._inner, name, value)

    @property  # type: ignore[misc]  # frameworks ask with isinstance what a client is
    def __class__(self) -> Any:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._inner), *dir(type(self))})

    def __repr__(self) -> str:
        return f"<{self._inner!r} with memory>"


class _AnyStream(_Proxy):
    """A stream whose pieces are listened to; at its end, or when it is left, what was received is kept."""

    __slots__ = ("_turn",)

    def __init__(self, inner: Any, turn: _Turn) -> None:
        super().__init__(inner)
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return functools.partial(self._drain, value) if name in _DRAINING else value

    def _drain(self, method: Callable[[], Any]) -> Any:
        """What a method answers that would otherwise read to the end unheard."""
        raise NotImplementedError

    def _listen(self, event: Any) -> Any:
        self._turn.receive_piece(event)
        return event

    def close(self) -> Any:
        """Leave the stream; of an async one, to be awaited."""
        self._turn.keep()
        return self._inner.close()

    def __del__(self) -> None:
        with catch_error():
            # The collector may have come in the middle of anything, with locks held that keeping needs.
            self._turn.keep(later=True)


class _Stream(_AnyStream):
    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            event = next(self._inner)
        except BaseException:  # the end is one
            self._turn.keep()
            raise
        return self._listen(event)

    def _drain(self, method: Callable[[], Any]) -> Any:
        for _ in self:
            pass
        answer = method()
        return self if answer is self._inner else answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _AsyncStream(_AnyStream):
    __slots__ = ()
    aclose = _AnyStream.close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            event = await anext(self._inner)
        except BaseException:  # the end is one
            self._turn.keep()
            raise
        return self._listen(event)

    async def _drain(self, method: Callable[[], Any]) -> Any:
        async for _ in self:
            pass
        answer = await method()
        return self if answer is self._inner else answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class _StreamManager:
    """What `.stream(…)` answers: `with` and `async with` begin the call."""

    def __init__(self, method: Callable[..., Any], turn: _Turn) -> None:
        self._method, self._turn = method, turn
        self._manager: Any = None

    def __enter__(self) -> _Stream:
        self._turn.ask()
        with self._turn.keep_on_failure():
            self._manager = self._method(**self._turn.call.kwargs)
            return _Stream(self._manager.__enter__(), self._turn)

    def __exit__(self, *exc: object) -> Any:
        self._turn.keep()
        return self._manager.__exit__(*exc)

    async def __aenter__(self) -> _AsyncStream:
        await self._turn.aask()
        with self._turn.keep_on_failure():
            self._manager = self._method(**self._turn.call.kwargs)
            return _AsyncStream(await self._manager.__aenter__(), self._turn)

    async def __aexit__(self, *exc: object) -> Any:
        self._turn.keep()
        return await self._manager.__aexit__(*exc)


class _Resource(_Proxy):
    """A part of a client on the way to calls that have memory."""

    __slots__ = ("_keeper", "_options", "_path")

    def __init__(self, inner: Any, keeper: Keeper, options: Options, path: str = "") -> None:
        super().__init__(inner)
        self._keeper, self._options, self._path = keeper, options, path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        path = f"{self._path}.{name}".lstrip(".")
        if name in _VERBS and self._path in _CALLS:
            return self._wrap_method(name, value)
        if any(f"{known}.".startswith(f"{path}.") for known in _CALLS):
            return _Resource(value, self._keeper, self._options, path)
        return value

    def _wrap_method(self, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method with memory; its keyword `octavo` names whose it is for this call, or is False for none."""

        def stream(*, octavo: Any = None, **kwargs: Any) -> Any:
            turn = self._turn(octavo, kwargs)
            return method(**kwargs) if turn is None else _StreamManager(method, turn)

        def call(*, octavo: Any = None, **kwargs: Any) -> Any:
            if (turn := self._turn(octavo, kwargs)) is None:
                return method(**kwargs)
            turn.ask()
            with turn.keep_on_failure():
                answer = method(**turn.call.kwargs)
            return turn.keep_answer(answer)

        async def acall(*, octavo: Any = None, **kwargs: Any) -> Any:
            if (turn := self._turn(octavo, kwargs)) is None:
                return await method(**kwargs)
            await turn.aask()
            with turn.keep_on_failure():
                answer = await method(**turn.call.kwargs)
            return turn.keep_answer(answer)

        awaited = inspect.iscoroutinefunction(inspect.unwrap(method))
        return functools.wraps(method)(stream if verb == "stream" else acall if awaited else call)

    def _turn(self, octavo: Any, kwargs: dict[str, Any]) -> _Turn | None:
        if octavo is False:
            return None
        known = msgspec.structs.asdict(self._options)
        if not isinstance(octavo, Mapping | None) or {*(octavo or ())} - {*known}:
            raise TypeError(f"octavo is a dict of {', '.join(known)}, or False for no memory; got {octavo!r}")
        options = Options(**known | dict(octavo)) if octavo else self._options
        return _Turn(_CALLS[self._path](kwargs), self._keeper, options)


class MemoryClient(_Resource):
    """A client with a memory; whatever is not about memory is the client's own."""

    __slots__ = ("_closes",)

    def __init__(self, inner: Any, keeper: Keeper, options: Options, *, closes: _Closes) -> None:
        super().__init__(inner, keeper, options)
        self._closes = closes

    def __getattr__(self, name: str) -> Any:
        if name not in ("with_options", "copy"):
            return super().__getattr__(name)
        made = getattr(self._inner, name)
        return lambda **options: self._make_sharing(made(**options), self._options)

    @property
    def memory(self) -> Memory | AsyncMemory:
        """Where it is remembered."""
        return self._keeper.memory

    def for_user(self, user_id: str, session_id: str | None = None) -> "MemoryClient":
        """The same client for somebody else; it shares the connections, and is closed with the first one."""
        options = msgspec.structs.asdict(self._options) | {"user_id": user_id, "session_id": session_id}
        return self._make_sharing(self._inner, Options(**options))

    def _make_sharing(self, client: Any, options: Options) -> "MemoryClient":
        return MemoryClient(client, self._keeper, options, closes="nothing")

    def flush(self) -> Any:
        """Wait until what was said is kept, ten seconds at most, and answer whether it is; to be awaited if the client is."""
        return self._keeper.aflush() if _is_async(self._inner) else self._keeper.flush()

    def close(self) -> Any:
        """Keep what was said, and close the client and the memory that was opened for it; to be awaited if the client is."""
        return self._aclose() if _is_async(self._inner) else self._close()

    def _close(self) -> None:
        try:
            self._keeper.flush()
            if self._closes == "all":
                self._keeper.close()
        finally:
            if self._closes != "nothing" and hasattr(self._inner, "close"):
                self._inner.close()

    async def _aclose(self) -> None:
        try:
            await self._keeper.aflush()
            if self._closes == "all":
                await asyncio.to_thread(self._keeper.close)
        finally:
            if self._closes != "nothing" and hasattr(self._inner, "close"):
                await self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._aclose()


def _is_async(client: Any) -> bool:
    blocks, awaits = (hasattr(client, name) for name in ("__enter__", "__aenter__"))
    if blocks is not awaits:
        return awaits
    # One of the SDK's shape only, such as a fake for tests: what is awaited says it.
    methods = ["close", *(f"{resource}.create" for resource in _CALLS)]
    return any(inspect.iscoroutinefunction(_get_inner(client, path)) for path in methods)


def _get_inner(client: Any, path: str) -> Any:
    return functools.reduce(lambda part, name: getattr(part, name, None), path.split("."), client)
