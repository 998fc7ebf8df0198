"""Memory as a service: events, turns and documents, kept through outages; and the loop that wires an agent to it."""

from octavo.service.core import AgentResult, Core, Handled, deliver_all
from octavo.service.health import Health
from octavo.service.memory import Memory
from octavo.service.observations import (
    AlertPayload,
    ControlPayload,
    GateAction,
    GateResult,
    MessagePayload,
    Observation,
    ObservationType,
    SchedulePayload,
    SystemPayload,
    WorldDataPayload,
)
from octavo.service.records import EventRecord, TurnRecord
from octavo.service.service import MemoryService

__all__ = [
    "AgentResult",
    "AlertPayload",
    "ControlPayload",
    "Core",
    "EventRecord",
    "GateAction",
    "GateResult",
    "Handled",
    "Health",
    "Memory",
    "MemoryService",
    "MessagePayload",
    "Observation",
    "ObservationType",
    "SchedulePayload",
    "SystemPayload",
    "TurnRecord",
    "WorldDataPayload",
    "deliver_all",
]
