"""Turns of an LLM, from chat completions and from the Responses API."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from handoffaudit_client.plugins import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# The beginning of the answer to a handoff that a gate has blocked.
BLOCKED = "Handoff blocked. "


@dataclass(frozen=True)
class Turn:
    """The last text that the LLM wrote or received, and the arguments of its calls by the names of the tools."""

    text: str = ""
    calls: dict[str, str] = field(default_factory=dict)

    def data_for(self, target: str) -> Any:
        """Return the data that the turn hands over to an agent: the arguments of the call, else the text, else {}."""
        wanted = _simplify(target)
        named = [name for name in self.calls if wanted in _simplify(name)]
        named = named or [name for name in self.calls if name.startswith("transfer_to_")]
        return parse(self.calls[named[0]] if named else "") or self.text or {}


# The last turn by the id of its parent span, which is also the parent of the turn's handoff.
turns: Memory[str, Turn] = Memory(most=500)


def read_turn(span_data: Any) -> Turn:
    """Return the turn that a generation span or a response span records."""
    if span_data.type == "response":
        output = _plain(getattr(span_data.response, "output", None))
    else:
        output = _plain(span_data.output)
        # A streamed chat completion is recorded in the form of a response.
        output = [part for item in output for part in (_plain(item.get("output")) or [item])]
    calls: dict[str, str] = {}
    for item in output:
        if item.get("type") == "function_call":
            calls[str(item.get("name"))] = item.get("arguments") or ""
        for call in item.get("tool_calls") or []:
            function = call.get("function") or {}
            calls[str(function.get("name"))] = function.get("arguments") or ""
    return Turn(last_text(output) or last_text(span_data.input), calls)


def last_text(items: Any) -> str:
    """Return the last text in a conversation; '' if there is none.

    Instructions, reasoning and texts about handoffs do not count.
    """
    if isinstance(items, str):
        return items
    for item in reversed(_plain(items)):
        if item.get("role") in ("system", "developer") or item.get("type") == "reasoning":
            continue
        for text in _texts(item.get("content") or item.get("output")):
            is_transfer = text.startswith(BLOCKED) or set(parse(text) or ()) == {"assistant"}
            if text.strip() and not is_transfer:
                return text
    return ""


def parse(arguments: str) -> Any:
    """Return the arguments of a call, or None if they are not a JSON object."""
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _texts(content: Any) -> Iterator[str]:
    for part in reversed(content if isinstance(content, (list, tuple)) else [content]):
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


def _plain(items: Any) -> list[dict[str, Any]]:
    given = items if isinstance(items, (list, tuple)) else []
    found = (one.model_dump() if hasattr(one, "model_dump") else one for one in given)
    return [one for one in found if isinstance(one, dict)]


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())
