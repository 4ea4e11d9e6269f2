"""The interface of a format: a module of this package that satisfies `Format`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from handoffaudit.validation.formats.messages import BAD_FORMAT, EMPTY, TOO_LONG
from handoffaudit.validation.issues import Issue, make
from handoffaudit.validation.paths import Location, at, last_name
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import MAX_TEXT, clean, clean_or_empty, is_blank, storable

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Places:
    """The locations of the fields that the layers read; None if a format has no such field."""

    target: Location
    chain: Location | None = None
    confidence: Location | None = None
    timestamp: Location | None = None
    expires_at: Location | None = None
    trace_id: Location | None = None
    token_count: Location | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document whose tokens are counted separately; `target` is in tokens, None if there is none."""

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


class Format(Protocol):
    """A format of handoffs.

    `DEMANDS_Z` is True if times must be written with `Z`. `SOURCE_LEADS_CHAIN` is True if the source is the first entry
    of the chain.
    """

    @property
    def NAME(self) -> str: ...  # noqa: N802  (a constant of the module)
    @property
    def PLACES(self) -> Places: ...  # noqa: N802
    @property
    def DEMANDS_Z(self) -> bool: ...  # noqa: N802
    @property
    def SOURCE_LEADS_CHAIN(self) -> bool: ...  # noqa: N802

    def recognise(self, document: Document) -> bool:
        """Return whether the document has this shape, even if details are wrong."""
        ...

    def read(self, document: Document, envelope: Envelope) -> Record:
        """Return the record, with defaults for absent or unusable fields; never raise for any JSON object."""
        ...

    def check(self, record: Record) -> Iterable[Issue]:
        """Return the structure issues of the record's document."""
        ...

    def sections(self, document: Document) -> Mapping[str, Section]:
        """Return the parts whose tokens are counted separately."""
        ...

    def references(self, document: Document) -> Iterable[Reference]:
        """Return the files that the document refers to."""
        ...

    def seal(self, document: Document) -> Seal | None:
        """Return the part of the document that the sender hashed or measured, or None if there is none."""
        ...


def declared_token_count(form: Format, document: Document) -> int | None:
    """Return the token count that the sender declares, or None if there is none."""
    place = form.PLACES.token_count
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
    """Return the strings of a list, without items of any other type."""
    return tuple([clean(item) for item in entries(value) if isinstance(item, str)])


CONFIDENCE: Final = {"high": 0.9, "medium": 0.6, "low": 0.3}


def confidence(value: object) -> float | None:
    """Return a confidence, given as a number from 0 to 1 or as a word; None for anything else."""
    if isinstance(value, str):
        return CONFIDENCE.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def envelope_fields(envelope: Envelope) -> dict[str, Any]:
    """Return the fields of the record that only the envelope has."""
    return {
        "parent_handoff_id": clean_or_empty(envelope.parent_handoff_id),
        "retry_of": clean_or_empty(envelope.retry_of),
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
