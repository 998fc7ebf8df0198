"""What the service takes and gives: observations and what the gate decides, events and turns, and how each is kept as a record."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self, TypeAlias

import msgspec
from msgspec import field

from octavo.errors import InvalidRecord
from octavo.kernel.codec import is_name
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Change, Query, Record, Scope, to_utc
from octavo.kernel.ports import WriteStatus
from octavo.kernel.text import leaves

EVENTS = "observations"
TURNS = "turns"


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
    """One thing observed. `obs_id` names it within its session: observed twice, it is remembered once.

    `user_id` is the user it is remembered for; without one that is the `actor`, and with "" nobody.
    """

    obs_type: ObservationType
    payload: Payload
    source_name: str = ""
    session_key: str = "default"
    actor: str | None = None
    obs_id: str = field(default_factory=lambda: new_id("obs_"))
    timestamp: datetime = field(default_factory=now)
    metadata: dict[str, Any] = {}
    user_id: str | None = None


class GateResult(msgspec.Struct, frozen=True):
    """The gate's decision about one observation, and why."""

    action: GateAction
    reasons: list[str] = []
    score: float | None = None
    metadata: dict[str, Any] = {}


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One observation as it is remembered."""

    event_id: str
    session_key: str
    obs_id: str
    obs_type: str
    payload: Any
    source_name: str = ""
    actor: Any = None
    gate_result: Any = None
    metadata: dict[str, Any] = {}  # the observation's own, as it was when it was appended
    extra: dict[str, Any] = {}  # what else the observation held, by name
    meta: dict[str, Any] = {}  # the caller's
    timestamp: datetime  # when it was observed
    created_at: datetime  # when it was appended; events are in this order
    status: WriteStatus = "stored"  # whether the store has it already
    user_id: str | None = None  # whose it is

    @property
    def ts(self) -> float:
        """`created_at` in seconds since 1970, as mk2 has it."""
        return self.created_at.timestamp()

    @property
    def gate(self) -> Any:
        """`gate_result`, by mk2's name."""
        return self.gate_result

    @property
    def obs(self) -> Observation:
        """The observation as an object, by mk2's name; what it held beside an observation's fields is in `extra`."""
        kind: Any = self.obs_type
        kind = ObservationType(kind) if kind in {*ObservationType} else kind
        payload, made = self.payload, _PAYLOADS.get(kind)
        if made is not None and isinstance(payload, dict) and {*payload} <= {*made.__struct_fields__}:
            payload = msgspec.convert(payload, made)
        return Observation(
            obs_type=kind,
            payload=payload,
            source_name=self.source_name,
            session_key=self.session_key,
            actor=self.actor,
            obs_id=self.obs_id,
            timestamp=self.timestamp,
            metadata=self.metadata,
            user_id=self.user_id,
        )


_PAYLOADS: dict[Any, Any] = {
    ObservationType.MESSAGE: MessagePayload,
    ObservationType.WORLD_DATA: WorldDataPayload,
    ObservationType.ALERT: AlertPayload,
    ObservationType.CONTROL: ControlPayload,
    ObservationType.SCHEDULE: SchedulePayload,
    ObservationType.SYSTEM: SystemPayload,
}


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the agent: what set it off, and how it ended."""

    turn_id: str
    session_key: str
    input_event_id: str
    plan: Any = None
    status: str = "running"
    final_output_obs_id: str | None = None
    error: str | None = None
    meta: dict[str, Any] = {}
    created_at: datetime
    finished_at: datetime | None = None
    written: WriteStatus = "stored"  # whether the store has it already
    user_id: str | None = None  # whose it is

    @property
    def started_ts(self) -> float:
        """`created_at` in seconds since 1970, as mk2 has it."""
        return self.created_at.timestamp()

    @property
    def finished_ts(self) -> float | None:
        """`finished_at` in seconds since 1970, as mk2 has it."""
        return None if self.finished_at is None else self.finished_at.timestamp()

    @property
    def tool_calls(self) -> list[Any]:
        """The calls of tools that `meta` tells of, where mk2's are brought along."""
        return list(self.meta.get("tool_calls") or ())

    @property
    def tool_results(self) -> list[Any]:
        """What those calls came to."""
        return list(self.meta.get("tool_results") or ())


def event_id(session_key: str, obs_id: str) -> str:
    """The id of an observation's event: the same observation in the same session always has the same."""
    # The length in front keeps ("ab", "c") and ("a", "bc") apart.
    spelled = f"{len(session_key)}:{session_key}{obs_id}"
    return f"evt_{hashlib.blake2b(spelled.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def user_of(obs: Any) -> str | None:
    """Whose an observation is: its user's, or else its actor's if that is a name; "" when it says that it is nobody's."""
    user_id, actor = _read_field(obs, "user_id"), _read_field(obs, "actor")
    if user_id is not None:
        return user_id if isinstance(user_id, str) else None
    return actor if isinstance(actor, str) and is_name(actor) else None


def _read_field(obs: Any, name: str) -> Any:
    """What a mapping, or any object with an observation's attributes, says of this."""
    return obs[name] if isinstance(obs, Mapping) and name in obs else getattr(obs, name, None)


