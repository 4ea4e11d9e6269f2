"""The formats of a handoff: each module of this package that declares a `FORMAT`."""

from collections.abc import Mapping
from importlib import import_module
from itertools import islice
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

from handoffaudit.validation.formats import framework
from handoffaudit.validation.formats.base import Format, Framework
from handoffaudit.validation.formats.messages import not_an_object
from handoffaudit.validation.formats.schema_check import load_schema
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, too_deep
from handoffaudit.validation.paths import at
from handoffaudit.validation.record import Envelope, Reading, Record
from handoffaudit.validation.text import clean_or_empty, closest, either, show

UNRECOGNISED_FORMAT: Final = Code(
    "structure.unrecognised_format",
    Severity.ERROR,
    "Unrecognised format",
    what="The document does not match any supported format, or it names an unknown format.",
    why="Without a known format, the source, the target and the data of the handoff cannot be found.",
    hint="Name the format of the submission, and fill in the fields of that format.",
)

__all__ = [
    "BY_NAME",
    "FORMATS",
    "SCHEMA_NAMES",
    "Format",
    "derives_chain",
    "describe_names",
    "read",
    "schema",
    "workflow_of",
]


def _find_formats() -> tuple[Format, ...]:
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    declared = [module.FORMAT for module in modules if isinstance(getattr(module, "FORMAT", None), Format)]
    return tuple(sorted(declared, key=lambda form: (form.order, form.name)))


# The formats are tried in this order if a submission does not name its format.
FORMATS: Final[tuple[Format, ...]] = _find_formats()

BY_NAME: Final[Mapping[str, Format]] = MappingProxyType({form.name: form for form in FORMATS})

# The format that most senders start with comes first.
_PUBLISHED: Final[tuple[Format, ...]] = tuple(sorted(FORMATS, key=lambda form: form.name != "payload"))

SCHEMA_NAMES: Final = tuple(variant.shape.name for form in _PUBLISHED for variant in form.variants)


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of that name, as a separate copy for each caller.

    Raises KeyError if no format has a schema of that name. Raises OSError if the file of the schema cannot be read, and
    ValueError if the file is not JSON.
    """
    if name not in SCHEMA_NAMES:
        raise KeyError(name)
    return load_schema(name)


def describe_names() -> str:
    """Return the names of all formats as `a, b or c`, names of one word first."""
    return either(sorted((form.name for form in _PUBLISHED), key=lambda name: "-" in name))


def read(
    document: object, declared_format: str | None, envelope: Envelope, *, checked_depth: int | None = None
) -> Reading:
    """Return the record of a parsed document, or the issues that explain why it cannot be read.

    An object with a declared format is read in this format, whatever its fields; the structure layer then reports how
    the object differs from the format. `checked_depth` is the limit of nesting that the parser of the document has
    checked, or None if the parser checked no limit.
    """
    if declared_format is not None and declared_format not in BY_NAME:
        return Reading(None, (_report_unknown_format(declared_format),))
    if not isinstance(document, dict):
        return Reading(None, (not_an_object(document),), declared_format or "")
    if (checked_depth is None or checked_depth > MAX_DEPTH) and deeper_than(document, MAX_DEPTH):
        return Reading(None, (too_deep(),), declared_format or "")
    form = BY_NAME[declared_format] if declared_format is not None else _find_format(document)
    # If a record of a framework is not a handoff, the record must not pass as a handoff in another format.
    may_be_native = declared_format is None and (form is None or form.order > framework.FORMAT.order)
    if may_be_native and (near := framework.find_resembling(document)):
        return Reading(None, (_report_native(near),))
    if form is None:
        return Reading(None, (_report_unrecognised(document),))
    return Reading(form.read(document, envelope), format=form.name)


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


def _report_native(near: Framework) -> Issue:
    return make(
        UNRECOGNISED_FORMAT,
        message=f"The document resembles {near.name}, but is not a handoff that can be read.",
        hint=f"Send {near.wanted}.",
        expected=near.wanted,
    )


def _report_unrecognised(document: dict[str, object]) -> Issue:
    fields = ", ".join(show(name) for name in islice(document, 5)) or "none"
    return make(
        UNRECOGNISED_FORMAT,
        message=f"The document matches none of the supported formats: {_list_formats()}. Its fields: {fields}.",
        hint=f"{_describe_fields()}. If you name the format of the submission, the server lists the missing fields.",
        expected=list(BY_NAME),
        tried=list(BY_NAME),
    )


def _list_formats() -> str:
    return ", ".join(BY_NAME)


def _describe_fields() -> str:
    """Return a sentence that names the fields by which each format is recognised."""
    # Clauses with the verb come first, because a clause without a verb takes the verb of the clause before it.
    clues = sorted((form.clue for form in FORMATS if form.clue), key=lambda clue: " has " not in clue)
    sentence = "; ".join(clues)
    return sentence[:1].upper() + sentence[1:]


def derives_chain(record: Record) -> bool:
    """Return whether the document declares no chain although its format has a place for a chain.

    The chain of such a handoff is derived from its trace and its parents.
    """
    place = BY_NAME[record.format].places.chain
    return place is not None and at(record.document, place, _ABSENT) is _ABSENT


_ABSENT: Final = object()


def workflow_of(record: Record) -> str:
    """Return the id of the workflow as senders write it, empty if no workflow is named.

    Some formats have a field for the id. In any format, the context may name the id. A trace or a session is one run,
    not a workflow.
    """
    form = BY_NAME.get(record.format)
    found = (form.workflow(record.document) if form else None, record.context.get("workflow_id"))
    return next((text for text in map(clean_or_empty, found) if text), "")
