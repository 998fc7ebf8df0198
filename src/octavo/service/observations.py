"""What an agent's world tells it: observations with their payloads, and what the gate decides about each."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Self, TypeAlias

import msgspec
from msgspec import field

from octavo.errors import InvalidRecord
from octavo.kernel.ids import new_id, now


class _Word(StrEnum):
    """A word that answers to its value and to its name, in any case."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


class ObservationType(_Word):
    """What sort of thing was observed."""

    MESSAGE = "message"
    WORLD_DATA = "world_data"
    ALERT = "alert"
    CONTROL = "control"
    SCHEDULE = "schedule"
    SYSTEM = "system"


class GateAction(_Word):
    """What becomes of an observation: forgotten by the agent, noted, or handed to it."""

    DROP = "drop"
    SINK = "sink"
    DELIVER = "deliver"


class MessagePayload(msgspec.Struct):
    """Somebody said something."""

    text: str = ""
    attachments: list[Any] = []
    extra: dict[str, Any] = {}


class WorldDataPayload(msgspec.Struct):
    """A reading of the world: weather, prices, the state of a room."""

    data: dict[str, Any] = {}
    schema_id: str = ""


class AlertPayload(msgspec.Struct):
    """Something needs attention."""

    message: str = ""
    alert_type: str = ""
    severity: str = "warning"
    data: dict[str, Any] = {}


class ControlPayload(msgspec.Struct):
    """An order to the agent's own machinery."""

    command: str = ""
    data: dict[str, Any] = {}


class SchedulePayload(msgspec.Struct):
    """A moment that was waited for has come."""

    schedule_id: str = ""
    due_at: datetime | None = None
    data: dict[str, Any] = {}


class SystemPayload(msgspec.Struct):
    """The system speaks about itself: started, stopping, reloaded."""

    event: str = ""
    data: dict[str, Any] = {}


Payload: TypeAlias = (
    MessagePayload
    | WorldDataPayload
    | AlertPayload
    | ControlPayload
    | SchedulePayload
    | SystemPayload
    | dict[str, Any]
)


class Observation(msgspec.Struct):
    """One thing observed. `obs_id` names it within its session: observed twice, it is remembered once."""

    obs_type: ObservationType
    payload: Payload
    source_name: str = ""
    session_key: str = "default"
    actor: str | None = None
    obs_id: str = field(default_factory=lambda: new_id("obs_"))
    timestamp: datetime = field(default_factory=now)
    metadata: dict[str, Any] = {}


class GateResult(msgspec.Struct, frozen=True):
    """The gate's decision about one observation, and why."""

    action: GateAction
    reasons: list[str] = []
    score: float | None = None
    metadata: dict[str, Any] = {}


def held_by(obs: Any) -> dict[str, Any]:
    """Everything an observation holds, by name: a mapping's keys, an object's fields but those named with an underscore."""
    if isinstance(obs, Mapping):
        return {str(name): value for name, value in obs.items()}
    names = [
        name
        for kind in type(obs).__mro__
        for name, member in vars(kind).items()
        if inspect.ismemberdescriptor(member)
    ]
    held = {name: getattr(obs, name) for name in (*names, *getattr(obs, "_fields", ())) if hasattr(obs, name)}
    # What pydantic did not know either is in `model_extra`.
    held |= {**getattr(obs, "__dict__", {}), **(getattr(obs, "model_extra", None) or {})}
    return {name: value for name, value in held.items() if not name.startswith("_")}


def plain(what: str, value: Any) -> Any:
    """The value as JSON would say it, sharing nothing with it; what JSON cannot say is InvalidRecord."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_said)
    except RecursionError:
        raise InvalidRecord(f"{what} is nested too deep, or holds itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRecord(f"{what} cannot be written as JSON: {error}") from None


def _said(value: Any) -> Any:
    """What a caller's own class has to say: observations come from other people's programs too."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return dict(value)
    for name in ("model_dump", "to_dict"):
        method: Callable[[], Any] | None = getattr(value, name, None)
        if callable(method):
            return method()
    if not isinstance(value, type) and (held := getattr(value, "__dict__", None)):
        return {name: inner for name, inner in held.items() if not name.startswith("_")}
    raise TypeError(f"{type(value).__name__} has no fields that could be written down")
