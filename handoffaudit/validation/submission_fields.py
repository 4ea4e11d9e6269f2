"""What is wrong with the fields of a submission itself, said as it is of a document's: every one, with its value."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from handoffaudit.validation.codes import make
from handoffaudit.validation.formats.wording import type_issue
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.text import closest, shown

UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_MOST_UNKNOWN = 20
_NAME: Final = ("string", '"h-2026-0001"')
_SWITCH: Final = ("boolean", "true")
# besides `document`: the JSON type of each, and an example
_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "format": ("string", '"payload"'),
    "context": ("object", '{"question": "…"}'),
    "evidence": ("array", '[{"source": "offers", "content": "…"}]'),
    "trace_id": _NAME,
    "parent_handoff_id": _NAME,
    "retry_of": _NAME,
    "handoff_id": _NAME,
    "agent": ("string", '"researcher"'),
    "step": ("integer", "3"),
    "adapt": _SWITCH,
    "repair": _SWITCH,
}
FIELDS: Final = ("document", *_FIELDS)
_IN_THE_DATA: Final = frozenset({"assumptions", "evidence_refs"})


def field_issues(fields: Mapping[str, msgspec.Raw]) -> Iterator[Issue]:
    """The fields that are of the wrong type, in the order of those known; then the first of those that are unknown."""
    for name, (wanted, _) in _FIELDS.items():
        raw = bytes(fields.get(name, b""))
        if raw and not _is(raw, wanted):
            yield wrong_type(name, _value(raw))
    for name in islice((name for name in fields if name not in FIELDS), _MOST_UNKNOWN):
        yield _unknown(name)


def wrong_type(name: str, value: Any) -> Issue:
    """That a field holds a value of another type than its own."""
    wanted, example = _FIELDS[name]
    return type_issue((name,), [wanted], value, f", for example {example}", part="envelope")


def _is(raw: bytes, wanted: str) -> bool:
    """Whether JSON is of a type, or null where that counts as not given."""
    if raw == b"null":
        return wanted != "boolean"
    first = raw[:1]
    if wanted == "integer":
        return first in b"-0123456789" and not set(b".eE").intersection(raw)
    return first in {"string": b'"', "object": b"{", "array": b"[", "boolean": b"tf"}[wanted]


def _value(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return {} if raw.startswith(b"{") else []


def _unknown(name: str) -> Issue:
    near = closest(name, FIELDS)
    if name in _IN_THE_DATA:
        hint = f"Put it into the document: data.{name} of a payload, handoff.payload.working.{name} of a universal."
    else:
        hint = f'Did you mean "{near}"?' if near else f"Use only {', '.join(FIELDS)}."
    return make(
        "structure.unknown_field",
        location=(name,),
        message=f"The submission has a field {shown(name)} that is not known here.",
        hint=hint,
        part="envelope",
    )
