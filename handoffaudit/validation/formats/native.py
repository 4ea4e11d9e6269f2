"""Native records: what agent frameworks themselves write about a handoff, and the reading of values from them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from handoffaudit.validation.formats.base import Document, obj
from handoffaudit.validation.paths import Location
from handoffaudit.validation.times import moment

HANDOFF: Final = "handoff"
DELEGATION: Final = "delegation"
MESSAGE: Final = "message"

# Arguments of tools that are longer are not parsed again.
_LONGEST_JSON: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NativeHandoff:
    """A handoff as a framework wrote it. Texts are as they arrived, and empty if the record has none.

    `source_at` and `target_at` are the places of the agents in the document, also if the agents are missing there.
    """

    source: Any
    target: Any
    source_at: Location
    target_at: Location
    data: dict[str, Any] = field(default_factory=dict)
    handoff_type: str = HANDOFF
    trace_id: Any = ""
    handoff_id: Any = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework whose records are read.

    `find` returns the handoff of a record, or None. `resembles` returns whether a document looks like a record of the
    framework that is no handoff. `name` completes "The document resembles …", and `wanted` says which records are
    handoffs. Neither function raises for any JSON object.
    """

    name: str
    wanted: str
    find: Callable[[Document], NativeHandoff | None]
    resembles: Callable[[Document], bool]


def json_object(value: object) -> dict[str, Any]:
    """Return an object that is given as it is, or as a text of JSON; an empty object for anything else."""
    if not isinstance(value, str):
        return obj(value)
    if len(value) > _LONGEST_JSON:
        return {}
    try:
        return obj(json.loads(value))
    except (ValueError, RecursionError):
        return {}


def time_of(value: object) -> datetime | None:
    """Return the time that a text (RFC 3339) or a number (seconds since 1970) names, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        found = moment(value)
        return found.at if found else None
    # Other numbers are no times of a handoff, and some of them are beyond the calendar.
    return datetime.fromtimestamp(value, UTC) if 0 < value < 4_102_444_800 else None


def text_data(value: object) -> dict[str, Any]:
    """Return data that holds a text, or no data if there is none."""
    return {"text": value} if isinstance(value, str) and value.strip() else {}
