"""AsyncMemoryService as a service: events, turns and documents, kept through outages; and the loop that wires an agent to it."""

from octavo.service.core import AgentResult, Core, Handled, deliver_all
from octavo.service.health import Health
from octavo.service.memory import AsyncMemoryService
from octavo.service.records import (
    AlertPayload,
    ControlPayload,
    EventRecord,
    GateAction,
    GateResult,
    MessagePayload,
    Observation,
    ObservationType,
    SchedulePayload,
    SystemPayload,
    TurnRecord,
    WorldDataPayload,
)
from octavo.service.service import MemoryService

__all__ = [
    "AgentResult",
    "AlertPayload",
    "AsyncMemoryService",
    "ControlPayload",
    "Core",
    "EventRecord",
    "GateAction",
    "GateResult",
    "Handled",
    "Health",
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
