"""Exports in the OpenTelemetry protocol (OTLP/HTTP): the spans in protobuf or JSON, and the responses.

Spans are decoded one by one. If an export of millions of empty messages were decoded as a whole, it would take a
hundred times its size in memory.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from handoffaudit.validation.json_text import split_array
from handoffaudit.validation.telemetry.facts import Refused, Roles, Span, read_facts
from handoffaudit.validation.telemetry.outputs import integer_of
from handoffaudit.validation.text import MAX_TEXT, clean, pluralize

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"

# This is also the limit for resources and for scopes.
MOST_SPANS: Final = 10_000
MOST_SPAN_BYTES: Final = 2 * 1024 * 1024
_MOST_MESSAGES: Final = 20_000
_MOST_ATTRIBUTES: Final = 4_000
_MOST_EVENTS: Final = 200
_MOST_REASONS: Final = 5
_ID_BYTES: Final = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
# The start of a span is in the years 2000 to 2199, in nanoseconds since 1970.
_TIMES: Final = range(946_684_800 * 10**9, 7_258_118_400 * 10**9)


_Part = bytes | memoryview


class BadExport(Exception):
    """Raised for an export that cannot be read. The sender sees the message."""


class TooManySpans(BadExport):
    """Raised for an export with too many spans, or with too many resources, scopes or other messages."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(
            f"The export has more than {most:,} {what}: send fewer spans at a time (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)."
        )
        self.most = most


@dataclass(slots=True)
class Export:
    """The readable spans of an export, the number of rejected spans, and the reasons for the rejections."""

    spans: list[Span]
    rejected: int = 0
    reasons: list[str] | None = None

    def reject(self, reason: str, number: int = 1) -> None:
        self.rejected += number
        self.reasons = self.reasons or []
        if len(self.reasons) < _MOST_REASONS and reason not in self.reasons:
            self.reasons.append(reason)

    @property
    def message(self) -> str:
        """Return the number of rejected spans with the reasons, or an empty text if no span was rejected."""
        if not self.rejected:
            return ""
        said = "; ".join(self.reasons or [])
        return f"{pluralize(self.rejected, 'span')} rejected: {said}."


def read_export(body: bytes, content_type: str, sender: int = 0) -> Export:
    """Return the spans of an export, and the number of rejected spans.

    `sender` is the number of the API key that sent the export. Raises `BadExport` if the export itself cannot be read,
    and `TooManySpans` if it has too many spans, resources, scopes or other messages.
    """
    export = Export([])
    # All spans are counted before the first span is decoded. The spans of a protobuf body are not copied.
    if content_type == PROTOBUF:
        parts, read = list(_split(memoryview(body), _PROTOBUF_LISTS)), _read_protobuf
    else:
        parts, read = list(_split(_replace_halves(body), _JSON_LISTS)), _read_json
    for number, part in enumerate(parts):
        try:
            _check_size(part)
            export.spans.append(read(part, sender))
        except Refused as error:
            export.reject(f"span {number}: {error}")
    return export


def write_answer(export: Export, content_type: str) -> bytes:
    """Return the ExportTraceServiceResponse with the number of rejected spans and the reasons."""
    if content_type == PROTOBUF:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415 -- 3 MB, which few need

        answer = trace_service_pb2.ExportTraceServiceResponse()
        if export.rejected:
            answer.partial_success.rejected_spans = export.rejected
            answer.partial_success.error_message = export.message
        return answer.SerializeToString()
    partial = {"rejectedSpans": str(export.rejected), "errorMessage": export.message}
    return orjson.dumps({"partialSuccess": partial} if export.rejected else {})


# The codes of gRPC by HTTP status.
_CODES: Final = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 413: 8, 415: 3, 422: 3, 429: 8, 503: 14}
_INTERNAL: Final = 13


def answer_type(content_type: str) -> str:
    """Return the content type of the answer to a request with `content_type`."""
    return PROTOBUF if content_type == PROTOBUF else JSON


def write_status(http_status: int, message: str, content_type: str) -> bytes:
    """Return the `google.rpc.Status` of an error. Its two fields need no schema."""
    code = _CODES.get(http_status, _INTERNAL)
    if content_type != PROTOBUF:
        return orjson.dumps({"code": code, "message": message})
    text = message.encode("utf-8", "replace")
    return b"\x08" + bytes([code]) + b"\x12" + _write_varint(len(text)) + text


def _write_varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _check_size(part: _Part) -> None:
    if len(part) > MOST_SPAN_BYTES:
        raise Refused(f"it has {len(part):,} bytes, and {MOST_SPAN_BYTES:,} are allowed: capture less content")


