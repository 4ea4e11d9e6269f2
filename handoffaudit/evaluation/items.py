"""Items of labelled data: a document to judge, and separately its label."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from handoffaudit.validation.paths import Location
from handoffaudit.validation.record import Envelope

Line: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int]
# Returns the text of a file beside the data by its name in the data, None where there is no such file.
Beside: TypeAlias = Callable[[str], str | None]


class UnreadableError(Exception):
    """A line that is no labelled data, or that does not have the structure of its kind."""


@dataclass(frozen=True, slots=True)
class Label:
    """The label that people gave a handoff. No layer ever sees the label.

    `faulty` is None where nobody knows. `spans` are the faulty characters of the text at `place` in the data,
    half-open; None where people labelled the text as a whole.
    """

    faulty: bool | None
    spans: tuple[Span, ...] | None = None
    place: Location = ()
    mistake: "Mistake | None" = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """The distance of a handoff in a failed trace from the decisive mistake.

    `distance` counts steps, 0 for the handoff with the mistake. `by_culprit` says that the source agent made the
    mistake. `group` is the part of the data that holds the trace.
    """

    distance: int
    by_culprit: bool
    group: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One handoff of labelled data.

    `name` identifies the item for people. `files` holds the sender's files, None where they are unknown.
    """

    name: str
    document: dict[str, Any]
    label: Label
    format: str = "payload"
    envelope: Envelope = field(default_factory=Envelope)
    files: frozenset[str] | None = None


def payload(
    source: str, target: str, handoff_type: str, data: dict[str, Any], chain: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a document in the `payload` format."""
    return {
        "source_agent_id": source,
        "target_agent_id": target,
        "tenant_id": "default",
        "call_chain": list(chain or (source,)),
        "handoff_type": handoff_type,
        "data": data,
    }
