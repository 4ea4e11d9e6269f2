"""The event of an agent host, read from standard input."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

DELEGATION_TOOLS = frozenset({"Task", "SubagentTask", "AgentTask", "Agent"})

LONGEST_BYTES = 8 * 1024 * 1024

_OF_SUBAGENTS = ("SubagentStart", "SubagentStop")


class BadEvent(Exception):
    """The input is not an event; the message says why."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an agent host: `text` as received; `tool` and `name` are empty if the event has none."""

    text: str
    name: str
    tool: str
    sent_back_before: bool = False

    @property
    def of_a_delegation(self) -> bool:
        """Return whether the server is always asked about the event, because the event is part of a delegation."""
        return self.name in _OF_SUBAGENTS or (
            self.name in ("PreToolUse", "PostToolUse") and self.tool in DELEGATION_TOOLS
        )

    @property
    def has_tool_result(self) -> bool:
        """Return whether the event has the result of a tool that delegates nothing."""
        return self.name == "PostToolUse" and not self.of_a_delegation

    @property
    def takes_rules(self) -> bool:
        """Return whether phase rules apply: an action is done, or a task is about to be delegated."""
        return self.name in ("PostToolUse", "SubagentStop") or (self.name == "PreToolUse" and self.of_a_delegation)


def read_event(stream: BinaryIO) -> Event:
    """Return the single event in the stream. Raises `BadEvent`."""
    raw = stream.read(LONGEST_BYTES + 1)
    if len(raw) > LONGEST_BYTES:
        raise BadEvent(f"it is longer than {LONGEST_BYTES // 1024**2} MiB")
    try:
        text = raw.decode("utf-8-sig")
        plain = json.loads(text) if text.strip() else None
    except (ValueError, RecursionError) as error:
        raise BadEvent(f"it is not JSON ({error})") from error
    if plain is None:
        raise BadEvent("there is nothing on standard input")
    if not isinstance(plain, dict):
        raise BadEvent("it is not a JSON object")
    return _parse_event(text, plain)


def wrap(event: Event, **parts: str) -> str:
    """Return the event with further parts, which are JSON, as the server reads it.

    The event is sent exactly as received; encoding it again could change it.
    """
    more = "".join(f', "{name}": {part}' for name, part in parts.items())
    return f'{{"event": {event.text}{more}}}'


def now_as_json() -> str:
    return json.dumps(datetime.now(UTC).isoformat(timespec="milliseconds"))


def _parse_event(text: str, plain: dict[str, Any]) -> Event:
    name, tool = _read_text(plain, "hook_event_name"), _read_text(plain, "tool_name")
    call = plain.get("tool")
    if "hook_event_name" not in plain and isinstance(call, dict):
        # This is a delegation in the format of other hosts, which report the call once its result is there.
        name, tool = "PostToolUse", _read_text(call, "name")
    return Event(text, name, tool, bool(plain.get("stop_hook_active")))


def _read_text(plain: dict[str, Any], field: str) -> str:
    value = plain.get(field)
    return value if isinstance(value, str) else ""
