"""The declarations of a format and of a framework, and functions that several formats use."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from handoffaudit.validation.formats.messages import BAD_FORMAT, EMPTY, TOO_LONG
from handoffaudit.validation.formats.schema_check import Shape
from handoffaudit.validation.issues import Issue, make
from handoffaudit.validation.paths import Location, at, last_name
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import MAX_TEXT, clean_or_empty, is_blank, reason_text, storable
from handoffaudit.validation.times import moment

Document = dict[str, Any]

# Types of handoffs in the records of frameworks.
HANDOFF: Final = "handoff"
DELEGATION: Final = "delegation"
MESSAGE: Final = "message"

# In characters. A longer JSON text, such as the arguments of a tool, is not parsed.
_LONGEST_JSON: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Places:
    """The locations of the fields that the layers read; None if a format has no such field.

    `data` is the part of the data that every handoff fills. Other parts of the data may be left out.
    """

    target: Location
    source: Location | None = None
    chain: Location | None = None
    confidence: Location | None = None
    timestamp: Location | None = None
    expires_at: Location | None = None
    trace_id: Location | None = None
    token_count: Location | None = None
    data: Location | None = None


class Section(msgspec.Struct, frozen=True):
    """A part of a document whose tokens are counted separately. `target` is the recommended token count, or None."""

    value: Any
    target: int | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that the document refers to, and the location of the reference."""

    location: Location
    path: str


@dataclass(frozen=True, slots=True)
class Seal:
    """A part of the document, with the hash and the size that the sender computed for it."""

    value: Any
    declared_hash: str | None
    hash_location: Location
    declared_size: int | None
    size_location: Location


@dataclass(frozen=True, slots=True)
class Variant:
    """A shape of the documents of a format, with an example that `docs/examples/` and the tests use."""

    shape: Shape
    example: Document


@dataclass(frozen=True, slots=True)
class Compression:
    """The parts of a format's document that compression may remove or shorten.

    Compression stops as soon as the document meets its token budget. After a long chain is cut, the parts in `dropped`
    are removed, in the order of `dropped`. One of these parts may be `session`. Instead of being removed, this part can
    be stored as a file in the folder named at `session_path`. The file is then added to the list `files`. Then
    `summary` is cut after a whole sentence, and `prompts` are reduced to their key phrases. The long texts under
    `texts` are summarized by an LLM or cut after a whole sentence.
    """

    dropped: tuple[Location, ...] = ()
    session: Location | None = None
    session_path: Location = ()
    files: Location = ()
    summary: Location | None = None
    prompts: tuple[Location, ...] = ()
    texts: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True)
class RepairRules:
    """The fields of a format's document that a repair keeps or shortens.

    An LLM never changes the `protected` fields, because a change would bypass a check. The LLM could invent an approval
    or a reason, remove a loop from the chain, or adjust a hash. An LLM can change a field of `protected_unless_faulty`
    only if the format of the field is wrong. Checks depend on such a field, or only the sender knows its value.

    Checks compare other fields with the document's evidence, context and references, and with the sender's schema.
    So `compression` must keep the evidence, the context, the references and the schema. The only exception is
    `universal`, whose context may lose the prompt and the success criteria, and whose summary may be shortened.
    """

    protected: tuple[Location, ...]
    protected_unless_faulty: tuple[Location, ...] = ()
    compression: Compression = Compression()


def fields(*paths: str, within: Location = ()) -> tuple[Location, ...]:
    """Return the locations of fields that are named by dotted paths below `within`.

    >>> fields("next", "file.path", within=("report",))
    (('report', 'next'), ('report', 'file', 'path'))
    """
    return tuple((*within, *path.split(".")) for path in paths)


def _no_references(_: Document) -> Iterable[Reference]:
    return ()


def _no_seal(_: Document) -> Seal | None:
    return None


def _no_workflow(_: Document) -> object:
    return None


@dataclass(frozen=True, slots=True)
class Format:
    """The declaration of a format. Each module of this package with a constant `FORMAT` declares one.

    If a submission does not name its format, the formats are tried in the order of `order`.

    - `recognise` returns whether a document has this shape, even if details are wrong.
    - `read` returns the record, with defaults for absent or unusable fields, and never raises for any JSON object.
    - `check` returns the structure issues of the record's document.
    - `sections` returns the parts whose tokens are counted separately.
    - `references` returns the files that a document refers to.
    - `seal` returns the part of a document that the sender hashed or measured, or None if there is none.
    - `workflow` returns the id of the workflow that a document names, or None.

    `clue` names the fields by which documents are recognised. An error message joins the clues of all formats:
    `a payload has "a" and "b"; an output "c"`. A clue that follows another may leave out `has`. `demands_z` is True if
    times must be written with `Z`. `source_leads_chain` is True if the source is the first entry of the chain.
    """

    name: str
    order: int
    variants: tuple[Variant, ...]
    places: Places
    recognise: Callable[[Document], bool]
    read: Callable[[Document, Envelope], Record]
    check: Callable[[Record], Iterable[Issue]]
    sections: Callable[[Document], Mapping[str, Section]]
    repair: RepairRules
    references: Callable[[Document], Iterable[Reference]] = _no_references
    seal: Callable[[Document], Seal | None] = _no_seal
    workflow: Callable[[Document], object] = _no_workflow
    clue: str = ""
    demands_z: bool = False
    source_leads_chain: bool = False


