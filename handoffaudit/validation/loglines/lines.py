"""What a line of a log says."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final

from handoffaudit.validation.formats.file_report import Fallback, Reason, Source

GATE_EVENTS: Final = ("VALIDATION", "SKIP", "ERROR", "DEBUG", "TRIGGER", "INFO", "WARNING")
TRACE_EVENTS: Final = (
    "workflow_started",
    "phase_started",
    "phase_completed",
    "handoff_created",
    "handoff_validated",
    "handoff_transmitted",
    "handoff_received",
    "handoff_processed",
    "error",
    "workflow_completed",
)


class Kind(StrEnum):
    """The forms of lines. `OLDER`: a health line in its older form."""

    HEALTH = "health"
    OLDER = "older"
    GATE = "gate"
    TRACE = "trace"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class HealthLine:
    """What became of one handoff file. `reason` is None where the file was used, `fallback` where the response's text
    was not tried, or nobody says. What is empty is not known."""

    at: datetime
    agent: str
    phase: str
    source: Source
    reason: Reason | None = None
    fallback: Fallback | None = None
    runtime: str = ""
    iteration: str = ""
    run_id: str = ""
    older: bool = False

    @property
    def kind(self) -> Kind:
        return Kind.OLDER if self.older else Kind.HEALTH


@dataclass(frozen=True, slots=True)
class GateLine:
    """What a gate did. `event_type` is one of `GATE_EVENTS`."""

    kind: ClassVar[Kind] = Kind.GATE
    at: datetime
    event_type: str
    component: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A step of a workflow. `event_type` is one of `TRACE_EVENTS`; `details` any JSON value; `extra` has the fields
    that no format names."""

    kind: ClassVar[Kind] = Kind.TRACE
    at: datetime
    event_type: str
    trace_id: str
    workflow: str = ""
    phase: str = ""
    details: Any = None
    level: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    duration_ms: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line in no known form. `why`: what was expected and what was found, in one sentence."""

    kind: ClassVar[Kind] = Kind.BAD
    why: str


Line = HealthLine | GateLine | TraceLine | BadLine
