"""The structure layer: the document checked against its format, and its data against JSON Schemas."""

from collections.abc import Iterable, Iterator
from typing import Final

from handoffaudit.validation.formats import BY_NAME, UNRECOGNISED_FORMAT, handoff_file, messages, payload, universal
from handoffaudit.validation.formats.schema_check import SCHEMA_MISSING
from handoffaudit.validation.issues import Issue, limit_issues
from handoffaudit.validation.json_text import JSON_PARSE
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.locate import hands_over, placer

name: Final = "structure"
CODES: Final = (
    JSON_PARSE,
    UNRECOGNISED_FORMAT,
    *messages.CODES,
    universal.VERSION_MISMATCH,
    payload.SOURCE_NOT_IN_CHAIN,
    universal.GENERATED_TRACE_ID,
    SCHEMA_MISSING,
)


def skip(subject: Subject) -> str | None:
    return None


def check(subject: Subject) -> Iterable[Issue]:
    yield from limit_issues(BY_NAME[subject.record.format].check(subject.record))
    report = subject.record.original_document
    if subject.demands.strict_files and subject.record.format == handoff_file.NAME and report is not None:
        yield from handoff_file.strict_issues(report)
    yield from _check_schemas(subject)


def _check_schemas(subject: Subject) -> Iterator[Issue]:
    """Yield the issues of the registered schema, then the additional issues of the sender's own schema.

    Data that is not an object is ignored, because the format already reports it.
    """
    record, registered = subject.record, subject.demands.schema
    if (registered is None and record.expected_schema is None) or not hands_over(record):
        return
    from handoffaudit.validation.data_schema import DataSchema, relocate_issues  # noqa: PLC0415

    place_of = placer(record)
    found = registered.check(record.data) if registered else []
    if record.expected_schema is not None:
        known = {(issue.location, issue.code) for issue in found}
        own = DataSchema(record.expected_schema).check(record.data)
        found += [issue for issue in own if (issue.location, issue.code) not in known]
    yield from relocate_issues(found, place_of)
