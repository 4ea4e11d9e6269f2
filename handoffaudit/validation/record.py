"""The record (the common form of documents in all formats), the envelope, and places in a document."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from handoffaudit.validation.issues import Issue
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.text import trace_name


class Envelope(msgspec.Struct, frozen=True):
    """The fields that a submission sends beside its document. A field that was not sent is None.

    `agent` is the source of a document that names no source. `sent_at` is the time of the handoff in UTC, given by
    senders that submit handoffs later. `reason` is the reason of a handoff whose document gives no reason. `adapt`
    requests that a document of an older version is converted to the supported version.
    """

    context: dict[str, Any] | None = None
    evidence: list[Any] | None = None
    trace_id: str | None = None
    parent_handoff_id: str | None = None
    retry_of: str | None = None
    step: int | None = None
    handoff_id: str | None = None
    agent: str | None = None
    sent_at: datetime | None = None
    reason: str | None = None
    adapt: bool = False


class Record(msgspec.Struct, frozen=True):
    """A handoff as the layers see it. Texts and lists are empty if the sender gave no usable value.

    `document` is the judged document: the parsed document as it arrived, or a document derived from it. In the second
    case, `original_document` is the document that arrived. `data_place` is None if the data is an object. If the
    document has a text or null as its data, `data_place` is the place of this value, and a text is judged as
    `{"text": …}`. `handoff_id` and `tenant_id` are None if the document has none. `expected_schema` is the JSON Schema
    that the sender wants the data checked against. A `trace_id` that is a UUID is always in lower case.
    """

    format: str
    document: dict[str, Any]
    handoff_id: str | None
    tenant_id: str | None
    handoff_type: str
    source_agent_id: str
    target_agent_id: str
    call_chain: tuple[str, ...]
    trace_id: str
    data: dict[str, Any]
    parent_handoff_id: str = ""
    retry_of: str = ""
    step: int | None = None
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    context_refs: tuple[str, ...] = ()
    evidence: tuple[Any, ...] = ()
    confidence: float | None = None
    timestamp: datetime | None = None
    expires_at: datetime | None = None
    handoff_reason: str = ""
    user_approved: bool = False
    expected_schema: dict[str, Any] | bool | None = None
    original_document: dict[str, Any] | None = None
    data_place: Location | None = None

    def __post_init__(self) -> None:
        name = trace_name(self.trace_id)
        if name != self.trace_id:
            msgspec.structs.force_setattr(self, "trace_id", name)

    @property
    def arrived(self) -> dict[str, Any]:
        """Return the parsed document as it arrived."""
        return self.document if self.original_document is None else self.original_document


class Reading(msgspec.Struct, frozen=True):
    """The result of reading a document: either a record, or the issues that explain why it cannot be read."""

    record: Record | None
    issues: tuple[Issue, ...] = ()
    format: str = ""


_DEEPEST = 3

_MOST_LOOKED_AT = 2000


def placer(record: Record) -> Callable[[Location], Location]:
    """Return a function that maps a place in the data to the same place in the document.

    The data is a part of the document, or, for `delegation`, built from several parts. The values of the data are
    found in the document by identity. If the data is a text, every place in the data is the place of the text.
    """
    if (text_place := record.data_place) is not None:
        return lambda _: text_place
    root = _find(record.document, record.data, _DEEPEST)
    if root is not None:
        return lambda location: (*root, *location)
    parts = {key: _find(record.document, value, _DEEPEST) for key, value in record.data.items()}

    def from_parts(location: Location) -> Location:
        head = parts.get(location[0]) if location and isinstance(location[0], str) else None
        return (*head, *location[1:]) if head is not None else location

    return from_parts


def hands_over(record: Record) -> bool:
    """Return whether the document has an object, a text or null as its data.

    Otherwise, for example if the data is a list, the record has an empty object in place of the data.
    """
    return (
        bool(record.data) or record.data_place is not None or _find(record.document, record.data, _DEEPEST) is not None
    )


def _find(document: Any, wanted: Any, depth: int) -> Location | None:
    """Return the place of the object `wanted` in the document, or None.

    The search goes level by level, `depth` levels deep, and ends at a level with more than 2,000 values.
    """
    if document is wanted:
        return ()
    level: list[tuple[Location, Any]] = [((), document)]
    for _ in range(depth):
        below: list[tuple[Location, Any]] = []
        for place, parent in level:
            if not isinstance(parent, dict):
                continue
            for key, value in parent.items():
                if value is wanted:
                    return (*place, key)
                below.append(((*place, key), value))
                if len(below) > _MOST_LOOKED_AT:
                    return None
        level = below
    return None


# The steps are `["unit price"]`, `['unit price']`, `[0]`, and the text between dots and brackets.
_STEP = re.compile(r"""\["((?:[^"\\]|\\.)*)"\]|\['((?:[^'\\]|\\.)*)'\]|\[(\d{1,6})\]|([^.\[\]]+)""")

