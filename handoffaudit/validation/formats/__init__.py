"""The formats of a handoff in one table; a new format is one module and one entry of the table."""

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from handoffaudit.validation.formats import claude_code, delegation, handoff_file, output, payload, universal
from handoffaudit.validation.formats.base import Format, obj
from handoffaudit.validation.formats.messages import not_an_object
from handoffaudit.validation.formats.schema_check import SCHEMA_NAMES, schema
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, too_deep
from handoffaudit.validation.record import Envelope, Reading, Record
from handoffaudit.validation.text import clean_or_empty, closest, show

UNRECOGNISED_FORMAT: Final = Code(
    "structure.unrecognised_format",
    Severity.ERROR,
    "Unrecognised format",
    what="The document does not match any supported format, or it names an unknown format.",
    why="Without a known format, the source, the target and the data of the handoff cannot be found.",
    hint="Name the format of the submission, and fill in the fields of that format.",
)


__all__ = ["BY_NAME", "FORMATS", "SCHEMA_NAMES", "Format", "read", "schema"]

# The formats are tried in this order if a submission does not name its format.
FORMATS: tuple[Format, ...] = (universal, output, payload, claude_code, delegation, handoff_file)

BY_NAME: Mapping[str, Format] = MappingProxyType({form.NAME: form for form in FORMATS})


def read(document: object, declared_format: str | None, envelope: Envelope) -> Reading:
    """Return the record of a parsed document, or the issues that explain why it cannot be read.

    A declared format is used as it is. The structure layer reports the differences of the document from the format.
    """
    if declared_format is not None and declared_format not in BY_NAME:
        return Reading(None, (_report_unknown_format(declared_format),))
    if not isinstance(document, dict):
        return Reading(None, (not_an_object(document),), declared_format or "")
    # Only a document that was parsed elsewhere can be too deep, because our own reader refuses such a document.
    if deeper_than(document, MAX_DEPTH):
        return Reading(None, (too_deep(),), declared_format or "")
    form = BY_NAME[declared_format] if declared_format is not None else _find_format(document)
    if form is None:
        return Reading(None, (_report_unrecognised(document),))
    return Reading(form.read(document, envelope), format=form.NAME)


def _find_format(document: dict[str, object]) -> Format | None:
    for form in FORMATS:
        if form.recognise(document):
            return form
    return None


def _report_unknown_format(name: str) -> Issue:
    near = closest(name, BY_NAME)
    return make(
        UNRECOGNISED_FORMAT,
        message=f"The submission names the format {show(name)}, which is not supported. Supported formats: "
        f"{_list_formats()}.",
        hint=f'Use "{near}".' if near else f"Name one of {_list_formats()}, or omit the format to have it detected.",
        expected=list(BY_NAME),
        actual=name,
        tried=list(BY_NAME),
    )


def _report_unrecognised(document: dict[str, object]) -> Issue:
    fields = ", ".join(show(name) for name in islice(document, 5)) or "none"
    return make(
        UNRECOGNISED_FORMAT,
        message=f"The document matches none of the supported formats: {_list_formats()}. Its fields: {fields}.",
        hint='A universal document has one field, "handoff"; a payload has "source_agent_id", "target_agent_id" and '
        '"call_chain"; an output "parsed_output" and "envelope"; a delegation "tool" or "tool_name"; a handoff file '
        '"status", "artifacts", "next" and "summary". If you name the format of the submission, the server lists the '
        "missing fields.",
        expected=list(BY_NAME),
        tried=list(BY_NAME),
    )


def _list_formats() -> str:
    return ", ".join(BY_NAME)


def workflow_of(record: Record) -> str:
    """Return the id of the workflow as senders write it, empty if no workflow is named.

    `universal` has the id in the source of the handoff, `delegation` beside the tool call. In any format, the context
    may name the id. A trace or a session is one run, not a workflow.
    """
    found = (_find_workflow_id(record), record.context.get("workflow_id"))
    return next((text for text in map(clean_or_empty, found) if text), "")


def _find_workflow_id(record: Record) -> object:
    if record.format == universal.NAME:
        return obj(obj(record.document.get("handoff")).get("source")).get("workflow_id")
    if record.format == delegation.NAME:
        return record.document.get("workflow_id" if delegation.is_hook(record.document) else "workflowId")
    return None
