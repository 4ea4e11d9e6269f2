"""The submission, split into its document, whose bytes stay unchanged, and its envelope."""

from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
import orjson

from handoffaudit.validation.formats.messages import BAD_FORMAT, OUT_OF_RANGE, TOO_LONG, UNKNOWN_FIELD, type_issue
from handoffaudit.validation.issues import Code, Issue, make
from handoffaudit.validation.json_text import JSON_PARSE, MAX_DEPTH, could_be_deeper, deeper_than
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.text import MAX_TEXT, closest, reason_text, show, storable
from handoffaudit.validation.times import moment

UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_MOST_UNKNOWN = 20

_NAME: Final = ("string", '"h-2026-0001"')

_SWITCH: Final = ("boolean", "true")

# The JSON type and an example of each field except `document`.
_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "format": ("string", '"payload"'),
    "context": ("object", '{"question": "…"}'),
    "evidence": ("array", '[{"source": "offers", "content": "…"}]'),
    "tool_results": ("array", '[{"tool": "get_order", "call_id": "call_17", "at": "…", "result": …}]'),
    "trace_id": _NAME,
    "parent_handoff_id": _NAME,
    "retry_of": _NAME,
    "handoff_id": _NAME,
    "agent": ("string", '"researcher"'),
    "sent_at": ("string", '"2026-02-15T00:15:00Z"'),
    "reason": ("string", '"The figures need a second check."'),
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

# Fields of a document in the format payload, by the names under which senders write them beside it.
_IN_THE_DOCUMENT: Final[Mapping[str, str]] = {
    "source": "source_agent_id",
    "target": "target_agent_id",
    "type": "handoff_type",
    **{
        name: name for name in ("source_agent_id", "target_agent_id", "tenant_id", "handoff_type", "call_chain", "data")
    },
    **{name: name for name in ("timestamp", "handoff_reason", "user_approved", "context_refs", "confidence")},
}


def field_issues(fields: Mapping[str, msgspec.Raw]) -> Iterator[Issue]:
    """Yield the issues of fields that cannot be read or have a wrong type, then the issues of unknown fields.

    Known fields come in their documented order. Only the first 20 unknown fields are reported.
    """
    for name in _FIELDS:
        raw = bytes(fields.get(name, b""))
        if raw and (issue := _field_issue(name, raw)):
            yield issue
    for name in islice((name for name in fields if name not in FIELDS), _MOST_UNKNOWN):
        yield _report_unknown_field(name, fields)


def wrong_type(name: str, value: Any) -> Issue:
    """Return the issue of a field that holds a value of a wrong type."""
    wanted, example = _FIELDS[name]
    # Do not suggest a list with the text as its entry, because claims cannot cite evidence that is only a text.
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
        return _unreadable_field(name, raw) if opened is None else wrong_type(name, opened)
    return None if _is(value, wanted) else wrong_type(name, value)


def _is(value: Any, wanted: str) -> bool:
    """Return whether a value has the type `wanted`. Null counts as an absent field, but not for a boolean.

    An integer may be written as 3.0.
    """
    if value is None:
        return wanted != "boolean"
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted]) and (not isinstance(value, float) or value.is_integer())


def _unreadable_field(name: str, raw: bytes) -> Issue:
    """Return the issue of a text that is not UTF-8, with its first bad byte, or of a number that is too large."""
    try:
        raw.decode()
    except UnicodeDecodeError as bad:
        # Byte 0 is the quotation mark before the text, so the offset counts the bytes of the text from 1.
        reason, hint = f"byte {bad.start:,} of its text is not UTF-8", "Encode it as UTF-8."
    else:
        reason, hint = "its number is too large", f"Give a value such as {_FIELDS[name][1]}."
    message = f"{name} cannot be read: {reason}."
    return make(JSON_PARSE, location=(name,), message=message, hint=hint, part="envelope")