def event_to_record(
    obs: Any, scope: Scope, gate_result: Any, meta: dict[str, Any] | None, at: datetime
) -> Record:
    """The record of an observation; any object with an observation's attributes is one, and so is a mapping.

    It is the user's whom the scope names, or else whose the observation says it is.
    """
    held = fields_of(obs)
    if scope.user is None:
        scope = msgspec.structs.replace(scope, user=user_of(obs))
    payload = to_plain("payload", _read_field(obs, "payload"))
    kind = to_plain("obs_type", _read_field(obs, "obs_type"))
    if kind is None:
        raise InvalidRecord(
            'an event is made of an observation, such as Observation(ObservationType.MESSAGE, MessagePayload("hello")), '
            f"or of what has its obs_type and payload; got {obs!r:.80}"
        )
    if not isinstance(kind, str) or not kind:
        raise InvalidRecord(
            f"obs_type must be an ObservationType or a word; got {kind!r} of a {type(obs).__name__}"
        )
    obs_id = _read_field(obs, "obs_id") or new_id("obs_")
    observed_at = _read_field(obs, "timestamp")
    metadata = to_plain("metadata", _read_field(obs, "metadata") or {})
    if not isinstance(metadata, dict):
        raise InvalidRecord(f"the metadata of an observation must be a dict; got {metadata!r:.80}")
    data = {
        "obs_id": str(obs_id),
        "source_name": str(_read_field(obs, "source_name") or ""),
        "actor": to_plain("actor", _read_field(obs, "actor")),
        "payload": payload,
        "gate_result": to_plain("gate_result", gate_result),
        "metadata": metadata,
        "timestamp": _format_time(observed_at) if observed_at is not None else at.isoformat(),
    }
    if extra := {
        name: to_plain(f"{name!r} of the observation", value)
        for name, value in held.items()
        if name not in Observation.__struct_fields__
        or (name == "user_id" and not isinstance(value, str | None))
    }:
        data["extra"] = extra
    return Record(
        collection=EVENTS,
        id=event_id(scope.session or "", str(obs_id)),
        kind=kind,
        scope=scope,
        text=_text(payload),
        data=data,
        metadata=to_plain("meta", meta or {}),
        created_at=at,
    )


def event_of(record: Record, status: WriteStatus = "stored") -> EventRecord:
    """The event that was kept in this record."""
    told = {"obs_id": "", "payload": None, "timestamp": record.created_at, **_common_fields(record)}
    told |= {"event_id": record.id, "obs_type": record.kind, "status": status}
    return msgspec.convert(told, EventRecord)


def _common_fields(record: Record) -> dict[str, Any]:
    """What the record of an event or a turn says, by the names of their fields."""
    return {
        **{name: value for name, value in record.data.items() if value is not None},
        "session_key": record.scope.session or "",
        "user_id": record.scope.user or None,
        "meta": record.metadata,
        "created_at": record.created_at,
    }


def turn_to_record(
    scope: Scope, input_event_id: str, plan: Any, meta: dict[str, Any] | None, at: datetime
) -> Record:
    """The record of a turn that begins."""
    data = {
        "input_event_id": input_event_id,
        "plan": to_plain("plan", plan),
        "final_output_obs_id": None,
        "error": None,
        "finished_at": None,
    }
    return Record(
        collection=TURNS,
        id=new_id("turn_"),
        kind="running",
        scope=scope,
        data=data,
        metadata=to_plain("meta", meta or {}),
        created_at=at,
    )


def turn_end(
    turn_id: str,
    scope: Scope,
    status: str,
    final_output_obs_id: str | None,
    error: object | None,
    at: datetime,
) -> Change:
    """The change that ends a turn."""
    if status not in ("ok", "error"):
        raise InvalidRecord(f"a turn ends with status 'ok' or 'error'; got {status!r}")
    if not isinstance(final_output_obs_id, str | None):
        raise InvalidRecord(
            f"final_output_obs_id must be the id of an observation; got {final_output_obs_id!r}"
        )
    ended = {
        "final_output_obs_id": final_output_obs_id,
        "error": None if error is None else _make_storable(str(error)),
        "finished_at": at.isoformat(),
    }
    return Change(
        query=Query(collection=TURNS, ids=(turn_id,), scope=scope), kind=status, merge=ended, updated_at=at
    )


def turn_of(record: Record, written: WriteStatus = "stored") -> TurnRecord:
    """The turn that was kept in this record."""
    told = {"input_event_id": "", **_common_fields(record)}
    told |= {"turn_id": record.id, "status": record.kind, "written": written}
    return msgspec.convert(told, TurnRecord)


def _text(payload: Any) -> str:
    """What a search should find the event by: what was said, or else whatever the payload holds."""
    if isinstance(payload, dict):
        for name in ("text", "message"):
            if isinstance(said := payload.get(name), str) and said:
                return said
    return "\n".join(leaf for leaf in leaves(payload) if leaf)


def _make_storable(text: str) -> str:
    """An error's words as every store takes them: a turn must not stay open because of what went wrong in it."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _format_time(at: Any) -> str:
    """A time as it is kept; the sources of the world often say it in seconds since 1970."""
    moment = at
    try:
        if isinstance(at, int | float):
            moment = datetime.fromtimestamp(at, UTC)
        elif isinstance(at, str):
            moment = datetime.fromisoformat(at)
        if isinstance(moment, datetime):
            return to_utc(moment).isoformat()
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidRecord(f"timestamp {at!r} is no time: {error}") from None
    raise InvalidRecord(f"timestamp must be a datetime; got {at!r}")


def fields_of(obs: Any) -> dict[str, Any]:
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


def to_plain(what: str, value: Any) -> Any:
    """The value as JSON would say it, sharing nothing with it; what JSON cannot say is InvalidRecord."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_to_builtin)
    except RecursionError:
        raise InvalidRecord(f"{what} is nested too deep, or holds itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRecord(f"{what} cannot be written as JSON: {error}") from None


def _to_builtin(value: Any) -> Any:
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