def _split(body: _Part, lists: Sequence[Callable[[_Part], Iterable[_Part]]]) -> Iterator[_Part]:
    """Yield the spans of an export. `lists` are the functions that return the resources, the scopes and the spans."""
    parts: Iterator[_Part] = iter((body,))
    for items_of, what in zip(lists, ("resources", "scopes", "spans"), strict=True):
        parts = _limit(chain.from_iterable(map(items_of, parts)), what)
    return parts


def _limit(parts: Iterable[_Part], what: str) -> Iterator[_Part]:
    for number, part in enumerate(parts):
        if number >= MOST_SPANS:
            raise TooManySpans(MOST_SPANS, what)
        yield part


_BROKEN: Final = "The body is not an ExportTraceServiceRequest: it breaks off or has a field of a wrong type."
# The size in bytes of a field of fixed size, by wire type.
_FIXED: Final = {1: 8, 5: 4}


def _messages(wanted: int, body: _Part) -> Iterator[_Part]:
    """Yield each message with the field number `wanted`. Other fields are skipped."""
    at = seen = 0
    end = len(body)
    while at < end:
        key, at = _varint(body, at, end)
        seen += 1
        if seen > _MOST_MESSAGES:
            raise TooManySpans(_MOST_MESSAGES, "messages")
        kind = key & 7
        if kind == 2:
            length, at = _varint(body, at, end)
            if at + length > end:
                raise BadExport(_BROKEN)
            if key >> 3 == wanted:
                yield body[at : at + length]
            at += length
        elif kind == 0:
            _, at = _varint(body, at, end)
        elif kind in _FIXED and at + _FIXED[kind] <= end:
            at += _FIXED[kind]
        else:
            raise BadExport(_BROKEN)


