"""Generator of a log of any size with all forms of lines, reproducible by its seed."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

_BEGAN = datetime(2026, 2, 15, tzinfo=UTC)
_AGENTS = ("planner", "researcher", "writer", "reviewer", "coder", "tester", "slot_a", "slot_b")
_PHASES = ("plan", "plan_review", "research", "draft", "review", "publish")
_RUNTIMES = ("claude", "codex", "gemini")
_REASONS = (None, None, None, "file_missing", "json_parse_error", "schema_invalid")
_GATES = ("VALIDATION", "SKIP", "ERROR", "DEBUG", "TRIGGER", "INFO", "WARN")
_COMPONENTS = ("handoff_gate", "plan_gate", "review_gate", "scheduler")
_TRACED = ("phase_started", "phase_completed", "handoff_created", "handoff_validated", "handoff_received", "error")
_DETAILS = (
    "plan accepted after 2 checks",
    "handoff.json found in the expected folder, 4 artifacts named",
    "the summary is longer than it should be; kept",
    "next phase is draft",
)
_PART_LINES = 20_000


def write(path: Path, size: int, seed: int = 20260215) -> int:
    """Write at least `size` bytes of lines, and return the number of lines; 1 line in 500 has no known form."""
    number = written = 0
    with path.open("wb") as file:
        for part in _parts(random.Random(seed)):  # noqa: S311 -- no secret hangs on it
            written += file.write(part)
            number += _PART_LINES
            if written >= size:
                break
    return number


def _parts(chance: random.Random) -> Iterator[bytes]:
    at = _BEGAN
    while True:
        lines = []
        for _ in range(_PART_LINES):
            at += timedelta(milliseconds=chance.randrange(1, 90))
            lines.append(_line(chance, at))
        yield "".join(lines).encode()


def _line(chance: random.Random, at: datetime) -> str:
    pick = chance.random()
    second = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    agent, phase = chance.choice(_AGENTS), chance.choice(_PHASES)
    if pick < 0.25:
        return _health(chance, second, agent, phase)
    if pick < 0.4:
        found = chance.choice(("found", "missing", "unparsable"))
        source = "handoff_json" if found == "found" else "text_fallback"
        return (
            f"{second} | phase={phase} | agent={agent} | runtime={chance.choice(_RUNTIMES)} | iter=1"
            f" | handoff_json={found} | source={source}\n"
        )
    if pick < 0.7:
        return f"[{second}] [{chance.choice(_GATES)}] [{chance.choice(_COMPONENTS)}] {chance.choice(_DETAILS)}\n"
    if pick < 0.998:
        return _trace(chance, at, agent, phase)
    return chance.choice(
        ("Traceback (most recent call last):\n", '  File "run.py", line 12, in <module>\n', "{broken\n")
    )


def _health(chance: random.Random, second: str, agent: str, phase: str) -> str:
    reason = chance.choice(_REASONS)
    source = f"text_fallback reason={reason}" if reason else "handoff_json"
    fallback = " fallback=text_fallback_ok" if reason else ""
    return (
        f"agent={agent} phase={phase} source={source} timestamp={second}{fallback}"
        f" runtime={chance.choice(_RUNTIMES)} iter={chance.randrange(1, 4)} run=run-{chance.randrange(10_000)}\n"
    )


def _trace(chance: random.Random, at: datetime, agent: str, phase: str) -> str:
    line = {
        "trace_id": f"trace-{chance.randrange(100_000):05d}",
        "span_id": f"{chance.getrandbits(32):08x}",
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event_type": chance.choice(_TRACED),
        "level": "info",
        "workflow": "release",
        "phase": phase,
        "details": {"source_agent": agent, "target_agent": "writer", "note": chance.choice(_DETAILS)},
        "duration_ms": chance.randrange(5_000),
    }
    return json.dumps(line) + "\n"
