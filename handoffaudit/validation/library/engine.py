"""From the library's objects to the engine's, and back."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from handoffaudit.validation.config import Demands, EvidencePolicy, TypePolicy
from handoffaudit.validation.counting import CharacterCounter
from handoffaudit.validation.formats import output
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import History, Subject
from handoffaudit.validation.library.defaults import utc_now
from handoffaudit.validation.library.envelopes import LLMEnvelope
from handoffaudit.validation.library.models import ValidationIssue
from handoffaudit.validation.output_names import engine_layer, library_layer
from handoffaudit.validation.paths import dotted
from handoffaudit.validation.plain import plain
from handoffaudit.validation.record import Envelope, Record

_OUTPUT = "parsed_output"
# whoever puts a validator into a pipeline asks for it
_ALL_ASKED = TypePolicy("*", evidence=EvidencePolicy.REQUIRED)


def output_type_of(parsed_output: Any) -> str:
    named = parsed_output.get("_output_type") if isinstance(parsed_output, dict) else None
    return named if isinstance(named, str) else ""


def record_of(parsed_output: Any, envelope: LLMEnvelope) -> Record:
    """The record of the `output` format."""
    document = {_OUTPUT: plain(parsed_output), "envelope": plain(envelope)}
    record = output.read(document, Envelope())
    return replace(record, handoff_id=envelope.envelope_id or None)


def subject_of(record: Record, demands: Demands, **policy: Any) -> Subject:
    """The record under validation, with what is demanded of it; `policy` changes fields of the type's policy."""
    return Subject(
        record=record,
        policy=replace(_ALL_ASKED, handoff_type=record.handoff_type, **policy),
        history=History(),
        received_at=utc_now(),
        counter=CharacterCounter(),
        demands=demands,
    )


def library_issues(issues: Iterable[Issue]) -> list[ValidationIssue]:
    """The engine's issues, with paths from the root of the output."""
    return [_library_issue(issue) for issue in issues]


def _library_issue(issue: Issue) -> ValidationIssue:
    location = issue.location[1:] if issue.location[:1] == (_OUTPUT,) else issue.location
    return ValidationIssue(
        layer=library_layer(issue.layer),
        severity=issue.severity,
        code=issue.code,
        message=issue.message,
        field_path=dotted(location),
        expected=issue.expected,
        actual=issue.actual,
        metadata=_metadata(issue.metadata, issue.hint),
    )


def _metadata(given: Mapping[str, Any], hint: str) -> dict[str, Any]:
    return {**given, "hint": hint} if hint else dict(given)


def engine_issue(issue: ValidationIssue, layer: str) -> Issue:
    """What the engine counts of an issue: its layer and its severity."""
    return Issue(layer=engine_layer(layer), code=issue.code, severity=issue.severity, message=issue.message, hint="")