def _varint(body: _Part, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadExport(_BROKEN)


# The numbers of the same fields as in `_JSON_LISTS`.
_PROTOBUF_LISTS: Final = tuple(partial(_messages, number) for number in (1, 2, 2))


def _read_protobuf(part: _Part, sender: int) -> Span:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 -- as above
    from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: PLC0415 -- as above

    try:
        span = trace_pb2.Span.FromString(bytes(part))
    except DecodeError as error:
        raise Refused("it is not a protobuf message of a span, or is nested too deep") from error
    ids = [_checked_id(name, value.hex()) for name, value in _ids(span)]
    events = ((event.name, _proto_roles(event.attributes)) for event in span.events[:_MOST_EVENTS])
    times = span.start_time_unix_nano, span.end_time_unix_nano
    return _make(span.name, ids, times, _proto_roles(span.attributes), events, sender)


def _ids(span: "ProtoSpan") -> Iterable[tuple[str, bytes]]:
    return zip(_ID_BYTES, (span.trace_id, span.span_id, span.parent_span_id), strict=True)


def _proto_roles(attributes: Any) -> Roles:
    return Roles(((one.key, one.value) for one in attributes[:_MOST_ATTRIBUTES]), _decode_protobuf)


def _decode_protobuf(value: "AnyValue", deepest: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None or deepest == 0 or kind == "bytes_value":
        return None
    if kind == "array_value":
        return [_decode_protobuf(one, deepest - 1) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {one.key: _decode_protobuf(one.value, deepest - 1) for one in value.kvlist_value.values}
    return getattr(value, kind)


_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


# An escaped backslash, a whole surrogate pair, or one half of a pair.
_HALF: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_SIZE_OF_HALF: Final = 6


def _replace_halves(body: bytes) -> bytes:
    """Return JSON with U+FFFD for each lone half of a surrogate pair.

    JavaScript writes such a half where a text was cut inside a character. A lone half would make the export unreadable.
    """
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _HALF.sub(lambda match: rb"\ufffd" if len(match[0]) == _SIZE_OF_HALF else match[0], body)


def _array_in(decoder: msgspec.json.Decoder[msgspec.Struct], body: _Part) -> list[bytes]:
    """Return the items of the only field that `decoder` reads."""
    try:
        (raw,) = msgspec.structs.astuple(decoder.decode(body))
        return [] if bytes(raw) == b"null" else split_array(bytes(raw), MOST_SPANS)
    except _UNREADABLE as error:
        raise BadExport(f"The body is not OTLP/JSON: {error}. Send an object with resourceSpans.") from error


# The fields of an export with resources, of a resource with scopes, and of a scope with spans, by the protocol's names.
_JSON_LISTS: Final = tuple(
    partial(_array_in, msgspec.json.Decoder(msgspec.defstruct(name, [(name, msgspec.Raw, msgspec.Raw(b"[]"))])))
    for name in ("resourceSpans", "scopeSpans", "spans")
)


def _read_json(part: _Part, sender: int) -> Span:
    try:
        span = orjson.loads(part)
    except orjson.JSONDecodeError as error:
        raise Refused(f"it is not JSON: {error}") from error
    if not isinstance(span, dict):
        raise Refused("it is not an object")
    ids = [_checked_id(name, span.get(name) or "") for name in _ID_BYTES]
    times = _time_in(span, "startTimeUnixNano"), _time_in(span, "endTimeUnixNano")
    events = [
        (str(event.get("name", "")), _json_roles(event.get("attributes")))
        for event in _objects(span.get("events"), _MOST_EVENTS)
    ]
    name = span.get("name", "")
    if not isinstance(name, str):
        raise Refused("name is not text")
    return _make(name, ids, times, _json_roles(span.get("attributes")), events, sender)


def _time_in(span: dict[str, Any], name: str) -> int:
    """Return a time in nanoseconds, or 0 if there is none.

    Raises `Refused` for anything but an unsigned 64-bit integer, as a number or as text.
    """
    given = span.get(name) or 0
    value = integer_of(given)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise Refused(f"{name} is {clean(str(given), 40)}: send nanoseconds since 1970")
    return value


def _objects(value: object, most: int | None = None) -> list[dict[str, Any]]:
    return [one for one in value[:most] if isinstance(one, dict)] if isinstance(value, list) else []


def _json_roles(attributes: object) -> Roles:
    pairs = ((one.get("key"), one.get("value")) for one in _objects(attributes, _MOST_ATTRIBUTES))
    return Roles(((key, value) for key, value in pairs if isinstance(key, str)), _decode_json)


def _decode_json(value: Any, deepest: int) -> Any:
    if not isinstance(value, dict) or deepest == 0:
        return None
    decode = next((decode for name, decode in _JSON_VALUES.items() if name in value), None)
    return decode(value, deepest - 1) if decode else None


def _decode_list(value: Any, deepest: int) -> Any:
    inner = value["arrayValue"]
    values = inner.get("values") if isinstance(inner, dict) else None
    return [_decode_json(one, deepest) for one in values] if isinstance(values, list) else []


def _decode_object(value: Any, deepest: int) -> Any:
    inner = value["kvlistValue"]
    pairs = _objects(inner.get("values") if isinstance(inner, dict) else None)
    return {str(one.get("key")): _decode_json(one.get("value"), deepest) for one in pairs}


_JSON_VALUES: Final[dict[str, Callable[[Any, int], Any]]] = {
    "stringValue": lambda value, _: value["stringValue"] if isinstance(value["stringValue"], str) else None,
    "boolValue": lambda value, _: value["boolValue"],
    "intValue": lambda value, _: integer_of(value["intValue"]),
    "doubleValue": lambda value, _: value["doubleValue"],
    "arrayValue": _decode_list,
    "kvlistValue": _decode_object,
}


def _checked_id(name: str, value: object) -> str:
    """Return an id in lower-case hexadecimal digits, or an empty text for an absent id of a parent.

    Raises `Refused` for an id that the protocol does not allow.
    """
    size = _ID_BYTES[name]
    if name == "parentSpanId" and (not value or (isinstance(value, str) and not value.strip("0"))):
        return ""
    if isinstance(value, str) and len(value) == 2 * size:
        try:
            found = bytes.fromhex(value)
            # `fromhex` skips whitespace.
            if len(found) == size and any(found):
                return value.lower()
        except ValueError:
            pass
    given = clean(value, 40) if isinstance(value, str) else type(value).__name__
    raise Refused(f"{name} is {given!r}: send {size} bytes, not all zero")


def _make(
    name: str,
    ids: list[str],
    times: tuple[int, int],
    roles: Roles,
    events: Iterable[tuple[str, Roles]],
    sender: int,
) -> Span:
    started, ended = times
    if started not in _TIMES:
        raise Refused(f"startTimeUnixNano is {started}: send nanoseconds since 1970")
    # Cut the name first, because rules search the name with patterns.
    name = clean(name, MAX_TEXT)
    facts, conversation = read_facts(name, roles, events)
    trace_id, span_id, parent_id = ids
    ended = ended if ended in _TIMES else started
    return Span(trace_id, span_id, parent_id, name, started, max(started, ended), conversation, facts, sender)