_ESCAPED = re.compile(r"\\(.)")

_MOST_PLACES = 5000

_LONGEST_FIELD = 1000

_LONGEST_INTEGER = 190

# The inexact search for a quotation reads only this many characters of a text.
_MOST_COMPARED = 100_000

_ROOTS = frozenset({"data", "payload", "output", "document", "deliverable", "root", "$", "#", ""})

_AROUND = "\"'`\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019"

_CUT = ("…", "...")


def place_of(field: str, quote: str, data: Any) -> Location:
    """Return the location in `data` that an LLM means by a path and a quotation.

    The location is the first value below the path that contains the quotation, or else the path itself. If the path
    does not exist, the location is the first value anywhere that contains the quotation, or else the root. Paths may
    have any form that LLMs write: `items[0].price`, `$.items[0]`, `/items/0/price`, `items.0["unit price"]`. A leading
    name for the whole data, such as `data` or `$`, is ignored if no such field exists.
    """
    named = _find_field(field[:_LONGEST_FIELD], data)
    if named is None:
        return _find_quote(quote, data) or ()
    inner = _find_quote(quote, at(data, named))
    return (*named, *inner) if inner else named


def span_of(quote: str, location: Location, document: Any) -> list[int] | None:
    """Return start and end of the quotation in the text at `location`, or None if the text lacks the quotation."""
    text = at(document, location)
    found = _match_quote(quote, text) if isinstance(text, str) else None
    return list(found) if found else None


def _find_field(field: str, data: Any) -> Location | None:
    """Return the place that a path leads to, or None if the path leads nowhere."""
    for reading in _readings(field.strip()):
        steps = reading
        while steps:
            location = _follow(steps, data)
            if location is not None:
                return location
            steps = steps[1:] if steps[0] in _ROOTS else []
    return None


def _readings(field: str) -> Iterator[list[str]]:
    """Yield the steps of a path for each possible notation. A key itself may contain dots and slashes."""
    yield [field]
    yield [_plain(*groups) for groups in _STEP.findall(field)]
    if "/" in field:
        yield [step.replace("~1", "/").replace("~0", "~") for step in field.split("/")]


def _plain(double: str, single: str, position: str, plain: str) -> str:
    return position or plain.strip() or _ESCAPED.sub(r"\1", double or single)


def _follow(steps: list[str], data: Any) -> Location | None:
    """Return the location at the end of the steps, or None. `0` is a position in a list and a key in an object."""
    location: list[str | int] = []
    value = data
    for step in steps:
        if isinstance(value, dict) and step in value:
            location.append(step)
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and len(step) <= 6 and int(step) < len(value):
            location.append(int(step))
            value = value[int(step)]
        else:
            return None
    return tuple(location)


def _find_quote(quote: str, data: Any) -> Location | None:
    """Return the place of the first value that contains the quotation.

    The search goes level by level, so that a deep document costs no more than a flat document. Return None if none of
    the first 5,000 values contains the quotation, or if the quotation is empty.
    """
    level: list[tuple[Location, Any]] = [((), data)] if _bare(quote) else []
    looked_at = 0
    while level:
        below: list[tuple[Location, Any]] = []
        for place, value in level:
            looked_at += 1
            if looked_at > _MOST_PLACES:
                return None
            if _holds(value, quote):
                return place
            below += ((((*place, key)), inner) for key, inner in _children(value))
        level = below[:_MOST_PLACES]
    return None


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _holds(value: Any, quote: str) -> bool:
    if isinstance(value, str):
        return _match_quote(quote, value) is not None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (isinstance(value, float) or value.bit_length() <= _LONGEST_INTEGER) and str(value) == _bare(quote)


def _match_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return start and end of the quotation in a text, or None.

    The first search is for the quotation as written. The second search ignores enclosing quotation marks, an ellipsis
    at the end, case, and differences in white space.
    """
    if quote and (start := text.find(quote)) >= 0:
        return start, start + len(quote)
    words = _bare(quote).split()
    compared = text[:_MOST_COMPARED]
    # This comparison comes first, because hardly any text contains the quotation and the pattern is a hundred times
    # slower.
    if not words or " ".join(words).lower() not in " ".join(compared.split()).lower():
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), compared, re.IGNORECASE)
    return found.span() if found else None


def _bare(quote: str) -> str:
    text = quote.strip().strip(_AROUND)
    for mark in _CUT:
        text = text.removesuffix(mark)
    return text.strip()