def declared_token_count(form: Format, document: Document) -> int | None:
    """Return the token count that the sender declares, or None if there is none."""
    place = form.places.token_count
    return integer(at(document, place)) if place else None


def integer(value: object) -> int | None:
    """Return an integer in the sense of JSON Schema (3 and 3.0, but not true), or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def obj(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def names(value: object) -> tuple[str, ...]:
    """Return the cleaned strings of a list, without items of other types; an empty tuple if `value` is no list."""
    if value and isinstance(value, list) and isinstance(value[0], str):
        try:
            whole = "".join(value)
        except TypeError:
            pass
        else:
            if len(whole) <= MAX_TEXT and whole.isprintable():
                return tuple(value)
    return tuple([clean_or_empty(item) for item in entries(value) if isinstance(item, str)])


CONFIDENCE: Final = {"high": 0.9, "medium": 0.6, "low": 0.3}


def confidence(value: object) -> float | None:
    """Return a confidence, given as a number from 0 to 1 or as a word; None for anything else."""
    if isinstance(value, str):
        return CONFIDENCE.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def reason(value: object, envelope: Envelope) -> str:
    """Return the reason in the document, or the reason in the envelope if the document gives no reason."""
    return (reason_text(value) if value else "") or (reason_text(envelope.reason) if envelope.reason else "")


def envelope_fields(envelope: Envelope) -> dict[str, Any]:
    """Return the fields of the record that come from the envelope."""
    return {
        "parent_handoff_id": clean_or_empty(envelope.parent_handoff_id) if envelope.parent_handoff_id else "",
        "retry_of": clean_or_empty(envelope.retry_of) if envelope.retry_of else "",
        "step": envelope.step,
        "evidence": tuple(envelope.evidence or ()),
    }


def id_issues(document: Document, places: Iterable[Location]) -> Iterable[Issue]:
    """Yield an issue for each name or id that is too long, or holds characters that cannot be stored.

    If a location holds a list, each item of the list is checked.
    """
    for place in places:
        value = at(document, place)
        if isinstance(value, list):
            for index, item in enumerate(value):
                if not _fits(item):
                    yield from _id_issue((*place, index), item)
        elif not _fits(value):
            yield from _id_issue(place, value)


def blank_issues(document: Document, place: Location) -> Iterable[Issue]:
    """Yield an issue if a name has nothing but blanks; the schema already reports a name without any character."""
    value = at(document, place)
    if isinstance(value, str) and value and is_blank(value):
        yield make(
            EMPTY,
            location=place,
            message=f"{last_name(place)} contains only blanks.",
            hint="Give at least one character that is not a blank.",
            expected="at least one character that is not a blank",
            actual=value,
        )


def _fits(value: object) -> bool:
    return not isinstance(value, str) or (len(value) <= MAX_TEXT and storable(value))


def _id_issue(place: Location, value: str) -> Iterable[Issue]:
    if len(value) > MAX_TEXT:
        yield make(
            TOO_LONG,
            location=place,
            message=f"{last_name(place)} is {len(value):,} characters long, {len(value) - MAX_TEXT:,} over the limit "
            f"of {MAX_TEXT} for names and ids.",
            hint=f"Use a name or id of at most {MAX_TEXT} characters.",
            expected=MAX_TEXT,
            actual=len(value),
        )
    else:
        yield make(
            BAD_FORMAT,
            location=place,
            message=f"{last_name(place)} contains a NUL character or half a surrogate pair, which is not "
            "allowed in names and ids.",
            hint="Remove the character from the name or id.",
            actual=value,
        )


@dataclass(frozen=True, slots=True)
class NativeHandoff:
    """A handoff in the record of a framework.

    The values are neither checked nor cleaned. A value that the record does not have is falsy, such as None.
    `source_at` and `target_at` are the places of the agents in the document, even if the agents are missing there.
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
    """An agent framework, and how to read its records.

    `find` returns the handoff of a record, or None. `resembles` returns whether a document looks like a record of the
    framework; for a handoff, the result does not matter. Neither function raises for any JSON object. In messages,
    `name` completes "The document resembles …". `wanted` completes "Send …", and names what can be read as a handoff.
    """

    name: str
    wanted: str
    find: Callable[[Document], NativeHandoff | None]
    resembles: Callable[[Document], bool]


def json_object(value: object) -> dict[str, Any]:
    """Return `value` if it is an object, the object in `value` if it is a JSON text, and else an empty object."""
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
    # A number outside the years 1970 to 2099 is not the time of a handoff, and may be beyond the calendar.
    return datetime.fromtimestamp(value, UTC) if 0 < value < 4_102_444_800 else None


def text_data(value: object) -> dict[str, Any]:
    """Return an object that holds the text under `text`; an empty object if `value` is blank or not a text."""
    return {"text": value} if isinstance(value, str) and value.strip() else {}
