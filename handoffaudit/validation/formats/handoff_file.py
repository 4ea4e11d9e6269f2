"""The `handoff-file` format: the small routing file of an agent, sent alone or in a report about the file."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from handoffaudit.validation.formats.base import (
    Compression,
    Document,
    Format,
    Places,
    Reference,
    RepairRules,
    Section,
    Variant,
    entries,
    envelope_fields,
    fields,
    id_issues,
    obj,
)
from handoffaudit.validation.formats.file_report import (
    FILE_SHAPE,
    MARK,
    Fallback,
    FileFinding,
    Source,
    fallback_issue,
    judge_report,
)
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean, clean_or_empty, show

STRICT: Final = Code(
    "files.strict",
    Severity.ERROR,
    "Handoff file not used",
    what="The policy requires a handoff file, and the file is missing or cannot be used. A block in "
    "the agent's response does not replace the file.",
    why="Programs that read handoff files find nothing, even if a person could read the response.",
    hint="Make the agent write its handoff file to the expected path: status, artifacts, next and "
    "summary as one JSON object.",
    layer="structure",
)


NAME: Final = "handoff-file"
TYPE: Final = "phase_result"
END: Final = "end"

_REPORT_BASICS: Basics = {
    ("run_id",): "string",
    ("agent",): "string",
    ("phase",): "string",
    ("expected_path",): "string",
    ("file",): "object",
    ("file", "exists"): "boolean",
}
_REPORT = Shape("handoff-file-report", _REPORT_BASICS)
_FIELDS = ("status", "artifacts", "next", "summary")
_ENOUGH = 3
_IDS = (("agent",), ("run_id",))
_REPORT_IDS = (*_IDS, ("phase",), ("runtime",))
_FILE_IDS = (*_IDS, ("next",))


def recognise(document: Document) -> bool:
    return is_report(document) or sum(name in document for name in _FIELDS) >= _ENOUGH


def is_report(document: Document) -> bool:
    return "expected_path" in document or "exists" in obj(document.get("file"))


def read(document: Document, envelope: Envelope) -> Record:
    """Return the record of a handoff file or of a report.

    The record of a report holds the report as the original document. The document to judge is the content of the file,
    or the text block of the response if only the block can be used.
    """
    report = is_report(document)
    content = judge_report(document).content if report else document
    return Record(
        format=NAME,
        document=content,
        original_document=document if report else None,
        handoff_id=clean_or_empty(envelope.handoff_id) or None,
        tenant_id=None,
        handoff_type=TYPE,
        source_agent_id=clean_or_empty(document.get("agent")) or clean_or_empty(envelope.agent),
        target_agent_id=_target(content),
        call_chain=(),
        trace_id=clean_or_empty(document.get("run_id")) or clean_or_empty(envelope.trace_id),
        data=content,
        context=envelope.context or {},
        **envelope_fields(envelope),
    )


def _target(content: Mapping[str, Any]) -> str:
    """Return the target as a name: the string in `next`, or the JSON of any other value in `next`.

    If `next` is null or missing, the work ends, and the name is `end`.
    """
    following = content.get("next")
    if following is None:
        return END
    return clean(following if isinstance(following, str) else compact(following).decode("utf-8", "replace"))


def check(record: Record) -> Iterable[Issue]:
    report = record.original_document
    if report is None:
        return chain(FILE_SHAPE.check(record.document), id_issues(record.document, _FILE_IDS))
    return chain(report_flaws(report), _report_issues(report))


def report_flaws(report: Document) -> Iterable[Issue]:
    """Return the issues of a report itself, whatever the report says about the file."""
    return chain(_REPORT.check(report), id_issues(report, _REPORT_IDS))


def _report_issues(report: Document) -> Iterable[Issue]:
    """Return the issues of the file that a report describes.

    A handoff read from the text of the response passes with a warning. If there is no such handoff, the faults of the
    file are errors.
    """
    finding = judge_report(report)
    if finding.fallback is Fallback.OK:
        return (fallback_issue(finding, clean_or_empty(report.get("expected_path"))),)
    return (*finding.issues, *id_issues(finding.content, (("next",),)))


def strict_issues(report: Document) -> Iterable[Issue]:
    """Yield a finding if the file was not used. Call this function only if a policy demands files.

    A report with flaws of its own (`report_flaws`) gets no such finding.
    """
    finding = judge_report(report)
    if finding.source is Source.HANDOFF_JSON or any(True for _ in report_flaws(report)):
        return
    wanted = clean_or_empty(report.get("expected_path"))
    yield make(
        STRICT,
        location=("file",),
        message=f"The handoff file {show(wanted)} cannot be used ({finding.reason}), and the policy accepts only "
        "the file.",
        expected=str(Source.HANDOFF_JSON),
        actual=str(finding.source),
        reason=str(finding.reason),
        fallback=str(finding.fallback) if finding.fallback else None,
    )


def sections(document: Document) -> Mapping[str, Section]:
    apart = ("artifacts", "summary")
    found: dict[str, Section] = {name: Section(document[name]) for name in apart if name in document}
    return {**found, "rest": Section({key: value for key, value in document.items() if key not in apart})}


def references(document: Document) -> Iterable[Reference]:
    """Yield the artifacts, which are paths or objects with a path; a URL is not a file."""
    for index, entry in enumerate(entries(document.get("artifacts"))):
        path, place = (entry.get("path"), ("path",)) if isinstance(entry, dict) else (entry, ())
        if isinstance(path, str) and "://" not in path[:20]:
            yield Reference(("artifacts", index, *place), path)


def has_phase_failed(finding: FileFinding, *, strict: bool) -> bool:
    """Return whether the phase failed.

    With `strict`, only the handoff file counts, and the text of the response is ignored.
    """
    return finding.blocks or (strict and finding.source is not Source.HANDOFF_JSON)


def _explain(finding: FileFinding, *, strict: bool) -> str:
    """Describe the result of the file in one or two sentences."""
    if finding.reason is None:
        return "The handoff file was used."
    unusable = f"The handoff file cannot be used ({finding.reason})"
    if finding.fallback is None:
        return f"{unusable}, and no response with a {MARK} block was sent."
    if finding.fallback is Fallback.FAILED:
        return f"{unusable}. {finding.no_block}"
    if strict:
        return f"{unusable}; the response has a {MARK} block, but the policy accepts only the file."
    return f"{unusable}; the {MARK} block of the response was read instead."


def describe_report(finding: FileFinding, *, strict: bool) -> dict[str, Any]:
    """Return the result of a report as JSON values."""
    return {
        "source": str(finding.source),
        "reason": finding.reason and str(finding.reason),
        "fallback": finding.fallback and str(finding.fallback),
        "reasons": list(finding.reasons),
        "failed": has_phase_failed(finding, strict=strict),
        "why": _explain(finding, strict=strict),
        "issues": [_issue(issue.to_dict()) for issue in finding.issues],
        "wrong_path": finding.wrong_path or None,
    }


def _issue(issue: dict[str, Any]) -> dict[str, Any]:
    place = {name: issue["metadata"][name] for name in ("line", "column") if name in issue["metadata"]}
    return {
        "code": issue["code"],
        "path": issue["field_path"],
        "message": issue["message"],
        "hint": issue["hint"],
    } | place


_FILE_EXAMPLE: Final[Document] = {
    "status": "complete",
    "artifacts": ["plan.md"],
    "next": "plan_review",
    "summary": "The plan is written.",
}
_REPORT_EXAMPLE: Final[Document] = {
    "run_id": "run-17",
    "agent": "planner",
    "phase": "plan",
    "expected_path": "run-17/planner/handoff.json",
    "file": {"exists": False},
    "response_text": "Done.\n---HANDOFF---\nSTATUS: complete\nARTIFACTS: plan.md\nNEXT: plan_review\n"
    "SUMMARY: The plan is written.",
}

FORMAT: Final = Format(
    name=NAME,
    order=60,
    variants=(Variant(FILE_SHAPE, _FILE_EXAMPLE), Variant(_REPORT, _REPORT_EXAMPLE)),
    clue='a handoff file "status", "artifacts", "next" and "summary"',
    places=Places(target=("next",)),
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    references=references,
    repair=RepairRules(
        protected=fields("agent", "run_id", "next"),
        protected_unless_faulty=fields("artifacts"),
        compression=Compression(texts=fields("summary")),
    ),
)
