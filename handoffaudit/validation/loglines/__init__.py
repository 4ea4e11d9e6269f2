"""Lines of logs, read and written: health lines in two forms, gate lines and trace lines (`docs/logs.md`)."""

from handoffaudit.validation.loglines.lines import (
    GATE_EVENTS,
    TRACE_EVENTS,
    BadLine,
    GateLine,
    HealthLine,
    Kind,
    Line,
    TraceLine,
)
from handoffaudit.validation.loglines.reading import LONGEST_LINE, read_bytes, read_line
from handoffaudit.validation.loglines.writing import write_gate, write_health, write_trace

__all__ = [
    "GATE_EVENTS",
    "LONGEST_LINE",
    "TRACE_EVENTS",
    "BadLine",
    "GateLine",
    "HealthLine",
    "Kind",
    "Line",
    "TraceLine",
    "read_bytes",
    "read_line",
    "write_gate",
    "write_health",
    "write_trace",
]
