"""The conversation an agent is in, and the middlewares that see what is said in it and may change that."""

import inspect
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from octavo.errors import ConfigError, InvalidRecord
from octavo.kernel.ids import now

MAX_SESSION_BYTES = 255  # what every store keeps


class AgentContext(msgspec.Struct, kw_only=True):
    """One conversation. `messages` are what the model is shown before the next one, without the system prompt."""

    session_id: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    user_id: str | None = None
    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    created_at: datetime = msgspec.field(default_factory=now)

    def __post_init__(self) -> None:
        checked_name("session_id", self.session_id)
        if self.user_id is not None:
            checked_name("user_id", self.user_id)


def checked_name(what: str, name: str) -> str:
    """A name that every store can keep, or InvalidRecord: found out here, it does not cost the events of a whole run."""
    if not isinstance(name, str) or not name:
        raise InvalidRecord(f"{what} must be a text that is not empty; got {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidRecord(f"{what} holds half a surrogate pair: {name[:40]!r}") from None
    if "\0" in name or size > MAX_SESSION_BYTES:
        raise InvalidRecord(
            f"{what} must have at most {MAX_SESSION_BYTES} bytes and no NUL character; got {name[:40]!r}"
        )
    return name


_CURE = "give it a pre(message, context) or post(response, context) method, async or not, that answers the text or None"


class Middleware:
    """A base to write one on: override `pre`, `post` or both, as a plain or an async method.

    Any object with such a method is as good. A hook that answers None leaves the text as it is, and may leave out
    `context` if it does not need it.
    """

    def pre(self, message: str, context: AgentContext) -> Any:  # noqa: ARG002 - for subclasses
        """The message as the model is to see it."""
        return message

    def post(self, response: str, context: AgentContext) -> Any:  # noqa: ARG002
        """The response as the caller is to see it."""
        return response


class Layer:
    """A middleware as the agent runs it: a name for the record, and the hooks it really has."""

    def __init__(self, middleware: Any) -> None:
        self.middleware = middleware
        self.pre = _hook(middleware, "pre")
        self.post = _hook(middleware, "post")
        if isinstance(middleware, type) or (self.pre is None and self.post is None):
            raise ConfigError(f"{middleware!r} is no middleware; {_CURE}")
        name = getattr(middleware, "name", None)
        self.name = name if isinstance(name, str) and name else type(middleware).__name__


def make_layers(middlewares: Iterable[Any] | None) -> list[Layer]:
    """The middlewares of an agent, or ConfigError naming the one that is none."""
    return [Layer(middleware) for middleware in middlewares or ()]


async def run_hook(hook: Callable[..., Any], text: str, context: AgentContext) -> str:
    """The text after a hook has seen it."""
    answer = hook(text, context) if _takes_context(hook) else hook(text)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        return text
    if not isinstance(answer, str):
        raise TypeError(f"a middleware must answer a text or None; got {type(answer).__name__}")
    return answer


def _hook(middleware: Any, name: str) -> Callable[..., Any] | None:
    hook: Callable[..., Any] | None = getattr(middleware, name, None)
    if not callable(hook) or getattr(hook, "__func__", hook) is getattr(Middleware, name):
        return None
    return hook


def _takes_context(hook: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):  # built-in functions have no signature to read
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)