def _report_unknown_field(name: str, given: Container[str]) -> Issue:
    near = closest(name, FIELDS)
    if name in _IN_THE_DATA:
        places = f"data.{name} in the format payload, handoff.payload.working.{name} in universal"
        hint = f"Put it into the document: {places}."
    elif field := _IN_THE_DOCUMENT.get(name):
        hint = f"Put it into the document: {field} in the format payload."
    elif near in given:
        hint = f'Remove it: "{near}" is already there.'
    else:
        hint = f'Did you mean "{near}"?' if near else f"Use only {', '.join(FIELDS)}."
    return make(
        UNKNOWN_FIELD,
        location=(name,),
        message=f"The submission has an unknown field, {show(name)}.",
        hint=hint,
        part="envelope",
    )


__all__ = ["UNREADABLE", "Submission", "fields_of", "read_submission", "usable_text"]

_BOM = b"\xef\xbb\xbf"

_TEXTS = ("format", "trace_id", "parent_handoff_id", "retry_of", "handoff_id", "agent")


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    document: msgspec.Raw
    format: str | None = None
    # The raw bytes are empty if the field was not given.
    context: msgspec.Raw = msgspec.Raw()
    evidence: msgspec.Raw = msgspec.Raw()
    tool_results: msgspec.Raw = msgspec.Raw()
    trace_id: str | None = None
    parent_handoff_id: str | None = None
    retry_of: str | None = None
    handoff_id: str | None = None
    agent: str | None = None
    sent_at: str | None = None
    reason: str | None = None
    step: int | float | None = None
    adapt: bool = False
    repair: bool = False


_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])

_ENVELOPE = msgspec.json.Decoder(_Wrapped)


class Submission(msgspec.Struct, frozen=True):
    """One document with the exact bytes in which it arrived, and its envelope.

    `tool_results` are the bytes of the field. The caller parses them; the sender's key decides whether they are
    evidence (docs/tool-results.md). With `repair`, a rejected document is repaired. `issues` describe the invalid parts
    of the envelope. If there are issues, `document` holds all bytes that were sent.
    """

    document: bytes
    format: str | None = None
    context: bytes | None = None
    evidence: bytes | None = None
    tool_results: bytes | None = None
    envelope: Envelope = msgspec.field(default_factory=Envelope)
    repair: bool = False
    issues: tuple[Issue, ...] = ()


def read_submission(
    sent: bytes,
    declared_format: str | None = None,
    handoff_id: str | None = None,
    *,
    max_nesting: int = MAX_DEPTH,
) -> Submission:
    """Return the document and its envelope from the bytes that were sent.

    With a declared format, or without a `document` field, the bytes are the document, without an envelope. `handoff_id`
    is used if the submission has no usable id. `max_nesting` is the most levels of lists and objects in the context and
    in the evidence.
    """
    otherwise = _usable(handoff_id)
    if declared_format is not None:
        return Submission(document=sent, format=declared_format, envelope=Envelope(handoff_id=otherwise))
    plain = sent.removeprefix(_BOM)
    try:
        wrapped = _ENVELOPE.decode(plain)
    except UNREADABLE:
        return _read_bare(sent, plain, otherwise)
    return _unwrap(sent, wrapped, otherwise, max_nesting)


def _read_bare(sent: bytes, plain: bytes, otherwise: str | None) -> Submission:
    """Return the bytes as a document without an envelope, or the issues of a malformed envelope."""
    bare = Submission(document=sent, envelope=Envelope(handoff_id=otherwise))
    try:
        fields = fields_of(plain)
    except UNREADABLE:
        return bare
    if "document" not in fields:
        return bare
    # The id is used in spite of the issues, so that sending the same submission again does not create another handoff.
    named = Envelope(handoff_id=usable_text(fields.get("handoff_id")) or otherwise)
    return Submission(document=sent, envelope=named, issues=tuple(field_issues(fields)) or (_unreadable(),))


def fields_of(sent: bytes) -> dict[str, msgspec.Raw]:
    """Return the bytes of each field of a submission. Raises one of the errors in `UNREADABLE`."""
    return _NAMES.decode(sent.removeprefix(_BOM))


def usable_text(raw: msgspec.Raw | None) -> str | None:
    """Return the text of a field, or None if the text is not usable as a name or id."""
    try:
        return _usable(msgspec.json.decode(raw, type=str)) if raw is not None else None
    except UNREADABLE:
        return None


def _usable(text: str | None) -> str | None:
    return text if text and len(text) <= MAX_TEXT and storable(text) else None


