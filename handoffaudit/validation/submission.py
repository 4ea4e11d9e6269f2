"""What was sent, cut into the document and what stands beside it. The document's bytes are kept as they came."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from handoffaudit.validation.codes import make
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.reading import MAX_DEPTH, could_be_deeper, deeper_than
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission_fields import UNREADABLE, field_issues, wrong_type
from handoffaudit.validation.text import MAX_TEXT, shown, storable

__all__ = ["UNREADABLE", "Submission", "fields_of", "read_submission", "usable_text"]

_BOM = b"\xef\xbb\xbf"
_TEXTS = ("format", "trace_id", "parent_handoff_id", "retry_of", "handoff_id", "agent")


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    document: msgspec.Raw
    format: str | None = None
    # Empty where it was not given.
    context: msgspec.Raw = msgspec.Raw()
    evidence: msgspec.Raw = msgspec.Raw()
    trace_id: str | None = None
    parent_handoff_id: str | None = None
    retry_of: str | None = None
    handoff_id: str | None = None
    agent: str | None = None
    step: int | float | None = None
    adapt: bool = False
    repair: bool = False


_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENVELOPE = msgspec.json.Decoder(_Wrapped)


@dataclass(frozen=True, slots=True)
class Submission:
    """One document as it arrived (`document`, exact bytes) and its envelope; `repair`: what is rejected is to be
    repaired; `issues` say what of the envelope can't be read, and then `document` is all that was sent."""

    document: bytes
    format: str | None = None
    context: bytes | None = None
    evidence: bytes | None = None
    envelope: Envelope = field(default_factory=Envelope)
    repair: bool = False
    issues: tuple[Issue, ...] = ()


def read_submission(
    sent: bytes,
    declared_format: str | None = None,
    handoff_id: str | None = None,
    *,
    max_nesting: int = MAX_DEPTH,
) -> Submission:
    """With a declared format, or without a `document` in it, what was sent is the bare document. `handoff_id` names one
    that has no id of its own; `max_nesting`: how many levels deep the context and the evidence may be."""
    otherwise = _usable(handoff_id)
    if declared_format is not None:
        return Submission(document=sent, format=declared_format, envelope=Envelope(handoff_id=otherwise))
    plain = sent.removeprefix(_BOM)
    try:
        wrapped = _ENVELOPE.decode(plain)
    except UNREADABLE:
        return _not_unwrapped(sent, plain, otherwise)
    return _unwrapped(sent, wrapped, otherwise, max_nesting)


def _not_unwrapped(sent: bytes, plain: bytes, otherwise: str | None) -> Submission:
    """A bare document, or an envelope with something wrong in it."""
    bare = Submission(document=sent, envelope=Envelope(handoff_id=otherwise))
    try:
        fields = fields_of(plain)
    except UNREADABLE:
        return bare
    if "document" not in fields:
        return bare
    # Its id counts all the same: sent again, it is the same finding and not another one.
    named = Envelope(handoff_id=usable_text(fields.get("handoff_id")) or otherwise)
    return Submission(document=sent, envelope=named, issues=tuple(field_issues(fields)) or (_unreadable(),))


def fields_of(sent: bytes) -> dict[str, msgspec.Raw]:
    """Each field of what was sent, as its bytes. Raises one of `UNREADABLE`."""
    return _NAMES.decode(sent.removeprefix(_BOM))


def usable_text(raw: msgspec.Raw | None) -> str | None:
    """The text that a field holds, where it is one that names and ids can be."""
    try:
        return _usable(msgspec.json.decode(raw, type=str)) if raw is not None else None
    except UNREADABLE:
        return None


def _usable(text: str | None) -> str | None:
    return text if text and len(text) <= MAX_TEXT and storable(text) else None


def _unwrapped(sent: bytes, wrapped: _Wrapped, otherwise: str | None, max_nesting: int) -> Submission:
    named = _usable(wrapped.handoff_id) or otherwise
    issues = [issue for name in _TEXTS if (issue := _text_issue(name, getattr(wrapped, name)))]
    raw_context, raw_evidence = bytes(wrapped.context), bytes(wrapped.evidence)
    context = _json_field(raw_context, "context", dict, max_nesting)
    evidence = _json_field(raw_evidence, "evidence", list, max_nesting)
    step = _step_of(wrapped.step)
    issues += [part for part in (context, evidence, step) if isinstance(part, Issue)]
    if issues:
        return Submission(document=sent, envelope=Envelope(handoff_id=named), issues=tuple(issues))
    return Submission(
        document=bytes(wrapped.document),
        format=wrapped.format,
        context=raw_context if context else None,
        evidence=raw_evidence if evidence else None,
        envelope=Envelope(
            context=context or None,
            evidence=evidence or None,
            trace_id=wrapped.trace_id,
            parent_handoff_id=wrapped.parent_handoff_id,
            retry_of=wrapped.retry_of,
            step=step,
            handoff_id=named,
            agent=wrapped.agent,
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
        said, hint = f"{name} is not JSON: {_place(raw) or error.msg}", f"Send {name} as JSON in UTF-8."
        return _wrong(name, "structure.json_parse", said, hint=hint)
    if value is not None and not isinstance(value, kind):
        return wrong_type(name, value)
    if could_be_deeper(raw, max_nesting) and deeper_than(value, max_nesting):
        said, hint = f"{name} is nested more than {max_nesting} levels deep", f"Flatten {name} to at most that."
        return _wrong(name, "structure.json_parse", said, hint=hint)
    return value


def _place(raw: bytes) -> str:
    """Where it is no text; empty where it is."""
    try:
        raw.decode()
    except UnicodeDecodeError as bad:
        return f"its byte {bad.start:,} is not UTF-8"
    return ""


def _text_issue(name: str, value: str | None) -> Issue | None:
    if value is None:
        return None
    if len(value) > MAX_TEXT:
        said = f"{name} has {len(value):,} characters; {MAX_TEXT} are the most"
        return _wrong(name, "structure.too_long", said, expected=MAX_TEXT, actual=len(value))
    if "\x00" in value:
        return _wrong(name, "structure.bad_format", f"{name} holds a NUL character", actual=value, hint="Take it out.")
    return None


def _step_of(number: float | None) -> Any:
    """The number of a step; 3.0 is 3, as in a document."""
    if number is None:
        return None
    if isinstance(number, float) and not number.is_integer():
        return wrong_type("step", number)
    step = int(number)
    if -(2**31) <= step < 2**31:
        return step
    said = f"step is {shown(step)}, which is no step number"
    limits = {"minimum": -(2**31), "maximum": 2**31 - 1}
    return _wrong("step", "structure.out_of_range", said, expected=limits, actual=step)


def _wrong(name: str, code: str, message: str, **said: Any) -> Issue:
    return make(code, location=(name,), message=message + ".", part="envelope", **said)


def _unreadable() -> Issue:
    hint = "See that each of its fields is given once, and is right wherever it is given."
    return make("structure.json_parse", message="The submission can't be read.", hint=hint, part="envelope")
