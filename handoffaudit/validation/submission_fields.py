"""What is wrong with the fields of a submission itself, said as it is of a document's: every one, with its value."""

from collections.abc import Container, Iterator, Mapping
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
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "object": (dict,),
    "array": (list,),
    "integer": (int, float),
    "boolean": (bool,),
}
_OPENED: Final[Mapping[bytes, object]] = {b"{": {}, b"[": []}
_IN_THE_DATA: Final = frozenset({"assumptions", "evidence_refs"})


def field_issues(fields: Mapping[str, msgspec.Raw]) -> Iterator[Issue]:
    """The fields that can't be read or are of the wrong type, in the order of those known; then the first of those that
    are unknown."""
    for name in _FIELDS:
        raw = bytes(fields.get(name, b""))
        if raw and (issue := _field_issue(name, raw)):
            yield issue
    for name in islice((name for name in fields if name not in FIELDS), _MOST_UNKNOWN):
        yield _unknown(name, fields)


def wrong_type(name: str, value: Any) -> Issue:
    """That a field holds a value of another type than its own."""
    wanted, example = _FIELDS[name]
    # one text made a list would be a piece of evidence that nothing can cite
    is_convertible = wanted != "array"
    such_as = f", for example {example}"
    return type_issue((name,), [wanted], value, such_as, is_convertible=is_convertible, part="envelope")


def _field_issue(name: str, raw: bytes) -> Issue | None:
    wanted, _ = _FIELDS[name]
    opened = _OPENED.get(raw[:1])
    if opened is not None and isinstance(opened, _TYPES[wanted]):
        return None
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:
        return _unreadable(name, raw) if opened is None else wrong_type(name, opened)
    return None if _is(value, wanted) else wrong_type(name, value)


def _is(value: Any, wanted: str) -> bool:
    """Whether a value is of a type, or null where that counts as not given. An integer may be written as 3.0."""
    if value is None:
        return wanted != "boolean"
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted]) and (not isinstance(value, float) or value.is_integer())


def _unreadable(name: str, raw: bytes) -> Issue:
    """That a text or a number can't be read, and where that is."""
    try:
        raw.decode()
    except UnicodeDecodeError as bad:
        # byte 0 is the quote before the text
        reason, hint = f"byte {bad.start:,} of its text is not UTF-8", "Encode it as UTF-8."
    else:
        reason, hint = "its number is too large", f"Give a value such as {_FIELDS[name][1]}."
    message = f"{name} can't be read: {reason}."
    return make("structure.json_parse", location=(name,), message=message, hint=hint, part="envelope")


def _unknown(name: str, given: Container[str]) -> Issue:
    near = closest(name, FIELDS)
    if name in _IN_THE_DATA:
        hint = f"Put it into the document: data.{name} of a payload, handoff.payload.working.{name} of a universal."
    elif near in given:
        hint = f'Remove it: "{near}" is already there.'
    else:
        hint = f'Did you mean "{near}"?' if near else f"Use only {', '.join(FIELDS)}."
    return make(
        "structure.unknown_field",
        location=(name,),
        message=f"The submission has a field {shown(name)} that is not known here.",
        hint=hint,
        part="envelope",
    )
