"""A handoff of labelled data: what is judged, and, kept apart from it, what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from handoffaudit.validation.paths import Location
from handoffaudit.validation.record import Envelope

Line: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int]
# The text of a file that stands beside the data, by the name the data calls it; None where it is not there.
Beside: TypeAlias = Callable[[str], str | None]


class UnreadableError(Exception):
    """A line that is no labelled data, or breaks off from what its kind promises."""


@dataclass(frozen=True, slots=True)
class Label:
    """What people said of one handoff, never shown to a layer.

    `faulty` is None where nobody knows. `spans` are the faulty characters of the text at `place` in the data,
    half-open; None where the text as a whole was labelled.
    """

    faulty: bool | None
    spans: tuple[Span, ...] | None = None
    place: Location = ()
    mistake: "Mistake | None" = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """How far a handoff of a failed trace is from its decisive mistake: in steps, 0 where it holds it. `by_culprit`:
    its source is who made it. `group` is the part of the data that the trace is from."""

    distance: int
    by_culprit: bool
    group: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """`name` tells people which one it is. `files` are the sender's files, None where they cannot be seen."""

    name: str
    document: dict[str, Any]
    label: Label
    format: str = "payload"
    envelope: Envelope = field(default_factory=Envelope)
    files: frozenset[str] | None = None


def payload(
    source: str, target: str, handoff_type: str, data: dict[str, Any], chain: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A document in the `payload` format."""
    return {
        "source_agent_id": source,
        "target_agent_id": target,
        "tenant_id": "default",
        "call_chain": list(chain or (source,)),
        "handoff_type": handoff_type,
        "data": data,
    }
