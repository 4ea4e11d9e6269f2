"""The strictness table in words: what each field is called, means, and what changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from handoffaudit.policy.difference import WHOLE_ROW, Change
from handoffaudit.policy.parsing import CHOICES, FIELDS, RANGES
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS

NAMES = {
    "handoff_type": "Handoff type",
    "strictness": "Strictness",
    "mode": "Mode",
    "layers": "Layers",
    "token_budget": "Token budget",
    "approval_length": "Approval length",
    "recommended_length": "Recommended length",
    "circular_policy": "Circular chains",
    "confidence_floor": "Confidence floor",
    "hold_limit_hours": "Hold limit",
    **{f"layers.{layer}": f"Layer {layer}" for layer in OPTIONAL_LAYERS},
}
HELP = {
    "handoff_type": "As senders write it, e.g. deal_data.",
    "strictness": "kept in each verdict; both run the same layers",
    "mode": "shadow accepts, and keeps what it would have decided",
    "layers": "structure always runs",
    "token_budget": "tokens; above: rejected",
    "approval_length": "agents; a longer chain is held",
    "recommended_length": "agents; a longer chain is warned of",
    "circular_policy": "when the target is in the chain already, and a reason is given",
    "confidence_floor": "0.0 to 1.0; below: warned of",
    "hold_limit_hours": "hours held until overdue",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A change as a line of text: `old` or `new` empty where the row came or went."""

    type_name: str
    field: str
    old: str
    new: str


def type_name(handoff_type: str) -> str:
    return "any other type" if handoff_type == ANY_OTHER_TYPE else handoff_type


def lines(changes: Iterable[Change]) -> list[Line]:
    return [_line(change) for change in changes]


def choices(field: str) -> list[str]:
    return list(CHOICES[field])


def bounds(field: str) -> tuple[int, int] | None:
    return RANGES.get(field)


def shown(field: str, value: Any) -> str:
    """A value as text; a switch as on or off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if field == "layers":
        off = [layer for layer, on in value.items() if not on]
        return f"without {', '.join(off)}" if off else "all layers"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _line(change: Change) -> Line:
    name = type_name(change.row)
    if change.field == WHOLE_ROW:
        return Line(name, "", _row(change.old), _row(change.new))
    return Line(name, NAMES[change.field], shown(change.field, change.old), shown(change.field, change.new))


def _row(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    # In the order of the table: PostgreSQL keeps JSON in one of its own.
    return ", ".join(_value(field, row[field]) for field in FIELDS if field in row and field != "handoff_type")


def _value(field: str, value: Any) -> str:
    named = field in RANGES or field == "confidence_floor"
    return f"{NAMES[field].lower()} {shown(field, value)}" if named else shown(field, value)
