"""The structure layer: the document checked against its format, and its data against JSON Schemas."""

from collections.abc import Iterable, Iterator
from typing import Final

from handoffaudit.validation.formats import BY_NAME, UNRECOGNISED_FORMAT, handoff_file, messages, payload, universal
from handoffaudit.validation.formats.schema_check import SCHEMA_MISSING
from handoffaudit.validation.issues import Code, Issue, Severity, limit_issues, make
from handoffaudit.validation.json_text import JSON_PARSE, compact, has_data
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.paths import at, last_name
from handoffaudit.validation.record import Record, hands_over, placer

name: Final = "structure"

EMPTY_DATA: Final = Code(
    "structure.empty_data",
    Severity.WARNING,
    "Empty data",
    what="The handoff passes no data on: the data is empty, or has only empty values.",
    why="The next agent starts without the work of this one, and nothing can be checked.",
    hint="Send what the next agent needs, for example the last message of this agent.",
)
CODES: Final = (
    JSON_PARSE,
    UNRECOGNISED_FORMAT,
    *messages.CODES,
    universal.VERSION_MISMATCH,
    payload.SOURCE_NOT_IN_CHAIN,
    universal.GENERATED_TRACE_ID,
    SCHEMA_MISSING,
    EMPTY_DATA,
)

_ABSENT: Final = object()


def skip(subject: Subject) -> str | None:
    return None


def check(subject: Subject) -> Iterable[Issue]:
    yield from limit_issues(BY_NAME[subject.record.format].check(subject.record))
    report = subject.record.original_document
    if subject.demands.strict_files and subject.record.format == handoff_file.NAME and report is not None:
        yield from handoff_file.strict_issues(report)
    yield from _check_schemas(subject)
    yield from _empty_data(subject.record)


def _empty_data(record: Record) -> Iterator[Issue]:
    """Yield a warning if the data is empty. Data that is missing or of a wrong type is reported by the format."""
    place = BY_NAME[record.format].places.data
    given = at(record.document, place, _ABSENT) if place else _ABSENT
    if place is None or not (given is None or isinstance(given, dict | str)) or has_data(record):
        return
    if not given:
        state = f"is {compact(given).decode()}"
    else:
        state = "contains only blanks" if isinstance(given, str) else "has only empty values"
    yield make(EMPTY_DATA, location=place, message=f"{last_name(place)} {state}.", actual=given)


def _check_schemas(subject: Subject) -> Iterator[Issue]:
    """Yield the issues of the registered schema, then the additional issues of the sender's own schema.

    Data that is not an object, a text or null is ignored, because the format already reports it.
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
