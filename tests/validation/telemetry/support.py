"""Captured exports, and exports made of a few spans."""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from handoffaudit.validation.telemetry.facts import Span
from handoffaudit.validation.telemetry.handoff_rules import Found, find_in
from handoffaudit.validation.telemetry.otlp import JSON, PROTOBUF, read_export
from handoffaudit.validation.telemetry.trees import Tree

CAPTURES = Path(__file__).parent / "captures"
TRACE = "0af7651916cd43dd8448eb211c80319c"
BEGIN = 1_795_379_700_000_000_000
SWARM = [("triage", "researcher"), ("researcher", "writer"), ("writer", "researcher"), ("researcher", "writer")]
DELEGATED = [("triage", "researcher"), ("triage", "writer"), ("triage", "researcher"), ("triage", "writer")]
# The handoffs of each run, and how many of them have a payload in the spans.
RUNS: dict[str, tuple[list[tuple[str, str]], int]] = {
    "a2a.sdk-telemetry": ([], 0),
    "autogen-agentchat.native": (SWARM, 0),
    "autogen-agentchat.openinference": (SWARM, 0),
    "claude-agent-sdk.otel": ([("main", "researcher"), ("main", "writer"), ("main", "researcher")], 0),
    "crewai.openinference": (DELEGATED, 4),
    "crewai.traceloop": (DELEGATED, 0),
    "google-adk.default": (SWARM, 0),
    "google-adk.latest": (SWARM, 0),
    "langgraph.command-openinference": (SWARM, 4),
    "langgraph.command-traceloop": (SWARM, 4),
    "langgraph.supervisor-openinference": (DELEGATED, 0),
    "langgraph.swarm-openinference": (SWARM, 0),
    "langgraph.swarm-traceloop": (SWARM, 0),
    "llama-index.openinference": (SWARM, 4),
    "openai-agents.openinference": (SWARM, 4),
    "openai-agents.otel-v2": (SWARM, 4),
    "openai-agents.traceloop": (SWARM, 0),
    "pydantic-ai.instrument-all": (DELEGATED, 4),
    "strands-agents.otel-default": (SWARM, 4),
}


def bodies(run: str, kind: str = "pb") -> list[bytes]:
    """Return the exports of a run, unpacked."""
    return [gzip.decompress(path.read_bytes()) for path in sorted(CAPTURES.glob(f"{run}*.otlp.{kind}.gz"))]


def spans_of(run: str) -> list[Span]:
    return [span for body in bodies(run) for span in read_export(body, PROTOBUF).spans]


def one(number: int, name: str, parent: int = 0, at: int = 0, length: int = 1000, **more: Any) -> dict[str, Any]:
    """Return a span of OTLP/JSON that starts `at` milliseconds; in the names of attributes, `__` stands for a point."""
    attributes = more.pop("attributes", {}) | {key.replace("__", "."): value for key, value in more.items()}
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(BEGIN + at * 1_000_000),
        "endTimeUnixNano": str(BEGIN + (at + length) * 1_000_000),
        "attributes": [{"key": key, "value": value_of(value)} for key, value in attributes.items()],
    }


def value_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(one) for one in value]}}
    return {"stringValue": value if isinstance(value, str) else orjson.dumps(value).decode()}


def export(spans: Iterable[dict[str, Any]]) -> bytes:
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})


def found_in(*spans: dict[str, Any]) -> list[Found]:
    return find_in(Tree(read_export(export(spans), JSON).spans))


def ends_in(*spans: dict[str, Any]) -> list[tuple[str, str]]:
    return [(found.source, found.target) for found in found_in(*spans)]


def agent(number: int, name: str, parent: int = 0, at: int = 0, length: int = 1000, **more: Any) -> dict[str, Any]:
    given = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": name} | more
    return one(number, f"invoke_agent {name}", parent, at, length, **given)


def tool(number: int, name: str, parent: int = 0, at: int = 0, length: int = 100, **more: Any) -> dict[str, Any]:
    given = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": name} | more
    return one(number, f"execute_tool {name}", parent, at, length, **given)


def transfer(number: int, target: str, parent: int = 0, at: int = 0, **more: Any) -> dict[str, Any]:
    """Return the span of a tool that hands over, and whose result says so."""
    return tool(number, f"transfer_to_{target}", parent, at, **{"output__value": "Transferred.", **more})
