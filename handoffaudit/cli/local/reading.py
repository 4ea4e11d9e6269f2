"""A submission or a bare document of a file, read as the server reads it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.validation import formats
from handoffaudit.validation.codes import make
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope, Reading
from handoffaudit.validation.text import closest, shown, type_name

_KINDS: dict[type, str] = {
    str: "a text",
    dict: "an object",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
}
FIELDS: dict[str, type] = {
    "document": object,
    "format": str,
    "context": dict,
    "evidence": list,
    "trace_id": str,
    "parent_handoff_id": str,
    "retry_of": str,
    "handoff_id": str,
    "agent": str,
    "step": int,
    "adapt": bool,
    "repair": bool,
}
_OF_ENVELOPE = FIELDS.keys() - {"document", "format", "repair"}


@dataclass(frozen=True, slots=True)
class Given:
    """What was sent, taken apart; `issues` say why it can't be, and then there is no `document`."""

    document: object = None
    format: str | None = None
    envelope: Envelope = field(default_factory=Envelope)
    issues: tuple[Issue, ...] = ()

    def read(self) -> Reading:
        if self.issues:
            return Reading(None, self.issues, self.format or "")
        return formats.read(self.document, self.format, self.envelope)


def take_apart(sent: bytes, declared_format: str | None = None) -> Given:
    """With a declared format, or without a `document` in it, what was sent is the bare document."""
    value, issues = parse_json(sent)
    if issues:
        return Given(format=declared_format, issues=issues)
    if declared_format is None and isinstance(value, dict):
        if "document" in value:
            return _unwrapped(value)
        if isinstance(raw := value.get("raw"), str):
            # How an export writes a document that is not JSON.
            form = value.get("format")
            return take_apart(raw.encode("utf-8", "surrogatepass"), form if isinstance(form, str) else "")
    return Given(value, declared_format or None)


def _unwrapped(fields: dict[str, Any]) -> Given:
    issues = tuple(_issues(fields))
    if issues:
        return Given(issues=issues)
    given = {name: value for name, value in fields.items() if name in _OF_ENVELOPE and value is not None}
    return Given(fields["document"], fields.get("format"), Envelope(**given))


def _issues(fields: dict[str, Any]) -> Iterable[Issue]:
    for name, value in fields.items():
        kind = FIELDS.get(name)
        if kind is None:
            near = closest(name, FIELDS)
            yield make(
                "structure.unknown_field",
                location=(name,),
                message=f"The submission has a field {shown(name)} that is not known here.",
                hint=f'Did you mean "{near}"?' if near else f"Use only {', '.join(FIELDS)}.",
            )
        elif value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            yield make(
                "structure.wrong_type",
                location=(name,),
                message=f"{name} is {type_name(value)}, not {_KINDS[kind]}.",
            )