def _unwrap(sent: bytes, wrapped: _Wrapped, otherwise: str | None, max_nesting: int) -> Submission:
    known_id = _usable(wrapped.handoff_id) or otherwise
    issues = [issue for name in _TEXTS if (issue := _text_issue(name, getattr(wrapped, name)))]
    raw_context, raw_evidence = bytes(wrapped.context), bytes(wrapped.evidence)
    context = _json_field(raw_context, "context", dict, max_nesting)
    evidence = _json_field(raw_evidence, "evidence", list, max_nesting)
    step, sent_at = _step_of(wrapped.step), _time_of("sent_at", wrapped.sent_at)
    issues += [part for part in (context, evidence, step, sent_at) if isinstance(part, Issue)]
    if issues:
        return Submission(document=sent, envelope=Envelope(handoff_id=known_id), issues=tuple(issues))
    return Submission(
        document=bytes(wrapped.document),
        format=wrapped.format,
        context=raw_context if context else None,
        evidence=raw_evidence if evidence else None,
        tool_results=bytes(wrapped.tool_results) or None,
        envelope=Envelope(
            context=context or None,
            evidence=evidence or None,
            trace_id=wrapped.trace_id,
            parent_handoff_id=wrapped.parent_handoff_id,
            retry_of=wrapped.retry_of,
            step=step,
            handoff_id=known_id,
            agent=wrapped.agent,
            sent_at=sent_at,
            reason=reason_text(wrapped.reason) or None,
            adapt=wrapped.adapt,
        ),
        repair=wrapped.repair,
    )


def _json_field(raw: bytes, name: str, kind: type, max_nesting: int) -> Any:
    if not raw:
        return None
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        message, hint = f"{name} is not JSON: {_place(raw) or error.msg}", f"Send {name} as JSON in UTF-8."
        return _wrong(name, JSON_PARSE, message, hint=hint)
    if value is not None and not isinstance(value, kind):
        return wrong_type(name, value)
    if could_be_deeper(raw, max_nesting) and deeper_than(value, max_nesting):
        message = f"{name} is nested more than {max_nesting} levels deep"
        hint = f"Flatten {name} to at most {max_nesting} levels of lists and objects."
        return _wrong(name, JSON_PARSE, message, hint=hint)
    return value


def _place(raw: bytes) -> str:
    """Describe the position of the first byte that is not UTF-8. Return an empty text if all bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError as bad:
        return f"its byte {bad.start:,} is not UTF-8"
    return ""


def _text_issue(name: str, value: str | None) -> Issue | None:
    if value is None:
        return None
    if len(value) > MAX_TEXT:
        message = f"{name} has {len(value):,} characters; {MAX_TEXT} are allowed"
        return _wrong(name, TOO_LONG, message, expected=MAX_TEXT, actual=len(value))
    if "\x00" in value:
        return _wrong(name, BAD_FORMAT, f"{name} contains a NUL character", actual=value, hint="Remove it.")
    return None


def _step_of(number: float | None) -> Any:
    """Return the step number, or the issue of an invalid number. 3.0 counts as 3, as in a document."""
    if number is None:
        return None
    if isinstance(number, float) and not number.is_integer():
        return wrong_type("step", number)
    step = int(number)
    if -(2**31) <= step < 2**31:
        return step
    message = f"step is {show(step)}, which is not a valid step number"
    limits = {"minimum": -(2**31), "maximum": 2**31 - 1}
    return _wrong("step", OUT_OF_RANGE, message, expected=limits, actual=step)


def _time_of(name: str, text: str | None) -> Any:
    """Return the time in UTC, or the issue of a text that is not an RFC 3339 time with its offset."""
    read = moment(text)
    if text is None or (read and read.offset):
        return read.at if read else None
    message = f"{name} is {show(text)}, which is not an RFC 3339 date and time with an offset"
    return _wrong(name, BAD_FORMAT, message, actual=text, hint=f"Write it as in {_FIELDS[name][1]}.")


def _wrong(name: str, code: Code, message: str, **details: Any) -> Issue:
    return make(code, location=(name,), message=message + ".", part="envelope", **details)


def _unreadable() -> Issue:
    hint = "Make sure that each field occurs once and has a valid value."
    return make(JSON_PARSE, message="The submission cannot be read.", hint=hint, part="envelope")
